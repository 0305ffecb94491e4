"""cronce exec: run a command for its slot, once, however many machines start it."""

import argparse
import gc
import os
import sys
from datetime import datetime, timedelta
from typing import Final, get_args

from cronce.clock import SystemClock
from cronce.errors import BadInput, CannotStart
from cronce.integrations.command import Exec
from cronce.integrations.process import Supervisor
from cronce.model import Instant, spell
from cronce.policy import Fold, Gap, OnLost, Overlap
from cronce.runtime.declare import Declaration, declare
from cronce.runtime.processes.start import find_command
from cronce.schedule import Cron, Schedule, parse_duration
from cronce.schedule.instant import SECOND
from cronce.stores import mask
from cronce.stores.default import choose, open_chosen

TEXT: Final = """\
Put it before the command of a crontab line, in every crontab that shares the store:

  */15 * * * *  cronce exec order-sync --schedule '*/15 * * * *' -- ./sync.sh

The command runs once for each slot of the schedule. Who comes second exits with 0 and says nothing. The command finds
its slot in CRONCE_SLOT, a key for idempotent effects in CRONCE_KEY and the fence of its grant in CRONCE_FENCE.

exit codes: the command's own; 0 it succeeded, or another runs it; 75 the store cannot be reached, nothing was run;
76 the slot is closed as failed, lost or unknown, or this run lost it; 78 the store needs a person; 124 --timeout;
126 and 127 the command cannot be started; 2 the call makes no sense."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "cronce exec NAME --schedule SCHEDULE [options] -- COMMAND [argument ...]"
    parser.description = TEXT
    parser.add_argument("name", metavar="NAME", help="the job's name, the same on every machine")
    add = parser.add_argument
    add("--schedule", metavar="SCHEDULE", help="as in the crontab: '*/15 * * * *'; also 'every 15m', 'at 2026-…'")
    add("--tz", default="UTC", metavar="ZONE", help="the zone the schedule is meant in (default: UTC)")
    add(
        "--gap",
        choices=get_args(Gap),
        default="run",
        help="a time that clocks jump over: run (right after it; the default) or skip",
    )
    add(
        "--fold",
        choices=get_args(Fold),
        default="first",
        help="a time that comes twice: first (the default), second or both",
    )
    add("--slot", metavar="INSTANT", help="the slot outright, instead of the latest one of the schedule")
    add(
        "--on-lost",
        choices=get_args(OnLost),
        help="a run whose machine died: skip (the default; closed as lost) or rerun",
    )
    add(
        "--overlap",
        choices=get_args(Overlap),
        default="skip",
        help="while an earlier slot still runs: skip (the default), wait, replace, allow",
    )
    add("--start-within", metavar="SPAN", help="too late to start after this (default: until the next slot)")
    add("--jitter", metavar="SPAN", help="delay each start by less than this, by hash: the same on every machine")
    add("--retries", type=int, default=0, metavar="N", help="try again after a failure, up to N times (default: 0)")
    add("--backoff", metavar="SPAN", help="wait this long after the first failure, then twice as long (default: 1s)")
    add("--timeout", metavar="SPAN", help="stop the command after this long: TERM, then KILL")
    add("--grace", default="10s", metavar="SPAN", help="from TERM to KILL (default: 10s)")
    add("--lease", metavar="SPAN", help="how long a dead run blocks its slot (default: 30s under rerun, else 5m)")
    add("--keep", metavar="KEPT", help="runs to keep of each outcome: 100, or 30d (default: 30d, at most 1,000 in all)")
    add("--wait", action="store_true", help="while another runs it, wait for its outcome (default under rerun)")
    add("--store", metavar="URL", help="where slots are kept (default: $CRONCE_URL, a config file, one local file)")
    add("-v", "--verbose", action="store_true", help="say why the command was not run")


def run(options: argparse.Namespace) -> int:
    if not options.command:
        raise BadInput("what shall be run? Put it behind two dashes: cronce exec NAME --schedule … -- COMMAND")
    if options.schedule is None and options.slot is None:
        raise BadInput("which slot? Give --schedule '*/15 * * * *' as in the crontab, or --slot 2026-03-29T01:00:00Z")
    try:
        return _run(options)
    except CannotStart as error:
        print(f"cronce exec: {error}", file=sys.stderr)
        return error.code


def _run(options: argparse.Namespace) -> int:
    job = declare(
        options.name, options.schedule, tz=options.tz, gap=options.gap, fold=options.fold, on_lost=options.on_lost,
        overlap=options.overlap, start_within=options.start_within, jitter=options.jitter, retries=options.retries,
        backoff=options.backoff, timeout=options.timeout, lease=options.lease, keep=options.keep,
    )  # fmt: skip
    find_command(options.command[0], os.environ)  # before a slot is claimed for it
    chosen, clock = choose(options.store), SystemClock()
    _refuse_off_schedule(job, options.slot)
    if options.tz == "UTC" and options.slot is None:
        _doubt_zone(job.schedule, clock.wall())

    def say(text: str, *, quiet: bool = False) -> None:
        if options.verbose or not quiet:
            print(f"cronce exec: {text}", file=sys.stderr)

    is_new = chosen.is_default and not os.path.exists(chosen.file)  # noqa: PTH110  pathlib is slow to import
    with Supervisor(clock, parse_duration(options.grace).total_seconds()) as supervisor:
        stand_by = options.wait or "KUBERNETES_SERVICE_HOST" in os.environ
        command = Exec(job, options.command, supervisor, stand_by=stand_by, say=say)
        gc.freeze()  # from here on it may live for days: what was loaded is for ever, the rest is collected
        gc.enable()
        store = open_chosen(chosen)
        if not store.traits.shared:
            raise BadInput(
                f"{mask(chosen.url)} ends with this process, so every start would run everything; name a file"
            )
        try:
            return command.run(store, clock, options.slot)
        finally:
            store.close()
            if is_new and command.ran:
                say(f"slots are kept in {chosen.file}; set CRONCE_URL to choose another store")


def _refuse_off_schedule(job: Declaration, when: str | None) -> None:
    """A slot that is named and no instant of the schedule is a slip: nobody else will ever mean it."""
    if job.schedule is None or when is None:
        return
    at = job.slot_named(when).at
    if job.schedule.next(at - SECOND) != at:
        near = [spell(one) for one in (job.schedule.previous(at), job.schedule.next(at)) if one]
        raise BadInput(f"{when} is no slot of {job.schedule.text!r}; the nearest: {' and '.join(near)}")


def _doubt_zone(schedule: Schedule | None, now: Instant) -> None:
    """cron fires by the machine's own zone. Where that is not UTC, a schedule that is due now by local time, and not in
    UTC, was meant in local time: its slots would be those of another hour, or another day."""
    local = now.astimezone()
    offset = local.utcoffset() or timedelta(0)
    if not isinstance(schedule, Cron) or not offset:
        return
    if _due(schedule, now + offset) and not _due(schedule, now):
        print(
            f"cronce exec: it is {local:%H:%M} here, when {schedule.text!r} is due, but {now:%H:%M} in UTC, in which it"
            f" is meant; did you mean --tz {_zone_name(local)}?",
            file=sys.stderr,
        )


def _due(schedule: Schedule, now: Instant) -> bool:
    latest = schedule.previous(now + SECOND)
    return latest is not None and now - latest < timedelta(minutes=1)


def _zone_name(local: datetime) -> str:
    """The machine's zone as cron knows it: $TZ, or where /etc/localtime leads."""
    path = os.environ.get("TZ") or os.path.realpath("/etc/localtime")
    return path.rpartition("zoneinfo/")[2] if "zoneinfo/" in path else path if "/etc" not in path else f"{local:%Z}"
