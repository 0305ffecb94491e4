"""Triggers that say the same in every process."""

import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from cronce import Cronce
from cronce.errors import BadInput
from cronce.integrations.apscheduler import CronceTrigger, protect, report, same_everywhere, shortest_gap, slot_instant
from cronce.stores.memory import MemoryStore

NOON = datetime(2026, 3, 28, 12, tzinfo=UTC)


def nothing() -> None:
    """A body."""


@pytest.fixture
def cron() -> Iterator[Cronce]:
    with closing(Cronce(store=MemoryStore())) as cron:
        yield cron


def fires(trigger: Any, now: datetime, count: int) -> list[datetime]:
    found: list[datetime] = []
    for _ in range(count):
        found.append(trigger.get_next_fire_time(*((found[-1], found[-1]) if found else (None, now))))
    return [at.astimezone(UTC) for at in found]


@pytest.mark.parametrize("late", [0.1, 3.7, 899.99])
def test_an_interval_that_each_process_began_at_its_own_moment_is_on_the_epoch_grid(late: float) -> None:
    began = NOON + timedelta(seconds=late)
    trigger = same_everywhere(IntervalTrigger(minutes=15, start_date=began + timedelta(minutes=15), timezone=UTC))
    assert fires(trigger, began, 2) == [NOON + timedelta(minutes=15), NOON + timedelta(minutes=30)]


def test_a_start_that_somebody_wrote_down_is_kept() -> None:
    trigger = same_everywhere(IntervalTrigger(days=1, start_date="2026-03-01 06:30:00", timezone="Europe/Berlin"))
    assert fires(trigger, NOON, 2) == [
        datetime(2026, 3, 29, 5, 30, tzinfo=UTC),
        datetime(2026, 3, 30, 5, 30, tzinfo=UTC),
    ]
    assert slot_instant(trigger, NOON) == datetime(2026, 3, 28, 5, 30, tzinfo=UTC)


def test_a_run_time_between_two_instants_of_the_grid_is_for_the_first() -> None:
    trigger = IntervalTrigger(minutes=15, start_date=NOON + timedelta(seconds=0.5), timezone=UTC)
    assert slot_instant(trigger, NOON + timedelta(minutes=29, seconds=3)) == NOON + timedelta(minutes=15)
    assert slot_instant(trigger, NOON) == NOON


def test_jitter_is_left_out() -> None:
    inner = CronTrigger(minute=30, jitter=20, timezone=UTC)
    same_everywhere(OrTrigger([inner, CronTrigger(minute=45, timezone=UTC)], jitter=5))
    assert fires(inner, NOON, 1) == [NOON + timedelta(minutes=30)]
    interval = same_everywhere(IntervalTrigger(minutes=5, jitter=60, start_date=NOON, timezone=UTC))
    assert fires(interval, NOON, 3) == [NOON + timedelta(minutes=5 * number) for number in range(3)]


@pytest.mark.parametrize("combine", [AndTrigger, OrTrigger])
def test_an_interval_among_others_is_refused(combine: Any) -> None:
    with pytest.raises(BadInput, match="a job of its own"):
        same_everywhere(combine([IntervalTrigger(minutes=5), CronTrigger(hour=3)]))


def test_an_interval_of_half_a_second_is_refused() -> None:
    with pytest.raises(BadInput, match="whole seconds"):
        same_everywhere(IntervalTrigger(seconds=0.5))


def test_jobs_that_were_there_before_are_put_on_the_grid(cron: Cronce) -> None:
    scheduler = BackgroundScheduler(timezone=UTC)
    scheduler.add_job(nothing, "interval", hours=1, id="pending")
    protect(scheduler, cron)
    scheduler.start(paused=True)
    assert scheduler.get_job("pending").next_run_time.strftime("%M:%S.%f") == "00:00.000000"
    scheduler.reschedule_job("pending", trigger="interval", minutes=30, jitter=100)
    assert scheduler.get_job("pending").next_run_time.strftime("%S.%f") == "00.000000"
    scheduler.shutdown()

    running = BackgroundScheduler(timezone=UTC)
    running.start(paused=True)
    running.add_job(nothing, "interval", hours=1, id="there", jitter=10)
    protect(running, cron)
    assert running.get_job("there").next_run_time.strftime("%M:%S.%f") == "00:00.000000"
    running.shutdown()


@pytest.mark.parametrize(
    ("trigger", "gap"),
    [
        (CronTrigger(minute="0,1", timezone=UTC), timedelta(minutes=1)),
        (IntervalTrigger(seconds=2), timedelta(seconds=2)),
        (CronTrigger(year=2026, month=6, day=1, hour=0, minute=0, second=0, timezone=UTC), None),
    ],
)
def test_how_close_run_times_are(trigger: Any, gap: timedelta | None) -> None:
    assert shortest_gap(trigger) == gap


def test_a_schedule_of_ours_as_a_trigger_knows_what_clocks_do() -> None:
    """01:30 comes twice in New York on 1 November 2026, and 02:30 not at all on 8 March."""
    autumn = datetime(2026, 10, 31, 12, tzinfo=UTC)
    theirs = CronTrigger.from_crontab("30 1 * * *", timezone="America/New_York")
    ours = CronceTrigger("30 1 * * *", tz="America/New_York")
    assert [at.day for at in fires(theirs, autumn, 3)] == [1, 1, 2]
    assert [at.day for at in fires(ours, autumn, 3)] == [1, 2, 3]
    spring = datetime(2026, 3, 7, 12, tzinfo=UTC)
    assert fires(CronceTrigger("30 2 * * *", tz="America/New_York"), spring, 1) == [datetime(2026, 3, 8, 7, tzinfo=UTC)]
    assert str(ours) == "cronce[30 1 * * *]"


