"""Beat: start as many as you like, each entry is sent once per slot.

Every beat has all entries, and runs a scheduler of ours in the background: a slot is claimed, its message is sent with
an id made from the slot, and that is put on record. If a beat dies in between, another takes over, and what may have
been sent is sent again with the same id, which the workers' guard (`worker`) drops. The store has on record what was
sent, and when, also for a beat that starts later.

Celery's tick only checks whether the entries changed, and updates the entries that were sent.

*The broker away.* The thread that is sending waits for it, under its lease. What falls due meanwhile waits until a
sender is free, and is sent if it is not too late by then (`cronce_start_within`, by default until the next slot).

*The store away.* Nothing is claimed, so nothing is sent. When it is back, `cronce_missed` says what becomes of the
slots in between.
"""

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from copy import copy
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache, partial
from typing import Any, Final
from uuid import UUID, uuid5

from celery import beat
from celery.schedules import crontab
from celery.schedules import schedule as interval
from kombu.exceptions import OperationalError

from cronce.clock import SystemClock
from cronce.errors import BadInput, BadPolicy, BadSchedule, StoreError
from cronce.model import Instant, Slot, name_from
from cronce.policy import refuse_foreign
from cronce.runtime.app import Cronce
from cronce.runtime.attempt import Work, describe
from cronce.runtime.declare import Declaration, Policies, declare
from cronce.runtime.log import LOGGER
from cronce.runtime.run import Run
from cronce.runtime.scheduling.scheduler import Scheduler as Running
from cronce.runtime.scheduling.settings import SchedulerSettings
from cronce.runtime.steps import WaitStep, sleep
from cronce.runtime.stored_jobs import RunnableJob
from cronce.schedule import At, Cron, Every, Schedule
from cronce.schedule.instant import SECOND
from cronce.schedule.schedules import MAX_INSTANTS

App = Any
"""Celery has no types of its own."""

IDS: Final = UUID("6bd5a2f6-1f5c-5d7c-9c55-6f3d4b0b7a10")
"""The namespace of task ids. It never changes, so that a slot always has the same id."""

SLOT_HEADER: Final = "cronce_slot"
"""The header with the slot of a message; in a task, `self.request.cronce_slot`."""

SENDERS: Final = 8
"""Threads that send at most; Celery has ten connections for them, unless broker_pool_limit says otherwise."""

ENTRIES_POLL: Final = 5.0
"""Seconds between two checks whether the entries changed."""

BROKER_RETRY: Final = 1.0
"""Seconds until a broker that did not answer is tried again."""

BEAT_GRACE: Final = 10.0
"""Seconds that messages have to be sent when beat is told to stop."""

LIST_STARTS_BEFORE: Final = timedelta(minutes=1)
"""How long before the year a list of slots begins: a crontab is exact to a minute."""


def task_id(slot: Slot) -> str:
    """The id of the message of a slot, the same from every beat."""
    return str(uuid5(IDS, slot.key))


def job_name(app: App, entry: str) -> str:
    """The name of an entry's job: two apps may share a store, and each has a `celery.backend_cleanup`."""
    return name_from(f"{app.main}:{entry}" if app.main else entry)


