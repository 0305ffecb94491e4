"""A job as this process declares it: its name, its schedule and its policies, checked once."""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack
from zlib import adler32, crc32

from cronce.errors import BadInput, BadPolicy
from cronce.model import Instant, Slot, Traits, check_name, slot
from cronce.policy import Fold, Gap, Missed, Mode, OnLost, Overlap, check_choice, is_limited, refuse_foreign, wants_all
from cronce.protocol.retention import SHORTEST_KEPT, Keep, Kept, read_keep
from cronce.protocol.terms import Terms, check_terms, checked, lease_for
from cronce.schedule import (
    At,
    Cron,
    Every,
    Schedule,
    bounded,
    format_duration,
    parse_duration,
    parse_instant,
    parse_schedule,
    rule_of,
    shortest_gap,
    slot_of,
    spec_of,
    start_by,
)
from cronce.schedule.zone import find_zone, rules_of
from cronce.value import NamedTuple

if TYPE_CHECKING:
    from cronce.runtime.transactions import Database

Duration = timedelta | str
"""A length of time: `"90s"`, `"15m"`, or a timedelta."""

When = Slot | datetime | date | str
"""How a caller names a slot: an instant, a day (its midnight in the job's zone), or either as text."""


class Policies(TypedDict, total=False):
    """The options of a job besides its name and its schedule, as `declare` takes them."""

    every: Duration | None
    at: str | datetime | None
    tz: str
    gap: Gap
    fold: Fold
    start: str | datetime | None
    end: str | datetime | None
    on_lost: OnLost | None
    overlap: Overlap
    turns: int
    missed: Missed
    start_within: Duration | None
    jitter: Duration | None
    retries: int
    backoff: Duration | None
    timeout: Duration | None
    lease: Duration | None
    keep: Kept | Mapping[str, Kept] | None
    transaction: Any
    mode: Mode


SHORTEST_LEASE: Final = timedelta(seconds=1)
"""A shorter lease could be over before the answer is there that grants it."""

MILLISECOND: Final = timedelta(milliseconds=1)

