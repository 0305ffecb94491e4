"""Pairs starts and ends of jobs and finds what is wrong: a pure fold over marks in order of time. `judge` words it.

*Which end belongs to which start.* By the run's id, where both name one; else by who wrote them (host and process) and
the job, the oldest open run first. Cron's lines are paired without the process: cronie's end comes from another one.

*One start gives one finding* about the run before it: the slot is looked at first, then how near the starts are, then
whether that run was open. What cron starts on several hosts is one finding for each set of hosts: a fleet does so in
every slot.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from cronce.model import Instant
from cronce.value import NamedTuple
from cronce_audit.logs import judge
from cronce_audit.logs.judge import (
    CERTAIN,
    POSSIBLE,
    Fleet,
    Form,
    Kind,
    Limits,
    LogFinding,
    LoggedRun,
    LogMark,
    Pair,
    Sure,
)

MAY_LACK_ENDS: Final = (Form.CRON, Form.BEAT, Form.CRONCE)
"""Programs that do not log ends, or only on request."""


class JobHistory:
    """The runs of a job, and its counts."""

    __slots__ = ("ends", "fleets", "found", "hosts", "latest", "open", "pairs", "runs", "slots", "starts")

    def __init__(self) -> None:
        self.starts = self.ends = 0
        self.found: Counter[Sure] = Counter()
        self.latest: LoggedRun | None = None
        self.open: dict[LoggedRun, None] = {}  # in the order of their starts
        self.pairs: list[Pair] = []
        self.slots: dict[tuple[Instant, str], LoggedRun] = {}
        self.runs: dict[str, LoggedRun] = {}
        self.hosts: dict[str, LogMark] = {}  # hosts on which cron started it in the current slot
        self.fleets: dict[frozenset[str], Fleet] = {}


class Tally(NamedTuple):
    """How often a job started and ended, how many of its runs have no end, and what was found."""

    form: Form
    job: str
    starts: int
    ends: int
    open: int
    certain: int
    possible: int


class LogReport(NamedTuple):
    """`counts` has all findings, `findings` the first of each kind."""

    starts: int
    findings: Sequence[LogFinding]
    counts: Mapping[tuple[Kind, Sure], int]
    jobs: Sequence[Tally]


class Fold:
    """`most` of each kind of finding are kept; `certain` leaves out those that are only possible."""

    def __init__(self, limits: Limits, most: int, *, certain: bool = False) -> None:
        self._limits, self._most, self._certain = limits, most, certain
        self._jobs: dict[tuple[Form, str], JobHistory] = {}
        self._by_run: dict[str, LoggedRun] = {}
        self._sent: set[str] = set()
        self._told: list[LogFinding] = []

    def see(self, mark: LogMark) -> None:
        if mark.said.starts:
            self._start(mark)
        else:
            self._end(mark)

    def close(self, until: Mapping[str, Instant]) -> LogReport:
        """The result; `until` is the last time in each log."""
        for job in self._jobs.values():
            self._judge_pairs(job)
            for run in job.open:
                if self._writes_ends(job, run.mark):
                    self._tell(judge.never_ended(run.mark, self._limits, until, ends=job.ends > 0))
            self._count_hosts(job)
            for fleet in job.fleets.values():
                self._tell(judge.on_hosts(fleet))
        jobs = [
            Tally(form, name, job.starts, job.ends, len(job.open), job.found[CERTAIN], job.found[POSSIBLE])
            for (form, name), job in sorted(self._jobs.items())
        ]
        counts: Counter[tuple[Kind, Sure]] = Counter()
        kept = []
        for found in sorted(self._told, key=lambda found: (found.sure is POSSIBLE, found.mark.at)):
            counts[found.kind, found.sure] += 1
            if counts[found.kind, found.sure] <= self._most:
                kept.append(found)
        return LogReport(sum(job.starts for job in self._jobs.values()), kept, counts, jobs)

    # --- a start ---

    def _start(self, mark: LogMark) -> None:
        said = mark.said
        job = self._jobs.setdefault((said.form, said.job), JobHistory())
        if said.form is Form.BEAT:
            self._sent.add(said.job.rpartition(" → ")[2])
        near = (*islice(reversed(job.open), 2), *filter(None, [job.runs.get(_id(mark))]))
        if any(_is_one(run.mark, mark) for run in near):
            return
        run = LoggedRun(mark)
        if said.form is Form.CRON:
            self._gather(job, mark)
        self._judge(job, run)
        self._remember(job, run)

    def _judge(self, job: JobHistory, run: LoggedRun) -> None:
        mark = run.mark
        named, slot = job.runs.get(_id(mark)), job.slots.get(_slot_key(mark)) if mark.slot else None
        if named:
            if not mark.said.again and not judge.is_retry(named):
                self._tell(judge.twice(named.mark, mark, " under one run id"))
        elif slot:
            if not judge.is_retry(slot):
                self._tell(judge.twice_in_slot(slot.mark, mark))
        elif mark.said.form is not Form.CELERY or mark.said.job in self._sent:
            self._judge_open(job, run)  # a task without a schedule is sent as often as needed

    def _judge_open(self, job: JobHistory, run: LoggedRun) -> None:
        latest, mark = job.latest, run.mark
        each_host = mark.said.form is Form.CRON
        near = latest is not None and not each_host and judge.is_close(latest, mark, self._limits.within)
        if latest and near and (latest.end or mark.said.form in MAY_LACK_ENDS):
            self._tell(judge.close(latest.mark, mark))
            return
        before = next((one for one in reversed(job.open) if not each_host or one.mark.by == mark.by), None)
        if before:
            job.pairs.append(Pair(before, run, near))

    def _writes_ends(self, job: JobHistory, mark: LogMark) -> bool:
        return mark.said.form not in MAY_LACK_ENDS or job.ends > 0

    def _remember(self, job: JobHistory, run: LoggedRun) -> None:
        mark = run.mark
        job.starts += 1
        job.latest = run
        job.open[run] = None
        if mark.slot:
            job.slots[_slot_key(mark)] = run
        if _id(mark):
            job.runs[_id(mark)] = self._by_run[_id(mark)] = run

    def _judge_pairs(self, job: JobHistory) -> None:
        """Of a run without an end only the next start after it is reported: the run may have died."""
        doubtful: set[LoggedRun] = set()
        for pair in job.pairs:
            if not self._writes_ends(job, pair.second.mark):
                continue
            if pair.settled:
                self._tell(judge.overlapping(pair, self._limits))
            elif pair.first.end or pair.first not in doubtful:
                self._tell(judge.unsettled(pair, self._limits))
            if not pair.first.end:
                doubtful.add(pair.first)

    # --- a slot on several hosts ---

    def _gather(self, job: JobHistory, mark: LogMark) -> None:
        if job.latest and job.latest.mark.slot != mark.slot:
            self._count_hosts(job)
        job.hosts.setdefault(mark.place.host, mark)

    def _count_hosts(self, job: JobHistory) -> None:
        """At the end of a slot: count the hosts that started it."""
        hosts, starts = frozenset(job.hosts), list(job.hosts.values())
        job.hosts = {}
        if len(starts) < 2 or judge.is_each_hosts_own(starts[0].said.job):
            return
        known = job.fleets.get(hosts)
        job.fleets[hosts] = known._replace(slots=known.slots + 1) if known else Fleet(hosts, starts[0], starts[1])

    # --- an end ---

    def _end(self, mark: LogMark) -> None:
        """An end without a start is that of a run from before the log: no finding."""
        named = self._by_run.pop(_id(mark), None)
        said = named.mark.said if named else mark.said
        job = self._jobs.get((said.form, said.job))
        if job is None or (named is None and mark.said.form is Form.CRONCE):  # ours logs it twice: `ended`, `closed`
            return
        job.ends += 1
        run = named or next((run for run in job.open if _belong(run.mark, mark)), None)
        if run is not None and run in job.open:
            del job.open[run]
            run.end = mark
            self._tell(judge.overdue(run, self._limits.expected))

    def _tell(self, found: LogFinding | None) -> None:
        if found is not None and not (self._certain and found.sure is POSSIBLE):
            self._told.append(found)
            self._jobs[found.mark.said.form, found.mark.said.job].found[found.sure] += 1


def _is_one(one: LogMark, two: LogMark) -> bool:
    """One start that is logged twice: in a log and its copy, or as `starting` and `started`."""
    if one.place != two.place:
        return False
    if one.said.form is Form.CRON:
        return bool(_id(one)) and _id(one) == _id(two)
    if one.said.run and two.said.run:
        return one.said.run == two.said.run and (one.said.form is not Form.CELERY or one.text == two.text)
    return one.said.word != two.said.word


def _id(mark: LogMark) -> str:
    """What tells a run from all others anywhere; "" where nothing does. Cron has a process for each start, and the slot
    tells it from a later one with its number, however fine the stamps of this log and of another are."""
    if mark.said.form is Form.CRON:
        return f"{mark.place} {mark.said.run} {mark.slot}" if mark.place.pid else ""
    return mark.said.run if _is_unique(mark.said.run) else ""


def _is_unique(run: str) -> bool:
    """Whether a run's id tells it from all others anywhere; a small number may be each process's own."""
    return len(run) >= 8 and not run.isdigit()


def _belong(start: LogMark, end: LogMark) -> bool:
    one, two = start.said.run, end.said.run
    if one and two:
        return one == two and (_is_unique(one) or start.place == end.place)
    return start.by == end.by


def _slot_key(mark: LogMark) -> tuple[Instant, str]:
    assert mark.slot is not None
    return mark.slot, mark.place.host if mark.said.form is Form.CRON else ""
