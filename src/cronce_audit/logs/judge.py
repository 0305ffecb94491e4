"""Starts and ends in logs, and the findings about them with their wording."""

import re
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from cronce.model import Instant, spell
from cronce.schedule.instant import format_duration
from cronce.value import NamedTuple


class Form(StrEnum):
    """Which program wrote a line."""

    WORDS = "words"
    CRON = "cron"
    SUPERCRONIC = "supercronic"
    APSCHEDULER = "APScheduler"
    BEAT = "Celery beat"
    CELERY = "Celery"
    CRONCE = "cronce"


class LogEvent(NamedTuple):
    """The start or end that a line reports. `run` and `slot` are empty if the line names none."""

    starts: bool
    job: str
    form: Form = Form.WORDS
    run: str = ""
    slot: str = ""
    failed: bool = False
    again: bool = False  # a start that takes over from another run
    word: str = ""  # the word for start or end, in a line of an unknown program
    about: Mapping[str, int] = MappingProxyType({})  # other fields of a start, as hashes
    by: str = ""  # who wrote it, if several processes write one log


class LogWriter(NamedTuple):
    """Who wrote a line: the host that it names, else its log; and the process, if it is named."""

    host: str
    pid: str = ""

    def __str__(self) -> str:
        return f"{self.host} pid {self.pid}" if self.pid else self.host


class LogMark(NamedTuple):
    """A start or an end: when, by whom, and in which line."""

    at: Instant
    said: LogEvent
    place: LogWriter
    log: str
    file: str
    line: int
    text: int  # a hash of the line, to recognise a line that is repeated
    slot: Instant | None = None
    twofold: bool = False  # this hour may have occurred twice in its time zone

    @property
    def by(self) -> LogWriter:
        """Whose starts and ends belong together. Several processes write those of cron: only the host counts."""
        return LogWriter(self.place.host) if self.said.form is Form.CRON else self.place

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"


class Kind(StrEnum):
    TWICE = "twice-started"
    OVERLAPPING = "overlapping"
    NEVER_ENDED = "never-ended"
    OVERDUE = "overdue"


class Sure(StrEnum):
    CERTAIN = "certain"
    POSSIBLE = "possible"


CERTAIN: Final = Sure.CERTAIN
POSSIBLE: Final = Sure.POSSIBLE


class LogFinding(NamedTuple):
    """`mark` is the start that is wrong or has no end; `first` is the earlier start."""

    kind: Kind
    sure: Sure
    mark: LogMark
    first: LogMark | None
    says: str


UNSAID: Final = timedelta(hours=1)
"""How long a run may take before its missing end is reported, if no expected time is given."""
SECOND: Final = timedelta(seconds=1)
OF_EACH_HOST: Final = {
    "run-parts", "anacron", "logrotate", "popularity-contest", "sa1", "sa2", "debian-sa1", "sessionclean", "certbot",
    "e2scrub", "e2scrub_all", "e2scrub_all_cron", "checkarray", "raid-check", "zfs-linux",
}  # fmt: skip
"""Jobs from a distribution's own crontabs, which each host runs for itself."""


TWOFOLD: Final = (
    "; it may be the hour that occurs twice when clocks go back: give the time zone with --tz, or write"
    " offsets in the timestamps"
)


class LoggedRun:
    """A start, and its end if there is one."""

    __slots__ = ("end", "mark")

    def __init__(self, mark: LogMark) -> None:
        self.mark = mark
        self.end: LogMark | None = None


class Pair(NamedTuple):
    """A start while another run of the job was open; `close`: so soon that it may be the same start."""

    first: LoggedRun
    second: LoggedRun
    close: bool

    @property
    def settled(self) -> bool:
        """Whether the ends are seen that show whether the first run was still active when the second started."""
        one, two = self.first.mark, self.second.mark
        alike = one.by == two.by and not (one.said.run and two.said.run)
        return self.first.end is not None and (not alike or self.second.end is not None)


class Fleet(NamedTuple):
    """Hosts that started a cron command in the same slot, the first two starts, and the number of such slots."""

    hosts: frozenset[str]
    first: LogMark
    second: LogMark
    slots: int = 1


class Limits(NamedTuple):
    """`expected` is how long a run may take, if given; `within` is how near two starts count as one."""

    expected: timedelta | None
    within: timedelta

    @property
    def longest(self) -> timedelta:
        return self.expected or UNSAID


def is_retry(first: LoggedRun) -> bool:
    """Whether a start after this run is a retry: the run failed."""
    return first.end is not None and first.end.said.failed


def is_each_hosts_own(command: str) -> bool:
    return not OF_EACH_HOST.isdisjoint(re.findall(r"[\w.-]+", command))


def is_close(before: LoggedRun, mark: LogMark, within: timedelta) -> bool:
    """Nearly at the same time, not one after the other in one process, and not for two slots."""
    one = before.mark
    if one.slot and mark.slot and abs(one.slot - mark.slot) >= SECOND:
        return False
    in_turn = one.place == mark.place and before.end is not None
    return mark.at - one.at <= within and not in_turn