class OncePerSlot:
    """A mixin for any of Celery's schedulers: the entries come from it, and are sent here."""

    app: Any
    schedule: Any
    max_interval: float

    def __init__(self, *args: Any, **named: Any) -> None:
        self._clock = SystemClock()
        self._book: Mapping[str, RunnableJob] = {}
        self._source: Any = None
        self._seen: dict[str, Any] = {}
        self._year = 0
        self._told: set[tuple[str, str]] = set()
        self._sent: deque[tuple[str, Instant]] = deque()
        self._running: Running | None = None
        self._silent: set[str] = set()
        self._saying = threading.Lock()
        super().__init__(*args, **named)
        check_settings(self.app)
        self.cron = cronce_of(self.app)

    # --- on Celery's thread ---

    def tick(self, *_args: Any, **_named: Any) -> float:
        """Seconds until the next."""
        self._note_sent()
        entries, year = self.schedule, self._clock.wall().year
        if entries is not self._source or entries != self._seen or year != self._year:
            self._source, self._seen, self._year = entries, dict(entries), year
            self._carry()
        if self._running is None:
            self._start()
        return min(self.max_interval, ENTRIES_POLL)

    def close(self) -> None:
        """Celery calls this in its signal handler, and again at the end."""
        running, self._running = self._running, None
        if running is not None:
            running.stop()
            self.cron.close()
        self._note_sent()
        super().close()  # type: ignore[misc]

    @property
    def info(self) -> str:
        return f"    . store -> {self.cron.place}"

    def _start(self) -> None:
        """If the store does not answer yet, the next tick tries again."""
        try:
            keeper = self.cron.at_work()
        except StoreError as error:
            self._is_silent("the store", error)
            return
        self._answers("the store")
        self._running = Running(
            keeper, lambda: self._book, SchedulerSettings(workers=SENDERS), grace=BEAT_GRACE
        ).start()

    def _carry(self) -> None:
        """An entry that cannot have slots is not sent: that is logged once, and the others are sent."""
        book = {}
        for entry in self._seen.values():
            try:
                job = self.declared(entry)
            except Exception as error:
                self._refuse(entry.name, str(error) if isinstance(error, BadInput) else describe(error))
            else:
                book[job.name] = RunnableJob(job, partial(Work, partial(self._send, entry)))
        self._book = book
        if self._running is not None:
            self._running.engine.carry_anew()

    def _refuse(self, name: str, why: str) -> None:
        if (name, why) not in self._told:
            self._told.add((name, why))
            LOGGER.error("the beat entry %s is not sent: %s", name, why)

    def declared(self, entry: Any) -> Declaration:
        """An entry as a job of ours."""
        policies, rule = policies_of(self.app), self.rule(entry)
        deadline = self.app.conf.beat_cron_starting_deadline
        if policies["start_within"] is None and deadline is not None and isinstance(entry.schedule, crontab):
            policies["start_within"] = timedelta(seconds=deadline)
        return declare(job_name(self.app, entry.name), rule, **policies)

    def rule(self, entry: Any) -> Schedule | None:
        return rule_of(entry.schedule, self._year)

    def _note_sent(self) -> None:
        while self._sent:
            name, at = self._sent.popleft()
            if name in self._seen:
                self.noted(self._seen[name], at)

    def noted(self, entry: Any, at: Instant) -> None:
        """This beat has sent the slot of the entry."""
        entry.last_run_at = at
        entry.total_run_count += 1

    # --- on the threads that send ---

    def _send(self, entry: Any, run: Run) -> None:
        while True:
            run.check()
            try:
                send(self.app, entry, run.slot)
            except (OperationalError, OSError) as error:
                self._is_silent("the broker", error)
            else:
                self._answers("the broker")
                self._sent.append((entry.name, run.at))
                beat.info("Scheduler: Sent due task %s (%s) of %s", entry.name, entry.task, run.slot.key)
                return
            sleep(WaitStep(BROKER_RETRY))

    # --- on both ---

    def _is_silent(self, what: str, error: Exception) -> None:
        """Once for each outage."""
        with self._saying:
            if what not in self._silent:
                self._silent.add(what)
                LOGGER.error("%s does not answer, and nothing is sent: %s", what, error)

    def _answers(self, what: str) -> None:
        with self._saying:
            if what in self._silent:
                self._silent.remove(what)
                LOGGER.warning("%s answers again", what)


def send(app: App, entry: Any, slot: Slot) -> None:
    """Send the message of a slot as Celery's own scheduler would, but with the slot's id."""
    headers = {**entry.options.get("headers", {}), "celery_beat_task": True, SLOT_HEADER: slot.key}
    options = {**entry.options, "headers": headers, "task_id": task_id(slot)}
    args, kwargs = beat._evaluate_entry_args(entry.args), beat._evaluate_entry_kwargs(entry.kwargs)
    task = app.tasks.get(entry.task)
    if task is not None:
        task.apply_async(args, kwargs, **options)
    else:
        app.send_task(entry.task, args, kwargs, **options)


class Scheduler(OncePerSlot, beat.Scheduler):  # type: ignore[misc]  # Celery has no types
    """The entries of `beat_schedule`. There is no file: `beat_schedule_filename` has no effect."""

    def setup_schedule(self) -> None:
        self.merge_inplace(self.app.conf.beat_schedule)
        self.install_default_entries(self.schedule)


# --- what Celery's configuration says of cronce ---------------------------------------------------------------------

# * `cronce_url`: the store; else $CRONCE_URL, as everywhere.
# * `cronce_missed`: what becomes of slots that fell due while no beat ran.
# * `cronce_start_within`: how late a slot may still be sent.
# * `cronce_lease`: after how long another beat sends what a dead one had claimed.

CELERY_SETTINGS: Final = ("cronce_url", "cronce_missed", "cronce_start_within", "cronce_lease")


def cronce_of(app: App) -> Cronce:
    """The store that the app's configuration names; one `Cronce` per process."""
    return _on(app.conf.get("cronce_url"))


@lru_cache
def _on(url: str | None) -> Cronce:
    return Cronce(url)


def policies_of(app: App) -> Policies:
    """The policies of entries. Sending may be repeated with the same id, so the slots of a dead beat are taken over;
    and no slot waits for another one of its entry."""
    conf = app.conf
    return Policies(
        on_lost="rerun",
        overlap="allow",
        missed=conf.get("cronce_missed", "latest"),
        start_within=conf.get("cronce_start_within"),
        lease=conf.get("cronce_lease"),
    )


