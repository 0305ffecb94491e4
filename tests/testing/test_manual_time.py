"""A clock that a test turns by hand, on the real scheduler: what runs in a day, a clock change, an outage."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from cronce import Cronce, Skipped
from cronce.errors import BadInput
from cronce.protocol.record import Outcome
from cronce.testing.manual_time import Manual, manual

HOUR = timedelta(hours=1)
Begin = Callable[..., Manual]


@pytest.fixture
def cron() -> Cronce:
    return Cronce("memory:")


def counted(time: Manual) -> Counter[str]:
    return Counter(ran.slot.key for ran in time.ran)


def test_a_day_passes_in_no_time_and_each_slot_runs_once_in_three_processes(cron: Cronce, cronce_time: Begin) -> None:
    @cron.job(every="15m", name="sync")
    def sync() -> str:
        return "done"

    time = cronce_time(cron, "2026-03-01T00:00:00Z", processes=3)
    ran = time.advance("1d")
    assert [one.slot.at for one in ran] == [datetime(2026, 3, 1, tzinfo=UTC) + n * HOUR / 4 for n in range(1, 97)]
    assert [one.at for one in ran] == [one.slot.at for one in ran]
    assert {one.result for one in ran} == {"done"}
    assert {one.process for one in ran} == {1, 2, 3}
    assert time.now == datetime(2026, 3, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("day", "expression", "fold", "slots"),
    [
        ("2026-11-01", "30 1 * * *", "first", ["05:30"]),
        ("2026-11-01", "30 1 * * *", "second", ["06:30"]),
        ("2026-11-01", "30 1 * * *", "both", ["05:30", "06:30"]),
        ("2026-03-08", "30 2 * * *", "first", ["07:00"]),
    ],
)
def test_a_clock_change_is_lived_through(
    cron: Cronce, cronce_time: Begin, day: str, expression: str, fold: Any, slots: list[str]
) -> None:
    cron.job(expression, tz="America/New_York", fold=fold, name="report")(lambda: None)
    ran = cronce_time(cron, f"{day}T04:00:00Z").advance("1d")
    assert [f"{one.slot.at:%H:%M}" for one in ran] == slots


@pytest.mark.parametrize(
    ("missed", "ran", "span"),
    [("latest", [11], (11, "superseded")), ("skip", [], (12, "missed")), ("all", list(range(12)), None)],
)
@pytest.mark.parametrize("processes", [1, 3])
def test_what_an_outage_missed_is_the_policys_to_say_and_is_on_record(
    cron: Cronce, cronce_time: Begin, processes: int, missed: Any, ran: list[int], span: tuple[int, str] | None
) -> None:
    cron.job(every="15m", missed=missed, start_within="1d", name="sync")(lambda: None)
    time = cronce_time(cron, "2026-03-01T00:01:00Z", processes=processes)
    assert len(time.advance("1h")) == 4
    time.skip("3h4m")  # 01:01 to 04:05: twelve slots from 01:15 on
    time.advance("1m")
    caught_up = [(one.slot.at - datetime(2026, 3, 1, 1, 15, tzinfo=UTC)) // (HOUR / 4) for one in time.ran[4:]]
    assert sorted(caught_up) == ran
    spans = time.job("sync").spans
    assert [(one.slots, one.reason) for one in spans] == ([span] if span else [])
    time.skip("1s")  # a restart right after catching up does nothing again
    assert len(time.ran) == 4 + len(ran)
    assert len(time.advance("1h")) == 4
    assert set(counted(time).values()) == {1}


def test_a_backlog_of_more_than_a_thousand_runs_its_newest_thousand(cron: Cronce, cronce_time: Begin) -> None:
    cron.job(every="1m", missed="all", name="sync")(lambda: None)
    time = cronce_time(cron, "2026-03-01T00:00:30Z")
    time.skip("20h")  # 1200 slots
    assert len(time.advance("10s")) == 0
    assert len(time.ran) == 1000
    (span,) = time.job("sync").spans
    assert (span.slots, span.reason) == (200, "capped")


def test_failures_are_retried_with_a_growing_backoff_and_then_closed(cron: Cronce, cronce_time: Begin) -> None:
    @cron.job("0 9 * * *", name="report", retries=3, backoff="1m", on_lost="skip")
    def report() -> None:
        raise ValueError("no printer")

    time = cronce_time(cron, "2026-03-01T00:00:00Z", processes=3)
    ran = time.advance("1d")
    gaps = [later.at - earlier.at for earlier, later in pairwise(ran)]
    backoffs = [cron.jobs["report"].backoff_after(ran[0].slot, failures) for failures in (1, 2, 3)]
    assert all(most / 2 <= one.total_seconds() <= most for one, most in zip(backoffs, (60, 120, 240), strict=True))
    late = [gap - backoff for gap, backoff in zip(gaps, backoffs, strict=True)]
    assert late == [timedelta(milliseconds=number) for number in (0, 5, 5)]  # another finds it at a look
    record = time.records()["report@2026-03-01T09:00:00Z"]
    assert (record.outcome, record.reason) == (Outcome.FAILED, "ValueError: no printer")
    assert [str(one.error) for one in ran] == ["no printer"] * 4
    assert not any(one.ok for one in ran)


def test_jitter_delays_each_slot_by_its_own_measure_the_same_everywhere(cron: Cronce, cronce_time: Begin) -> None:
    cron.job(every="15m", jitter="5m", name="sync")(lambda: None)
    ran = cronce_time(cron, "2026-03-01T00:00:00Z", processes=2).advance("6h5m")
    late = [one.at - one.slot.at for one in ran]
    assert late == [cron.jobs["sync"].delay(one.slot) for one in ran]
    assert len(set(late)) == len(ran) == 24
    assert max(late) < timedelta(minutes=5)


def test_a_job_has_a_beginning_and_an_end(cron: Cronce, cronce_time: Begin) -> None:
    cron.job(every="1h", start="2026-03-01T03:00:00Z", end="2026-03-01T05:00:00Z", name="sync")(lambda: None)
    ran = cronce_time(cron, "2026-03-01T00:00:00Z").advance("1d")
    assert [one.slot.at.hour for one in ran] == [3, 4, 5]


def test_a_coroutine_is_awaited(cron: Cronce, cronce_time: Begin) -> None:
    @cron.job(every="1h", name="sync")
    async def sync() -> int:
        return 7

    assert [one.result for one in cronce_time(cron).advance("2h")] == [7, 7]


def test_a_paused_job_does_not_run_and_does_not_catch_up(cron: Cronce, cronce_time: Begin) -> None:
    cron.job(every="1h", name="sync")(lambda: None)
    time = cronce_time(cron, "2026-03-01T00:00:00Z", processes=2)
    time.advance("2h")
    cron.pause("sync")
    assert time.advance("3h") == []
    cron.resume("sync")
    assert [one.slot.at.hour for one in time.advance("2h")] == [6, 7]


def test_the_kill_switch_stops_every_job(cron: Cronce, cronce_time: Begin) -> None:
    for name in ("sync", "report"):
        cron.job(every="1h", name=name)(lambda: None)
    time = cronce_time(cron, "2026-03-01T00:00:00Z", processes=2)
    cron.pause_all()
    assert time.advance("3h") == []
    cron.resume_all()
    assert sorted(one.slot.key for one in time.advance("1h")) == [
        "report@2026-03-01T04:00:00Z",
        "sync@2026-03-01T04:00:00Z",
    ]


def test_a_trigger_runs_at_once_with_its_payload_and_its_own_key(cron: Cronce, cronce_time: Begin) -> None:
    @cron.job("0 9 * * *", name="bill")
    def bill(run: Any) -> Any:
        return run.key, run.payload

    time = cronce_time(cron, "2026-03-01T00:00:00Z", processes=3)
    key = cron.trigger("bill", payload={"month": "2026-02"})
    assert [one.result for one in time.advance("1m")] == [(key, {"month": "2026-02"})]
    assert [one.result for one in time.advance("1d")] == [("bill@2026-03-01T09:00:00Z", None)]


def test_guards_and_locks_use_the_same_clock_and_store(cron: Cronce) -> None:
    @cron.job(every="1h", name="sync")
    def sync() -> str:
        with cron.lock("books"):
            return "done"

    with manual(cron, "2026-03-01T00:30:00Z") as time:
        assert [one.result for one in time.advance("1h")] == ["done"]
        assert sync() == Skipped("closed", "it is closed: succeeded", "sync@2026-03-01T01:00:00Z", "succeeded")
        assert sorted(time.records()) == ["sync@2026-03-01T01:00:00Z"]


def test_the_app_is_as_it_was_afterwards(cron: Cronce) -> None:
    before = cron._given, cron._clock, cron.keeper
    with manual(cron):
        assert cron._given is not before[0]
    assert (cron._given, cron._clock, cron.keeper) == before


def test_what_makes_no_sense_is_refused(cron: Cronce) -> None:
    with pytest.raises(BadInput, match="workers must be 1 to"), manual(cron, workers=0):
        pass
    with pytest.raises(BadInput, match="processes must be 1 or more"), manual(cron, processes=0):
        pass
    with manual(cron) as time, pytest.raises(BadInput, match="is not a duration"):
        time.advance("tomorrow")