def twice(one: LogMark, two: LogMark, why: str, doubt: str = "") -> LogFinding:
    doubt = _doubt(one, two) or doubt
    return LogFinding(
        Kind.TWICE, POSSIBLE if doubt else CERTAIN, two, one, f"started again{why}, {_after(one, two)}{doubt}"
    )


def twice_in_slot(one: LogMark, two: LogMark) -> LogFinding:
    return twice(one, two, _for_slot(two), TWOFOLD if two.twofold else "")


def on_hosts(fleet: Fleet) -> LogFinding:
    """A cron command that several hosts started in the same slots."""
    one, two = fleet.first, fleet.second
    slots = f"{fleet.slots:,} slot{'s' * (fleet.slots > 1)}"
    meant = f"; in {slots} on {', '.join(sorted(fleet.hosts))}: is it meant to run on each host?"
    return LogFinding(Kind.TWICE, POSSIBLE, two, one, f"started again{_for_slot(two)}, {_after(one, two)}{meant}")


def close(one: LogMark, two: LogMark) -> LogFinding:
    doubt = _doubt(one, two) or "; no slot is named"
    return LogFinding(Kind.TWICE, POSSIBLE, two, one, f"started again, {_after(one, two)}{doubt}")


def overlapping(pair: Pair, limits: Limits) -> LogFinding | None:
    """The finding about a pair whose ends are seen."""
    one, two, end = pair.first.mark, pair.second.mark, pair.first.end
    assert end is not None
    went_on, here = end.at - two.at, one.log == two.log
    if went_on < timedelta(0) or (not here and not went_on):  # the clocks of two logs may differ
        return close(one, two) if pair.close else None
    doubt = _doubt(one, two)
    if not here and one.place.host != two.place.host and went_on <= limits.within:
        doubt = doubt or "; the clocks of two hosts may be that far apart"
    says = f"started {_after(one, two)}, which went on for {_span(went_on)}{doubt}"
    return LogFinding(Kind.OVERLAPPING, POSSIBLE if doubt else CERTAIN, two, one, says)


def unsettled(pair: Pair, limits: Limits) -> LogFinding | None:
    """The finding about a pair with a missing end."""
    one, two = pair.first.mark, pair.second.mark
    if pair.close:
        return close(one, two)
    if two.at - one.at > limits.longest:
        return None
    says = f"started {_after(one, two)}; the log shows no end of that run before"
    return LogFinding(Kind.OVERLAPPING, POSSIBLE, two, one, says)


def never_ended(mark: LogMark, limits: Limits, until: Mapping[str, Instant], *, ends: bool) -> LogFinding | None:
    """A start without an end; `ends`: other runs of the job have one. `until` is the last time in each log."""
    longest = limits.longest
    own, any_log = (latest - mark.at for latest in (until.get(mark.log, mark.at), max(until.values(), default=mark.at)))
    if max(own, any_log) <= longest:
        return None
    if own > longest:
        says = f"no end within {_span(longest)}; the log goes on for {_span(own)} after the start"
    else:
        says = f"no end, and {mark.log} itself goes on for {_span(own)} only; other logs go on for {_span(any_log)}"
    unseen = "" if ends else "; no end of this job is seen at all"
    return LogFinding(Kind.NEVER_ENDED, CERTAIN if ends and own > longest else POSSIBLE, mark, None, says + unseen)


def overdue(run: LoggedRun, expected: timedelta | None) -> LogFinding | None:
    took = run.end.at - run.mark.at if run.end else timedelta(0)
    if expected is None or took <= expected:
        return None
    says = f"ended after {_span(took)}, and {_span(expected)} were expected"
    return LogFinding(Kind.OVERDUE, CERTAIN, run.mark, None, says)


def _doubt(one: LogMark, two: LogMark) -> str:
    """Why two starts that look the same may differ; "" for no reason."""
    if one.text == two.text and one.log == two.log:
        return "; the same line twice: two runs, or two handlers of one log"
    match two.said.form:
        case Form.CELERY:
            return "; a task that is received has not begun yet"
        case Form.APSCHEDULER if one.place == two.place:
            return "; registered twice, or two jobs of one name"
        case _:
            return _difference(one.said.about, two.said.about)


def _difference(one: Mapping[str, int], two: Mapping[str, int]) -> str:
    """Two runs for two tenants may run at once on purpose."""
    names = sorted(name for name in one.keys() & two.keys() if one[name] != two[name])
    return f"; they differ in {', '.join(names)}: are they meant to run at once?" if names else ""


def _for_slot(mark: LogMark) -> str:
    return f" for the slot {spell(mark.slot or mark.at)}"


def _after(one: LogMark, two: LogMark) -> str:
    there = "this process" if one.place == two.place and one.place.pid else str(one.place)
    return f"{_span(two.at - one.at)} after that of {there} ({one.where})"


def _span(span: timedelta) -> str:
    """Rounded to seconds from ten seconds on."""
    if span < 10 * SECOND:
        return format_duration(span)
    return format_duration(timedelta(seconds=round(span.total_seconds())))
