"""Who calls is seen, though no scheduler of ours is there: schedulers of other kinds, and what a crontab starts."""

import re
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta

import pytest
from apscheduler.schedulers.background import BackgroundScheduler

from cronce import Cronce
from cronce.integrations.apscheduler import protect
from cronce.model import ABSENT, Mark, Slot, Write
from cronce.protocol.record import Outcome, Record, State, encode
from cronce.stores.memory import MemoryStore
from cronce.web.app import application
from tests.house.wait import wait_until
from tests.web.house import Browser
from tests.web.pages.paper import paper


def work() -> None:
    """Nothing."""


def test_protected_schedulers_are_shown_with_their_kind_their_schedule_and_their_next_slot() -> None:
    """Under four of them the page said "All is well … 0 schedulers", and "No scheduler is alive"."""
    with ExitStack() as stack:
        store = MemoryStore()
        for _ in range(2):
            cron = stack.enter_context(closing(Cronce(store=store)))
            scheduler = BackgroundScheduler(timezone=UTC)
            protect(scheduler, cron)
            scheduler.add_job(work, "cron", minute="*/5", id="order-sync")
            scheduler.start()
            stack.callback(scheduler.shutdown)
        page = Browser(application(stack.enter_context(closing(Cronce(store=store))), private=False))
        wait_until(lambda: page.get("/").text.count("data-guest=") == 2)
        shown = paper(page, "/").text
    assert shown.count("APScheduler · 1 job · next order-sync cron[minute='*/5'] in ") == 2
    assert "No scheduler is alive" not in shown
    assert "2 of APScheduler" in shown


@pytest.mark.parametrize(
    ("pids", "kind"), [((11, 12), "calls, as from a crontab · 1 job"), ((11, 11), "a process · 1 job")]
)
def test_a_host_that_calls_is_shown_with_when_it_last_did(pids: tuple[int, int], kind: str) -> None:
    now = datetime(2026, 3, 28, 12, 7, 13, tzinfo=UTC)
    store = MemoryStore(lambda: now)
    with closing(Cronce(store=store)) as cron:
        writes = []
        for back, pid in enumerate(pids, 1):
            at = now.replace(second=0) - timedelta(minutes=back)
            record = Record(State.CLOSED, 1, "n", f"web-1:{pid}:ab", started=at, finished=at, outcome=Outcome.SUCCEEDED)
            writes.append(Write(Slot("backup", at).cell, ABSENT, encode(record), Mark.CLOSED, at, grant=True))
        node = cron.at_work().node
        assert {one.refused for one in node.store.swap(writes, store.load([]).epoch.seen).verdicts} == {None}
        shown = paper(Browser(application(cron, private=False)), "/").text
    assert f"web-1 {kind} · last call 1m 13s ago" in shown
    assert "All is well: 0 jobs, calls from 1 host, the last run started 1m 13s ago." in shown


def test_a_host_whose_crontab_calls_is_shown_with_the_schedule_and_the_next_slot() -> None:
    """Its calls bring their schedule: it was on record, and shown nowhere near who calls."""
    with closing(Cronce(store=MemoryStore())) as cron:
        cron.job("17 4 1 1 *", name="backup")(work)()
        cron.job("0 0 1 1 *", name="archive")(work)()
        shown = paper(Browser(application(cron, private=False)), "/").text
    assert re.search(r"a process · 2 jobs · next archive 0 0 1 1 \* in \d+d.* · last call ", shown)