def test_it_is_stored_by_its_public_name() -> None:
    """A job store keeps the path of its class: a module inside of ours could not be renamed any more."""
    assert CronceTrigger.__module__ == "cronce.integrations.apscheduler"


def test_one_that_was_stored_by_its_old_path_is_restored() -> None:
    """APScheduler deleted such a job from the shared store, and no process ran it any more."""
    old = pickle.dumps(CronceTrigger("@daily", tz="Europe/Berlin"), protocol=0).replace(
        b"cronce.integrations.apscheduler\n", b"cronce.integrations.apscheduler.triggers\n"
    )
    assert b"apscheduler.triggers" in old
    restore = f"import pickle; print(pickle.loads({old!r}))"
    told = subprocess.run([sys.executable, "-c", restore], capture_output=True, text=True, check=True)
    assert told.stdout == "cronce[0 0 * * *]\n"


def test_it_is_stored_with_its_job(cron: Cronce, tmp_path: Path) -> None:
    jobs = SQLAlchemyJobStore(f"sqlite:///{tmp_path}/jobs.db")
    scheduler = BackgroundScheduler(timezone=UTC, jobstores={"default": jobs})
    protect(scheduler, cron)
    scheduler.start(paused=True)
    scheduler.add_job(nothing, CronceTrigger("@daily", tz="Europe/Berlin"), id="daily")
    read = scheduler.get_job("daily")
    assert read.trigger.get_next_fire_time(None, NOON) == datetime(2026, 3, 28, 23, tzinfo=UTC)
    assert report(scheduler)[-1] == "the job store 'default' is an SQLite file: it can be shared on one machine only"
    scheduler.shutdown()


@pytest.fixture
def _at_noon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where no day ends within the test."""
    yield from _where(monkeypatch, f"<noon>{datetime.now(UTC).hour - 12}")


@pytest.mark.usefixtures("_at_noon")
def test_what_is_not_safe_is_reported(cron: Cronce, caplog: pytest.LogCaptureFixture) -> None:
    scheduler = BackgroundScheduler(timezone=UTC)
    scheduler.add_job(nothing, CronTrigger(minute=30, jitter=20, timezone=UTC), id="jittered")
    scheduler.add_job(nothing, "interval", minutes=5)
    scheduler.add_job(nothing, "date", run_date=NOON)
    scheduler.add_job(nothing, id="errand", misfire_grace_time=60)
    scheduler.add_job(nothing, CalendarIntervalTrigger(days=2, timezone=UTC), id="calendar", misfire_grace_time=2)
    scheduler.add_job(nothing, "cron", hour=3, id="now", next_run_time=datetime(2026, 1, 1, 1, 1, 1, 1, UTC))
    scheduler.add_job(nothing, "cron", hour=3, id="fine", misfire_grace_time=60)
    said = report(scheduler)
    about = ["job_defaults", "jittered", "nothing has no id", "nothing has a date and no id", "errand"]
    about += ["calendar", "calendar", "now"]
    assert [line.partition(":")[0].partition(",")[0] for line in said] == about
    assert "so cronce names it" in said[2]
    assert all("runs in each process that adds it" in line for line in said[3:5])
    protect(scheduler, cron)
    scheduler.start(paused=True)
    assert [record.message for record in caplog.records if record.name == "cronce"].count(report(scheduler)[0]) == 1
    scheduler.shutdown()


@pytest.fixture
def _abroad(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where it is another day than in UTC."""
    yield from _where(monkeypatch, "<+14>-14" if datetime.now(UTC).hour >= 10 else "<-12>+12")


def _where(monkeypatch: pytest.MonkeyPatch, zone: str) -> Iterator[None]:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_abroad")
def test_today_is_that_of_the_machine_as_apscheduler_has_it() -> None:
    """It was compared with the day in UTC, and the remark was missing for half of each day."""
    scheduler = BackgroundScheduler(timezone=UTC, job_defaults={"misfire_grace_time": 60})
    scheduler.add_job(nothing, CalendarIntervalTrigger(days=2, timezone=UTC), id="calendar")
    (said,) = report(scheduler)
    assert said.startswith("calendar: its days are counted from the day on which")


def test_one_id_in_two_job_stores_is_reported(cron: Cronce) -> None:
    scheduler = BackgroundScheduler(timezone=UTC, job_defaults={"misfire_grace_time": 60})
    scheduler.add_jobstore(MemoryJobStore(), "more")
    for alias in ("default", "more"):
        scheduler.add_job(nothing, "cron", hour=3, id="twin", jobstore=alias)
    said = [
        f"twin: the job stores {both} both have a job with this id, and cronce takes them for one job; give one of them"
        " another id"
        for both in ("'default' and 'more'", "'more' and 'default'")
    ]
    assert report(scheduler) == said
    protect(scheduler, cron)
    scheduler.start(paused=True)
    assert sorted(report(scheduler)) == said
    scheduler.shutdown()


def test_a_calendar_interval_with_a_start_is_fine() -> None:
    scheduler = BackgroundScheduler(timezone=UTC, job_defaults={"misfire_grace_time": 60})
    scheduler.add_job(nothing, CalendarIntervalTrigger(days=2, start_date=date(2026, 1, 1)), id="calendar")
    assert report(scheduler) == []
