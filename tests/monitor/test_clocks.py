"""Clocks that are set, and nights in which they change: nobody is told of what is not so, and of all that is."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cronce import Cronce
from cronce.clock import SystemClock
from cronce.model import Mark, Write, holder_cell, spell
from cronce.monitor import monitor as subject
from cronce.monitor.monitor import Monitor
from cronce.protocol.lease import Sample
from cronce.protocol.notices import Holder, encode_notice
from cronce.protocol.store_clock import Doubt
from cronce.runtime.declare import Declaration, declare
from cronce.runtime.flow import Flow
from cronce.runtime.queries import load
from cronce.runtime.scheduling.roster import HOLDER_TTL
from cronce.stores.base import Page, Scan
from cronce.stores.memory import MemoryStore
from tests.house.wait import wait_until
from tests.monitor.shelf import HOUR, MINUTE, SECOND, Town
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


@pytest.mark.slow
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


@pytest.mark.slow
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
    store.swap([Write(holder_cell(WEB), 0, encode_notice(alive), Mark.OPEN, ttl=SECOND)], store.load([]).epoch.seen)
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


def test_when_the_clock_jumped_nothing_else_is_judged_until_every_scheduler_could_send_a_heartbeat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = HandClock()
    jumped = Doubt("jumped 1h ahead", HOUR, Sample(0.0, 0.0, START))
    doubts: list[Doubt | None] = []

    def doubted(_ledger: object) -> Flow[Doubt | None]:
        yield from load([])
        return doubts.pop(0)

    monkeypatch.setattr(subject, "SystemClock", lambda: clock)
    monkeypatch.setattr(subject, "clock_doubt", doubted)
    store = Wire(clock)
    alive = Holder(WEB, "", "both", 1, {}, START, "")
    store.swap([Write(holder_cell(WEB), 0, encode_notice(alive), Mark.OPEN, ttl=SECOND)], store.load([]).epoch.seen)
    clock.turn(2.0)  # the scheduler seems to be dead
    with Cronce(store=store) as cron:
        monitor = Monitor(cron)
        sender = monitor._arrive()
        told = []
        for doubt in (jumped, jumped, *[None] * 10):
            doubts.append(doubt)
            monitor._survey(sender)
            told.append([one.alert.kind for one in sender.deliver().posted if one.alert.cleared is None])
            clock.turn(subject.SURVEY_EVERY)
    until = round(HOLDER_TTL.total_seconds() / subject.SURVEY_EVERY) + 1
    assert told[:until] == [["clock"]] * until
    assert (told[until], told[-1]) == (["clock", "gone"], ["gone"])


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
    store.swap([Write(holder_cell(WEB), 0, encode_notice(alive), Mark.OPEN, ttl=HOUR)], store.load([]).epoch.seen)
    with Cronce(store=store) as cron, Monitor(cron) as monitor:
        wait_until(lambda: store.looks > 3)
        store.ahead = HOUR + MINUTE
        wait_until(lambda: [one.kind for one in monitor.standing] == ["clock"])
        looks = store.looks
        cron.at_work().node.ledger.know.believe()
        wait_until(lambda: store.looks > looks + 5)
        assert [one.kind for one in monitor.standing] == ["clock"]
        monitor._judge_from = 0.0  # half a minute later it is still silent
        wait_until(lambda: [one.kind for one in monitor.standing if one.cleared is None] == ["gone"])
