"""Clocks that are set, and nights in which they change: nobody is told of what is not so, and of all that is."""

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cronce import Cronce
from cronce.clock import SystemClock
from cronce.model import Mark, Write, holder_cell, spell
from cronce.monitor import monitor as subject
from cronce.monitor.monitor import CLOCK_SET_BY, STEADY_AFTER, Monitor, SteadyClock
from cronce.protocol.notices import Holder, encode_holder
from cronce.runtime.declare import Declaration, declare
from cronce.runtime.flow import Flow
from cronce.runtime.queries import load
from cronce.runtime.scheduling.roster import HOLDER_TTL
from cronce.stores.base import Page, Scan
from cronce.stores.memory import MemoryStore
from tests.house.wait import wait_until
from tests.monitor.shelf import HOUR, MINUTE, SECOND, Town, every
from tests.runtime.shelf import DURABLE, START, HandClock, Wire

WEB = "web-1:1:a"
MICROSECOND = timedelta(microseconds=1)


# --- nights -----------------------------------------------------------------------------------------------------------


def z(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"

FALL, SPRING = z("2026-10-25T01:00"), z("2027-03-28T01:00")  # Berlin: from 3 to 2 o'clock, and from 2 to 3
FALL_NY, SPRING_NY = z("2026-11-01T06:00"), z("2027-03-14T07:00")  # from 2 to 1, and from 2 to 3
FALL_LH, SPRING_LH = z("2027-04-03T15:00"), z("2026-10-03T15:30")  # from 2:00 to 1:30, and from 2:00 to 2:30

NIGHTS: list[tuple[str, str, dict[str, Any], datetime, list[str]]] = [
    (BERLIN, "30 2 * * *", {}, FALL, ["2026-10-25T00:30"]),
    (BERLIN, "30 2 * * *", {"fold": "second"}, FALL, ["2026-10-25T01:30"]),
    (BERLIN, "30 2 * * *", {"fold": "both"}, FALL, ["2026-10-25T00:30", "2026-10-25T01:30"]),
    (BERLIN, "0 3 * * *", {}, FALL, ["2026-10-25T02:00"]),
    (BERLIN, "0 * * * *", {}, FALL, [f"2026-10-{day}T{hour}:00" for day, hour in
                                     (("24", "23"), ("25", "00"), ("25", "01"), ("25", "02"), ("25", "03"))]),
    (BERLIN, "30 2 * * *", {}, SPRING, ["2027-03-28T01:00"]),
    (BERLIN, "30 2 * * *", {"gap": "skip"}, SPRING, []),
    (BERLIN, "0 3 * * *", {}, SPRING, ["2027-03-28T01:00"]),
    (BERLIN, "0 * * * *", {}, SPRING, [f"2027-03-{day}T{hour}:00" for day, hour in
                                       (("27", "23"), ("28", "00"), ("28", "01"), ("28", "02"), ("28", "03"))]),
    (NEW_YORK, "30 1 * * *", {}, FALL_NY, ["2026-11-01T05:30"]),
    (NEW_YORK, "30 1 * * *", {"fold": "both"}, FALL_NY, ["2026-11-01T05:30", "2026-11-01T06:30"]),
    (NEW_YORK, "30 2 * * *", {}, SPRING_NY, ["2027-03-14T07:00"]),
    (NEW_YORK, "30 2 * * *", {"gap": "skip"}, SPRING_NY, []),
    (LORD_HOWE, "45 1 * * *", {}, FALL_LH, ["2027-04-03T14:45"]),
    (LORD_HOWE, "45 1 * * *", {"fold": "second"}, FALL_LH, ["2027-04-03T15:15"]),
    (LORD_HOWE, "45 1 * * *", {"fold": "both"}, FALL_LH, ["2027-04-03T14:45", "2027-04-03T15:15"]),
    (LORD_HOWE, "15 2 * * *", {}, SPRING_LH, ["2026-10-03T15:30"]),
    (LORD_HOWE, "15 2 * * *", {"gap": "skip"}, SPRING_LH, []),
]  # fmt: skip

nights = pytest.mark.parametrize(
    ("zone", "cron", "policies", "change", "slots"),
    NIGHTS,
    ids=[f"{zone}-{cron}-{policies}-{change:%Y-%m-%d}" for zone, cron, policies, change, _ in NIGHTS],
)


def begun(job: Declaration, change: datetime) -> Town:
    """It is carried, and watched, from two hours and some before the clocks change."""
    town = Town()
    town.pass_time(change - 2 * HOUR - 10 * MINUTE - town.now)
    town.beat(WEB, job)
    assert town.kinds() == []
    return town


def steps(town: Town, end: datetime) -> Iterator[None]:
    """The scheduler beats, to the end."""
    while town.now < end:
        town.pass_time(MINUTE)
        town.beat(WEB, since=START)
        yield


@nights
def test_of_a_night_in_which_all_ran_nothing_is_told(
    zone: str, cron: str, policies: dict[str, Any], change: datetime, slots: list[str]
) -> None:
    job = declare("billing", cron, tz=zone, **policies)
    town, due = begun(job, change), [z(one) for one in slots]
    for _ in steps(town, change + 2 * HOUR + 10 * MINUTE):
        while due and due[0] <= town.now:
            town.run(job, due.pop(0))
        assert town.kinds() == []
    assert due == []
    assert town.fresh() == []  # nor to whoever comes in the morning


@nights
def test_of_a_night_in_which_none_ran_each_is_missed_a_minute_after_it_was_due(
    zone: str, cron: str, policies: dict[str, Any], change: datetime, slots: list[str]
) -> None:
    job = declare("billing", cron, tz=zone, **policies)
    town, due = begun(job, change), [z(one) for one in slots]
    told: list[tuple[str, datetime]] = []
    for _ in steps(town, change + 2 * HOUR + 10 * MINUTE):
        found = town.look()
        over = [at for at in due if at + MINUTE < town.now]
        assert [one.id for one in found] == (["missed/billing"] if over else [])
        told += [(one.text, one.since) for one in found if (one.text, one.since) not in told]
    since = [at + MINUTE for at in due[:1]] * len(due)
    assert told == list(zip(missed(due), since, strict=True))


def missed(due: list[datetime]) -> Iterator[str]:
    """What is said, as one after the other is missed."""
    for count, _ in enumerate(due, 1):
        which = (
            f"{count} slots fell due and did not run, the first" if count > 1 else "1 slot fell due and did not run,"
        )
        yield f"billing: {which} at {spell(due[0])}."


# --- clocks that are set ----------------------------------------------------------------------------------------------


class Judge:
    """Somebody who watches, as a monitor does: by the store's clock, as long as that goes evenly."""

    def __init__(self, town: Town) -> None:
        self._town, self._evenly = town, SteadyClock()

    def kinds(self) -> list[str] | None:
        """None: not now."""
        seen = self._town.survey()
        return self._town.kinds() if self._evenly.goes(seen.now, self._town.clock.boot()) else None


@pytest.mark.parametrize("hours", [1, -1])
def test_when_the_stores_clock_is_set_nothing_is_told_that_is_not_so_and_then_all_that_is(hours: int) -> None:
    job, town = every("10m"), Town()
    town.beat(WEB, job)
    judge = Judge(town)
    assert judge.kinds() == []
    town.pass_time(5 * SECOND)
    town.clock.back -= hours * 3600  # somebody sets it
    # as it seems to whoever comes just now
    assert town.fresh() == (["missed/billing", "silent/"] if hours > 0 else ["ahead/jobs", "ahead/leases"])
    ahead = [] if hours > 0 else ["ahead/jobs"]  # it begins later than it is now
    assert judge.kinds() is None
    for _ in range(5):
        town.pass_time(5 * SECOND)
        town.beat(WEB, since=START)
        assert judge.kinds() is None
    town.pass_time(5 * SECOND)
    if hours > 0:
        town.run(job, START + HOUR)
    assert judge.kinds() == ahead
    town.pass_time(HOLDER_TTL)
    assert sorted(judge.kinds() or []) == [*ahead, f"gone/{WEB}", "silent/"]


def test_a_clock_that_goes_a_little_otherwise_was_not_set() -> None:
    evenly = SteadyClock()
    assert evenly.goes(START, 5000.0)
    assert evenly.goes(START + 5 * SECOND + CLOCK_SET_BY, 5005.0)
    assert evenly.goes(START + 10 * SECOND, 5010.0)
    assert not evenly.goes(START + 15 * SECOND + CLOCK_SET_BY + MICROSECOND, 5015.0)
    settled = 5015.0 + STEADY_AFTER.total_seconds()
    assert not evenly.goes(START + 15 * SECOND + CLOCK_SET_BY + MICROSECOND + STEADY_AFTER - SECOND, settled - 1.0)
    assert evenly.goes(START + 15 * SECOND + CLOCK_SET_BY + MICROSECOND + STEADY_AFTER, settled)


def test_a_clock_that_keeps_being_set_is_told_once_until_it_goes_evenly_again(caplog: pytest.LogCaptureFixture) -> None:
    evenly, boot, ahead = SteadyClock(), 5000.0, timedelta(0)

    def look(*, sets: timedelta = timedelta(0)) -> bool:
        nonlocal boot, ahead
        boot, ahead = boot + 20.0, ahead + sets
        return evenly.goes(START + timedelta(seconds=boot) + ahead, boot)

    told = [
        (
            "cronce",
            logging.WARNING,
            "the store's clock changes again and again; the monitor waits until it runs steadily",
        )
    ]
    for times in (1, 2):
        assert look()
        assert [look(sets=MINUTE) for _ in range(4)] == [False] * 4  # for twice as long as it takes to settle
        assert caplog.record_tuples == told * (times - 1)
        assert [look(sets=MINUTE) for _ in range(20)] == [False] * 20
        assert caplog.record_tuples == told * times
        assert not look()
        assert look()
    assert not look(sets=HOUR)  # once is no matter
    assert not look()
    assert look()
    assert caplog.record_tuples == told * 2


def believed() -> Flow[None]:
    """The store's clock is."""
    yield from load([])


class Slow(Wire):
    """A store that takes so many seconds to say who is alive."""

    takes = 0.0

    def scan(self, scan: Scan) -> Page:
        if scan.prefix == "holder/":
            self.clock.turn(self.takes)
        return super().scan(scan)


def test_a_survey_that_takes_long_is_no_clock_that_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = HandClock()
    monkeypatch.setattr(subject, "SystemClock", lambda: clock)
    monkeypatch.setattr(subject, "clock_doubt", lambda _ledger: believed())
    store = Slow(clock)
    alive = Holder(WEB, "", "both", 1, {}, START, "")
    store.swap([Write(holder_cell(WEB), 0, encode_holder(alive), Mark.OPEN, ttl=SECOND)], store.load([]).epoch.seen)
    with Cronce(store=store) as cron:
        monitor = Monitor(cron)
        sender = monitor._arrive()
        told = []
        for takes in (0.0, 20.0, 0.0, 20.0):
            store.takes = takes
            monitor._survey(sender)
            told.append([one.alert.kind for one in sender.deliver().posted])
            clock.turn(subject.SURVEY_EVERY)
    assert told == [[], ["gone"], ["gone"], ["gone"]]


class Settable(MemoryStore):
    """A store whose clock can be set, and that counts how often somebody looks at who is alive."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)
        self.looks = 0
        clock = SystemClock()
        super().__init__(lambda: clock.wall() + self.ahead, DURABLE)

    def scan(self, scan: Scan) -> Page:
        self.looks += scan.prefix == "holder/"
        return super().scan(scan)


def test_a_monitor_waits_until_the_clock_has_gone_evenly_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"SURVEY_EVERY": 0.1, "NOTICES_EVERY": 0.05}.items():
        monkeypatch.setattr(subject, name, seconds)
    store = Settable()
    alive = Holder(WEB, "", "both", 1, {}, store.load([]).now, "")
    store.swap([Write(holder_cell(WEB), 0, encode_holder(alive), Mark.OPEN, ttl=HOUR)], store.load([]).epoch.seen)
    with Cronce(store=store) as cron, Monitor(cron) as monitor:
        wait_until(lambda: store.looks > 3)
        store.ahead = HOUR + MINUTE
        wait_until(lambda: [one.kind for one in monitor.standing] == ["clock"])
        looks = store.looks
        cron.at_work().node.ledger.know.believe()
        wait_until(lambda: store.looks > looks + 5)
        assert [one.kind for one in monitor.standing] == ["clock"]
        monitor._evenly._from = 0.0  # half a minute later it is still silent
        wait_until(lambda: [one.kind for one in monitor.standing if one.cleared is None] == ["gone"])
