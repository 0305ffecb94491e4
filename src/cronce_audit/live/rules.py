"""What is wrong with a machine as it runs."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from cronce_audit.containers.programs import agrees
from cronce_audit.folds import has_changes
from cronce_audit.live.facts import JobStore, MachineClock, Process
from cronce_audit.live.schedulers import DAEMONS
from cronce_audit.model import Confidence, Facts, Found, Severity, rule

_CERTAIN: Final = frozenset({"celery beat", "celery worker -B"})


@rule(
    "CR901",
    "scheduler-running-twice",
    Severity.ERROR,
    Confidence.HIGH,
    remedy="stop all but one of them, and let one supervisor start it; or let any number run once, by `cronce run`, "
    "`celery beat -S cronce` or `protect(scheduler, cron)`",
)
def _twice(facts: Facts) -> Iterator[Found]:
    for same in _same(facts.of(Process)):
        first = same[0]
        pids = ", ".join(process.shown for process in same)
        said = f"{len(same)} of {first.what} run here, each firing everything (processes {pids})"
        if len({process.inside for process in same}) > 1:
            yield Found(first.place, f"{said}, unless their containers are of different projects", *_UNSURE)
        else:
            certain = first.what in _CERTAIN or first.what in DAEMONS.values()
            yield Found(first.place, said, None if certain else Confidence.MEDIUM)


_UNSURE: Final = (Confidence.MEDIUM, Severity.WARNING)


def _same(processes: Sequence[Process]) -> Iterator[Sequence[Process]]:
    """Those that fire the same."""
    groups: dict[tuple[object, ...], list[Process]] = defaultdict(list)
    for process in processes:
        if not agrees(process.what, process.words):
            groups[_fires(process)].append(process)
    return (group for group in groups.values() if len(group) > 1)


def _fires(process: Process) -> tuple[object, ...]:
    """One cron fires all crontabs of a machine or a container; others fire what their words say, where they run."""
    if process.what != "cron":
        return process.what, process.words, process.folder
    options = dict(pairwise(process.words))
    return process.what, process.inside, options.get("-c", "")


@rule(
    "CR902",
    "job-store-held-by-several",
    Severity.WARNING,
    Confidence.MEDIUM,
    remedy="stop all but one of them: APScheduler's job store keeps jobs, it does not keep two schedulers apart; or "
    "guard the scheduler, `protect(scheduler, cron)`",
)
def _held(facts: Facts) -> Iterator[Found]:
    for store in facts.of(JobStore):
        if len(store.holders) > 1:
            pids = ", ".join(map(str, store.holders))
            yield Found(store.place, f"{len(store.holders)} processes have the job store {store.path} open ({pids})")


@rule(
    "CR903",
    "job-store-on-a-network-file-system",
    Severity.ERROR,
    Confidence.HIGH,
    remedy="keep the jobs in a database server (PostgreSQL, Redis), or the file on a local disk of one machine",
)
def _on_network(facts: Facts) -> Iterator[Found]:
    for store in facts.of(JobStore):
        if store.network:
            yield Found(
                store.place,
                f"the job store {store.path} is on {store.network}, where SQLite's locks do not reach other machines",
            )


@rule(
    "CR904",
    "clock-not-in-step",
    Severity.WARNING,
    Confidence.MEDIUM,
    remedy="run chrony or systemd-timesyncd (on a virtual machine: see that its host keeps the time)",
)
def _out_of_step(facts: Facts) -> Iterator[Found]:
    for clock in facts.of(MachineClock):
        if clock.in_step is False:
            yield Found(
                clock.place,
                "the kernel says that nobody keeps this machine's clock in step: it fires earlier or later than others",
            )


@rule(
    "CR905",
    "machine-not-in-utc",
    Severity.INFO,
    Confidence.HIGH,
    remedy="`timedatectl set-timezone UTC`, or look at the fixed times between midnight and four with `cronce explain`",
)
def _not_utc(facts: Facts) -> Iterator[Found]:
    for clock in facts.of(MachineClock):
        if has_changes(clock.zone, facts.year):
            yield Found(clock.place, f"this machine shows the time of {clock.zone}, whose clocks change twice a year")


RULES: Final = (_twice, _held, _on_network, _out_of_step, _not_utc)