SOME_DAY: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Where a declaration is tried out: it is the same whenever it is made."""

MOST_TURNS: Final = 1000
"""A claim reads every turn of its job until it finds one that is free."""

TIDY_EVERY: Final = timedelta(hours=1)

TIDY_RUNS: Final = 10

ANY_TIME: Final = timedelta(days=7)
"""Slots that are never too late to start are given this long before runs after them may be deleted."""

BACKOFF: Final = timedelta(seconds=1)
"""How long to wait after a first failure, unless the job sets another time."""

LONGEST_BACKOFF: Final = timedelta(hours=1)
"""Beyond it waiting is not doubled any more."""

SHORTEST_OF_POLICY: Final = {
    "start_within": MILLISECOND,
    "jitter": MILLISECOND,
    "backoff": MILLISECOND,
    "timeout": MILLISECOND,
    "lease": SHORTEST_LEASE,
}
"""The policies that are a length of time, each with the shortest."""

VERSIONED: Final = ("on_lost", "overlap", "turns", "missed", "retries", *SHORTEST_OF_POLICY)
"""The policies that distinguish one version of a job from another, besides its schedule."""

NEVER_NONE: Final = ("tz", "gap", "fold", "overlap", "turns", "missed", "retries", "mode")
"""The policies for which None is refused."""

CLOCK_OFF: Final = timedelta(minutes=1)
"""How far a host's clock may be off the store's. Beyond it, what the host takes for a slot is an error."""


class Declaration(NamedTuple):
    name: str
    schedule: Schedule | None
    tz: str
    on_lost: OnLost = "skip"
    overlap: Overlap = "skip"
    turns: int = 1
    missed: Missed = "latest"
    start_within: timedelta | None = None
    jitter: timedelta | None = None
    retries: int = 0
    backoff: timedelta = BACKOFF
    timeout: timedelta | None = None
    lease: timedelta | None = None
    keep: Keep | None = None
    revision: int = 0
    """Of a job that lives in the store: going back to an earlier definition is a newer version. 0 of one in code."""
    payload: str = ""
    """What its runs are given, as JSON, unless they were asked for with something else."""
    database: "Database | None" = None
    """Where its runs may commit together with what they write."""
    mode: Mode = "guard"
    """How this process calls it. No part of its version: who observes it and who guards it mean the same job."""
    code: str = ""
    """Where its function is, as `module:name`. No part of its version: code may move. Another place that is alive under
    the same name is most likely another job."""

    @property
    def spec(self) -> tuple[str, str]:
        """What a job's record keeps of it: a digest that distinguishes versions, and the text."""
        schedule = spec_of(self.schedule) if self.schedule else None
        said = {name: getattr(self, name) for name in VERSIONED}
        policies = {name: format_duration(one) if isinstance(one, timedelta) else one for name, one in said.items()}
        rules = rules_of(schedule.get("tz", "UTC")) if schedule else ""
        more = {name: said for name, said in (("revision", self.revision), ("zone", rules)) if said}
        text = json.dumps({"schedule": schedule, **policies, **more}, separators=(",", ":"), sort_keys=True)
        return f"{crc32(text.encode()):08x}{adler32(text.encode()):08x}", text

    @property
    def exclusive(self) -> bool:
        """No two of its runs go on at the same time."""
        return is_limited(self.overlap) and self.turns == 1

    def check_on(self, traits: Traits) -> None:
        """Refuse what a store cannot keep, before anything is claimed there."""
        check_terms(Terms(self.lease or lease_for(self.on_lost), overlap=self.overlap, turns=self.turns), traits)

    def slot_at(self, fired: Instant) -> Slot:
        """The slot that a trigger means which fired at that moment of its host's clock."""
        if self.schedule is None:
            raise BadInput(
                f"the job {self.name} has no schedule, so each call has to name its slot: {self.name}(slot=…)"
            )
        return Slot(self.name, slot_of(self.schedule, fired))

    def slot_named(self, when: When) -> Slot:
        """The slot that a caller names."""
        if isinstance(when, Slot):
            if when.job != self.name:
                raise BadInput(f"{when.key} is a slot of another job, not of {self.name}")
            return when
        return slot(self.name, instant_of(when, self.tz))

    def terms(self, wanted: Slot, *, inferred: bool) -> Terms:
        """On what terms one of its slots is claimed from outside. What is asked for by hand is never too late. Where
        each slot is wanted, none gives way to another."""
        gap, delay = self.gap_after(wanted.at), self.delay(wanted)
        terms = Terms(
            self.lease or lease_for(self.on_lost, gap),
            self.on_lost,
            self.overlap,
            self.turns,
            self.retries + 1,
            None if wanted.request else self._start_within(gap and gap + delay, inferred=inferred),
            outside=True,
            delay=delay,
            payload=self.payload,
            joined=self.database is not None,
        )
        return terms.each_wanted() if wants_all(self.missed) else terms

    def delay(self, wanted: Slot) -> timedelta:
        """How long after its instant a slot may start at the earliest: less than the jitter, and less than the gap to
        the next slot even when clocks change; by hash, so that all machines wait for the same moment. What is asked for
        by hand does not wait."""
        if self.jitter is None or wanted.request:
            return timedelta(0)
        width = min(self.jitter, self.gap_after(wanted.at) or self.jitter)
        return crc32(wanted.key.encode()) % (width // MILLISECOND) * MILLISECOND

    def backoff_after(self, failed: Slot, failures: int) -> timedelta:
        """How long to wait before a slot is tried again that failed so often: twice as long each time, less up to half
        of it by hash, so that what failed together does not come back together."""
        doubled = self.backoff * (1 << min(failures - 1, 30))
        longest = min(doubled, max(self.backoff, LONGEST_BACKOFF))
        share = 0.5 + crc32(f"{failed.key} {failures}".encode()) / 2**33
        return longest * share // MILLISECOND * MILLISECOND

    @property
    def still_open(self) -> timedelta:
        """For how long a slot without a record may still be run: no run younger than this is deleted, since that closes
        every slot before it."""
        if self.start_within is not None:
            return max(SHORTEST_KEPT, self.start_within)
        return ANY_TIME if wants_all(self.missed) or self.schedule is None else SHORTEST_KEPT

    def tidies(self, done: Slot) -> bool:
        """Whether the process that ran this slot deletes old runs of the job: about once an hour, without counting. Of
        a job that is seldom due and has no `keep`, one in ten runs: each `exec` would ask the store twice as much."""
        runs, drawn = 1 if self.keep is not None else TIDY_RUNS, crc32(done.job.encode(), int(done.at.timestamp()))
        if drawn % runs:
            return False
        gap = self.gap_after(done.at)
        return not gap or drawn // runs % max(TIDY_EVERY // gap // runs, 1) == 0

    def gap_after(self, at: Instant) -> timedelta | None:
        """From a slot to the next."""
        if type(self.schedule) is Every:  # asked for each slot
            return self.schedule.span
        later = start_by(self.schedule, at) if self.schedule else None
        return later - at if later else None

    def _start_within(self, gap: timedelta | None, *, inferred: bool) -> timedelta | None:
        """By default until the next slot. A slot that was inferred from the host's clock is as far off as that clock
        may be, and still the host's latest."""
        if self.start_within is not None or wants_all(self.missed) or gap is None:
            return self.start_within
        return gap + CLOCK_OFF if inferred else gap


def declare(name: str, schedule: str | Schedule | None = None, **policies: Unpack[Policies]) -> Declaration:
    """A job, checked: whatever cannot be meant is refused here, with its remedy. What is None is as if left out."""
    known = Policies.__annotations__
    refuse_foreign([word for word in policies if word not in known], (*known, "name", "slot", "isolate"))
    words: dict[str, Any] = {word: said for word, said in policies.items() if said is not None or word in NEVER_NONE}
    zone = words.pop("tz", "UTC"), words.pop("gap", "run"), words.pop("fold", "first")
    check_choice("missed", words.get("missed", "latest"), Missed)
    check_choice("mode", words.get("mode", "guard"), Mode)
    _check_numbers(words.get("overlap", "skip"), words.get("turns", 1), words.get("retries", 0), words.get("backoff"))
    find_zone(zone[0])
    rule = _scheduled(schedule, words.pop("every", None), words.pop("at", None), zone)
    rule = _within(rule, words.pop("start", None), words.pop("end", None))
    for word, least in SHORTEST_OF_POLICY.items():
        if word in words:
            words[word] = _length(word, words[word], least)
    if "keep" in words:
        words["keep"] = read_keep(words["keep"])
    if "transaction" in words:
        from cronce.runtime.transactions import read_database  # noqa: PLC0415  most have none

        words["database"] = read_database(words.pop("transaction"))
    declared = Declaration(check_name(name), rule, zone_of(rule, zone[0]), **words)
    checked(declared.terms(Slot(name, SOME_DAY), inferred=False))
    _check_jitter(declared)
    return declared


def remark(name: str, policies: Policies) -> str:
    """What the author of the job should know, though it can be meant."""
    retries = policies.get("retries", 0)
    if not retries or policies.get("on_lost") is not None:
        return ""
    return (
        f"{name}: retries={retries} covers runs that fail; a run whose process dies is closed as lost. Set"
        " on_lost='rerun' to run it again, or on_lost='skip' to leave it closed"
    )


def _check_numbers(overlap: Overlap, turns: int, retries: int, backoff: Duration | None) -> None:
    if type(retries) is not int or retries < 0:
        raise BadPolicy(f"retries must be 0 or more, not {retries!r:.60}")
    if backoff is not None and not retries:
        raise BadPolicy(
            "backoff is how long to wait before a retry, but this job has no retries: add retries=3, or leave"
            " out backoff"
        )
    if type(turns) is not int:
        raise BadPolicy(f"turns must be 1 or more, not {turns!r:.60}")
    if turns > MOST_TURNS:
        raise BadPolicy(f"turns must be at most {MOST_TURNS:,}, not {turns:,}; overlap='allow' sets no limit")
    if not is_limited(overlap) and turns != 1:
        raise BadPolicy(
            f"overlap='allow' sets no limit, but turns={turns} sets one: leave out overlap to skip runs above the"
            " limit, or use overlap='wait' to let them wait"
        )


def _check_jitter(job: Declaration) -> None:
    """Who starts later than the next slot has overtaken itself."""
    if job.jitter is None:
        return
    jitter = format_duration(job.jitter)
    if job.schedule is None:
        raise BadPolicy("jitter delays the slots of a schedule, but this job has no schedule")
    if job.start_within is not None and job.jitter >= job.start_within:
        within = format_duration(job.start_within)
        raise BadPolicy(f"jitter={jitter} may start a slot later than start_within={within} allows; make it shorter")
    gap = shortest_gap(job.schedule, SOME_DAY)
    if gap is not None and job.jitter > gap:
        raise BadPolicy(
            f"jitter={jitter} may delay a slot of {job.schedule.text!r:.60} past the next one, which is due"
            f" {format_duration(gap)} later; make it shorter"
        )


def _scheduled(
    schedule: str | Schedule | None, every: Duration | None, at: str | datetime | None, zone: tuple[str, Gap, Fold]
) -> Schedule | None:
    given = [rule for rule in (schedule, every, at) if rule is not None]
    if len(given) > 1:
        raise BadPolicy("a job has one schedule: a cron expression, every=… or at=…")
    if isinstance(schedule, str):
        return parse_schedule(schedule, *zone)
    rule = Every(every) if every is not None else At(at) if at is not None else schedule
    if rule is not None and zone != ("UTC", "run", "first"):
        raise BadPolicy("tz, gap and fold need a cron expression given as text")
    return rule


def _within(rule: Schedule | None, start: str | datetime | None, end: str | datetime | None) -> Schedule | None:
    if rule is not None:
        return bounded(rule, start, end)
    if start is not None or end is not None:
        raise BadPolicy("start and end limit a schedule, but this job has no schedule")
    return None


def instant_of(when: datetime | date | str, tz: str) -> Instant:
    """The instant that is meant, or the beginning of the day."""
    if not isinstance(when, datetime | date | str):
        raise BadInput(f"{when!r:.60} is not a slot; give a datetime, a date, or one of them as text")
    try:
        return parse_instant(_midnight(when, tz))
    except OverflowError:
        raise BadInput(f"{when!r:.60} is too far from today to be a slot") from None


def _midnight(when: datetime | date | str, tz: str) -> datetime | str:
    """A day begins at midnight where the job lives, or as soon after it as the clocks allow."""
    if isinstance(when, str) and len(when) == len("2026-03-29"):
        with suppress(ValueError):
            return _midnight(date.fromisoformat(when), tz)
    if isinstance(when, datetime | str):
        return when
    return datetime.combine(when, time(), find_zone(tz)).astimezone(UTC)


def zone_of(schedule: Schedule | None, tz: str = "UTC") -> str:
    rule = schedule and rule_of(schedule)
    return rule.tz if isinstance(rule, Cron) else tz


def _length(name: str, span: Duration, least: timedelta) -> timedelta:
    try:
        length = parse_duration(span)
    except BadInput as error:
        raise BadPolicy(f"{name}: {error}") from None
    if length < least:
        raise BadPolicy(f"{name} must be {format_duration(least)} or more, not {span}; leave it out for the default")
    return length