def check_settings(app: App) -> None:
    """Refuse wrong values and misspelt names before anything is sent, and before a worker starts."""
    try:
        refuse_foreign((name for name in _said(app.conf) if name not in CELERY_SETTINGS), CELERY_SETTINGS)
        declare("checked", **policies_of(app))
    except BadPolicy as error:
        raise BadPolicy(f"in Celery's configuration: {error}") from None


def _said(conf: Any) -> Iterator[str]:
    """The names of our settings, also where Celery's have a prefix, as in Django's settings."""
    prefix = conf.prefix or ""
    for name in conf:
        if name.startswith("cronce_"):
            yield name
        elif prefix and name.startswith(f"{prefix}CRONCE_"):
            yield name.removeprefix(prefix).lower()


# --- the instants of Celery's schedules ------------------------------------------------------------------------------

# Celery asks a schedule whether it is due since it last ran, which differs between beats. Slots must be the same for
# all.
#
# * `crontab` becomes our cron, in the zone that Celery would use, with our rules for clock changes: Celery's own fires
#   nothing of `*/5` in the hour that occurs twice.
# * An interval is on the epoch grid: the same instants in all beats, whenever they were started.
# * Any other schedule (`solar`, or a class of the user) is evaluated for this year and the next, and becomes a list. So
#   does a crontab that needs a date and a weekday to match.


def rule_of(schedule: Any, year: int) -> Schedule:
    """The schedule as one of ours."""
    if schedule is None:
        raise BadSchedule("it has no schedule")
    if isinstance(schedule, crontab):
        expression = _expression(schedule)
        return Cron(expression, _zone(schedule.tz)) if expression else _listed(schedule, year)
    if isinstance(schedule, interval):
        return Every(schedule.run_every)
    return _listed(schedule, year)


def next_whole(instant: datetime) -> datetime:
    """The instant, or the next that is on a whole second."""
    return instant.replace(microsecond=0) + (SECOND if instant.microsecond else timedelta(0))


# --- crontab ---


def _expression(schedule: Any) -> str | None:
    """None where it cannot be written: given a date and a weekday, cron fires on either, Celery only on both."""
    minute = _field(schedule._orig_minute, schedule.minute, range(60))
    hour = _field(schedule._orig_hour, schedule.hour, range(24))
    day = _field(schedule._orig_day_of_month, schedule.day_of_month, range(1, 32))
    month = _field(schedule._orig_month_of_year, schedule.month_of_year, range(1, 13))
    weekday = _field(schedule._orig_day_of_week, schedule.day_of_week, range(7))
    both = day.startswith("*") or weekday.startswith("*")
    return f"{minute} {hour} {day} {month} {weekday}" if both else None


def _field(said: Any, values: set[int], all_values: range) -> str:
    """The values that Celery computed. Whether the field was written with a star matters when clocks change."""
    if values == set(all_values):
        return "*"
    listed = sorted(values)
    step = listed[1] - listed[0] if len(listed) > 1 else len(all_values)
    if isinstance(said, str) and said.startswith("*") and values == set(all_values[::step]):
        return f"*/{step}"
    return ",".join(map(str, listed))


def _zone(zone: tzinfo) -> str:
    name = "UTC" if zone == UTC else getattr(zone, "key", None)
    if name is None:
        raise BadInput(f"its zone, {zone!r:.60}, has no name that all beats know; set timezone = 'Europe/Berlin'")
    return str(name)


# --- lists ---


def _listed(schedule: Any, year: int) -> At:
    """Asked from the same beginning by everybody, it gives the same list."""
    asked = copy(schedule)
    at, end = datetime(year, 1, 1, tzinfo=UTC) - LIST_STARTS_BEFORE, datetime(year + 2, 1, 1, tzinfo=UTC)
    found: list[datetime] = []
    while (upcoming := _after(asked, at)) < end:
        if upcoming <= at or len(found) == MAX_INSTANTS:
            raise BadSchedule(
                f"{schedule!r:.80} has no slots after {at}" if upcoming <= at else
                f"{schedule!r:.80} has more than {MAX_INSTANTS:,} slots in two years; use crontab or a timedelta"
            )  # fmt: skip
        found.append(at := upcoming)
    if not found:
        raise BadSchedule(f"{schedule!r:.80} has no slot in {year} and {year + 1}")
    return At(*found)


def _after(schedule: Any, at: datetime) -> datetime:
    schedule.nowfun = lambda: at
    try:
        return next_whole((at + schedule.remaining_estimate(at)).astimezone(UTC))
    except NotImplementedError:
        raise BadSchedule(f"{schedule!r:.80} does not say when it is due next (remaining_estimate)") from None
