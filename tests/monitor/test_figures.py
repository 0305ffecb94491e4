"""Numbers that people show: exact on runs that are known."""

from contextlib import closing
from datetime import timedelta

import pytest

from cronce import Cronce
from cronce.model import FREE, Mark, Write, prevented_cell
from cronce.monitor.figures import BINS, RECOUNTED, PreventedTotals, figures, ranked
from cronce.protocol.notices import Prevented, encode_notice
from cronce.protocol.record import Outcome
from cronce.stores.memory import MemoryStore
from tests.web.pictures import NOW, ago, lapsed, ran, runs, skipped

SECOND = timedelta(seconds=1)


def test_success_lateness_duration_and_throughput_of_runs_that_ended() -> None:
    """What was skipped, and what goes on, is none of them; a takeover started when it was first begun."""
    dues = range(100, 2100, 100)
    twenty = [ran("sync", due, started=due - number / 10, ended=due - 5) for number, due in enumerate(dues)]
    failed = ran("sync", 2400, started=2399, ended=2390, outcome=Outcome.FAILED)
    taken = ran("sync", 2600, started=2560, ended=2550, past=(lapsed("web-2:1:a", 2598, 2560),))
    found = figures([*twenty, failed, taken, skipped("sync", 50), runs("sync", 40, "w", started=40, until=-60)], NOW)
    assert found is not None
    assert (found.ran, found.succeeded, round(found.rate, 1)) == (22, 21, 95.5)
    assert found.late == (timedelta(seconds=1), timedelta(seconds=1.9))
    assert found.took == (timedelta(seconds=4.1), timedelta(seconds=9))
    assert (found.since, found.until) == (ago(2598), NOW)
    assert round(found.per_hour, 2) == round(22 / (2598 / 3600), 2)
    assert len(found.bins) == BINS
    assert [sum(one.succeeded for one in found.bins), sum(one.others for one in found.bins)] == [21, 1]
    assert figures([skipped("sync", 50)], NOW) is None


def test_the_nearest_rank() -> None:
    spans = [number * SECOND for number in range(1, 21)]
    assert (ranked(spans, 50), ranked(spans, 95), ranked(spans[:1], 95)) == (10 * SECOND, 19 * SECOND, SECOND)


@pytest.mark.parametrize(("count", "place"), [(1, 1), (5, 5), (19, 19), (20, 19), (40, 38)])
def test_ninety_five_percent_are_the_nearest_rank(count: int, place: int) -> None:
    assert ranked([number * SECOND for number in range(1, count + 1)], 95) == place * SECOND


def test_prevented_duplicates_are_added_over_all_jobs_and_counted_again_in_time() -> None:
    store = MemoryStore(lambda: NOW)
    with closing(Cronce(store=store)) as cron:
        node, totals = cron.at_work().node, PreventedTotals()
        today, before = NOW.date().isoformat(), (NOW - timedelta(days=1)).date().isoformat()

        def put(job: str, part: int, **days: int) -> None:
            by_day = {{"today": today, "before": before}[word]: number for word, number in days.items()}
            value = encode_notice(Prevented(sum(days.values()), by_day))
            store.swap([Write(prevented_cell(job, part), FREE, value, Mark.FREE)], store.load([]).epoch.seen)

        put("sync", 0, today=3, before=4)
        put("sync", 7, today=1)
        put("mail", 0, before=5)
        assert totals.of_all() is None
        node.do(totals.count(node.ledger.client, 0.0))
        known = totals.of_all()
        assert known is not None
        assert (known.total, known.on(NOW)) == (13, 4)
        put("mail", 1, today=2)
        node.do(totals.count(node.ledger.client, RECOUNTED - 0.1))
        assert totals.of_all() == known
        node.do(totals.count(node.ledger.client, RECOUNTED))
        assert totals.of_all() == Prevented(15, {today: 6, before: 9})
