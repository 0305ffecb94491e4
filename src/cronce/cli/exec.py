"""cronce exec: run a command for its slot, once, however many machines start it."""

import argparse
import gc
import os
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Final

from cronce.cli import Arguments, add_arguments, say
from cronce.clock import SystemClock
from cronce.errors import BadInput, CannotStart, CronceError, StoreError
from cronce.events import Event
from cronce.integrations.command import CommandSupervisor, Exec, ObservedExec
from cronce.model import Instant, spell
from cronce.runtime.call import could_not_ask
from cronce.runtime.declare import Declaration, declare
from cronce.runtime.journal import own_journal
from cronce.runtime.pod import JOB_NAME
from cronce.runtime.processes.process_group import find_command
from cronce.schedule import Cron, Schedule, parse_duration
from cronce.schedule.instant import SECOND
from cronce.stores import mask
from cronce.stores.default import choose, open_chosen

EXEC_DESCRIPTION: Final = """\
Put it before the command of a crontab line, in every crontab that shares the store:

  */15 * * * *  cronce exec order-sync --schedule '*/15 * * * *' -- ./sync.sh

The command runs once for each slot of the schedule. A process that comes second exits with 0 and prints nothing. The
command finds its slot in CRONCE_SLOT, a key for idempotent effects in CRONCE_KEY and the fence of its grant in
CRONCE_FENCE.

exit codes: the command's own; 0 it succeeded, or another process runs it; 75 the store cannot be reached, and nothing
ran; 76 the slot is closed as failed, lost or unknown, or this run lost it; 78 the store cannot be used until you fix
it; the message says how; 124 --timeout; 126 and 127 the command cannot be started; 2 the options are wrong."""

SCHEDULE_HELP: Final = "as in the crontab: '*/15 * * * *'"
JOB_POLICIES: Final[Arguments] = {
    "--tz ZONE": ("UTC", "the time zone of the schedule (default: UTC)"),
    "--gap {run,skip}": (
        "run",
        "a time that is skipped when clocks go forward: run (right after it; the default) or skip",
    ),
    "--fold {first,second,both}": (
        "first",
        "a time that occurs twice when clocks go back: first (the default), second or both",
    ),
    "--on-lost {skip,rerun}": ("a run whose machine died: skip (the default; closed as lost) or rerun"),
    "--overlap {skip,wait,replace,allow}": (
        "skip",
        "while an earlier slot still runs: skip (the default), wait, replace, allow",
    ),
    "--start-within SPAN": "skip a slot that cannot start within this time (default: the time until the next slot)",
    "--jitter SPAN": "delay each start by up to this time; a slot's delay is the same on every machine",
    "--retries N": (0, "try again after a failure, up to N times (default: 0)"),
    "--backoff SPAN": "wait this long after the first failure, then twice as long (default: 1s)",
    "--timeout SPAN": "stop a run after this time (a command with TERM, then KILL)",
    "--lease SPAN": "how long a run whose process died blocks its slot (default: 30s with rerun, else 5m)",
    "--keep KEPT": "how many runs of each outcome to keep, or for how long: 100, 30d (default: 30d, at most 1,000)",
}


CALL_ARGUMENTS: Final = {
    "--observe": "always run the command, and only record where cronce would have refused it",
    "--wait": "if another process runs it, wait for its outcome (default with rerun)",
    "--store URL": "where slots are kept (default: $CRONCE_URL, a config file, one local file)",
    "--ping URL": "ping this URL after success, URL/fail after failure (default: $CRONCE_PING)",
    "-v, --verbose": "print why the command was not run",
}
"""Options of the call."""

COMMAND_POLICIES: Final[Arguments] = {
    "--schedule SCHEDULE": SCHEDULE_HELP,
    **JOB_POLICIES,
    "--grace SPAN": ("10s", "the time between TERM and KILL (default: 10s)"),
}
"""Options of a job whose function is a command."""

EXEC_ARGUMENTS: Final[Arguments] = {
    "NAME": "the job's name, the same on every machine",
    **COMMAND_POLICIES,
    "--schedule SCHEDULE": f"{SCHEDULE_HELP}; also 'every 15m', 'at 2026-…'",
    "--slot INSTANT": "run this slot, instead of the latest slot of the schedule",
    **CALL_ARGUMENTS,
}


def add_exec_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(hint="the command goes after two dashes: cronce exec NAME --schedule … -- COMMAND")
    parser.usage = "cronce exec NAME --schedule SCHEDULE [options] -- COMMAND [argument ...]"


def said(options: argparse.Namespace, known: Arguments = COMMAND_POLICIES) -> list[str]:
    """The options that were given, as words for another `cronce exec`."""
    usual = argparse.ArgumentParser()
    add_arguments(usual, known)
    words: list[str] = []
    for name, default in vars(usual.parse_args([])).items():
        value = getattr(options, name)
        if value != default:
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return words


def declared(options: argparse.Namespace) -> Declaration:
    """The job that the options describe, checked."""
    return declare(
        options.name, options.schedule, tz=options.tz, gap=options.gap, fold=options.fold, on_lost=options.on_lost,
        overlap=options.overlap, start_within=options.start_within, jitter=options.jitter, retries=options.retries,
        backoff=options.backoff, timeout=options.timeout, lease=options.lease, keep=options.keep,
    )  # fmt: skip


def run_exec(options: argparse.Namespace) -> int:
    if not options.command:
        raise BadInput("the command is missing; put it after two dashes: cronce exec NAME --schedule … -- COMMAND")
    if options.schedule is None and options.slot is None:
        raise BadInput("give --schedule '*/15 * * * *', as in the crontab, or a slot: --slot 2026-03-29T01:00:00Z")
    ping, heard = options.ping or os.environ.get("CRONCE_PING"), list[Event]()
    if ping:
        from cronce.monitor.pings import check_ping  # noqa: PLC0415  most have none

        check_ping(ping)
    try:
        code = _run(options, heard.append)
    except CannotStart as error:
        for text in (str(error), *getattr(error, "__notes__", ())):
            say("exec", text)
        _ping(ping, options.name, heard, str(error))
        return error.code
    except StoreError as error:
        _ping(ping, options.name, heard, str(error))
        raise
    only_seen = options.observe  # then nothing is claimed, and there is no run to report
    _ping(ping, options.name, heard, f"exit code {code}" if only_seen and code else "", only_seen=only_seen)
    return code


def _ping(url: str | None, job: str, heard: list[Event], trouble: str = "", *, only_seen: bool = False) -> None:
    """After the command has ended, so that it does not wait for the ping."""
    if not url:
        return
    from cronce.monitor.pings import ping_after  # noqa: PLC0415

    if went_wrong := ping_after(url, job, heard, trouble, only_seen=only_seen):
        say("exec", went_wrong)


def _run(options: argparse.Namespace, hear: Callable[[Event], object]) -> int:
    job = declared(options)
    if options.observe:
        find_command(options.command[0], os.environ)
        return _observed(options, job)
    chosen, clock = choose(options.store), SystemClock()
    _refuse_off_schedule(job, options.slot)
    job_name = os.environ.get(JOB_NAME, "")
    if options.tz == "UTC" and options.slot is None and not job_name:
        _doubt_zone(job.schedule, clock.wall())
    is_new = chosen.is_default and not os.path.exists(chosen.file)  # noqa: PTH110  pathlib is slow to import
    in_cluster = bool(job_name) or "KUBERNETES_SERVICE_HOST" in os.environ
    with CommandSupervisor(clock, parse_duration(options.grace).total_seconds(), hastens=in_cluster) as supervisor:
        unwritten: list[str] = []
        journal = own_journal(chosen, unwritten.append)
        command = Exec(
            job,
            options.command,
            supervisor,
            env=_passed_on(),
            stand_by=options.wait or in_cluster,
            job_name=job_name,
            journal=journal,
            say=partial(_tell, options),
            hear=hear,
        )
        gc.freeze()  # the command may run for days: what is loaded by now is never collected, the rest is
        gc.enable()
        try:
            find_command(options.command[0], os.environ)  # before a slot is claimed for it
            store = open_chosen(chosen)
        except (CannotStart, StoreError) as error:
            could_not_ask(journal, job, clock, error, options.slot)
            _add_notes(error, unwritten)
            raise
        if not store.traits.shared:
            raise BadInput(
                f"{mask(chosen.url)} exists only in this process, so every start would run every slot; name a file"
            )
        try:
            return command.run(store, clock, options.slot)
        except CronceError as error:
            _add_notes(error, unwritten)
            raise
        finally:
            store.close()
            for text in unwritten:
                say("exec", text)
            if is_new and command.ran:
                say("exec", f"slots are kept in {chosen.file}; set CRONCE_URL to choose another store")


def _add_notes(error: CronceError, unwritten: list[str]) -> None:
    """They are printed after the error: it is what happened, and that it was not noted either is the less."""
    for text in unwritten:
        error.add_note(text)
    unwritten.clear()


def _observed(options: argparse.Namespace, job: Declaration) -> int:
    """The command runs even if the store cannot be used."""
    clock = SystemClock()
    with CommandSupervisor(clock, parse_duration(options.grace).total_seconds()) as supervisor:
        only = ObservedExec(job, supervisor, clock, lambda: open_chosen(choose(options.store)), partial(_tell, options))
        return only.run(options.command, os.environ, options.slot)


def _tell(options: argparse.Namespace, text: str, *, quiet: bool = False) -> None:
    if options.verbose or not quiet:
        say("exec", text)


def _passed_on() -> dict[str, str]:
    """The command's environment, without the name of the pod's Job: a job that the command itself guards would take the
    slot of that Job for its own, and wait for us."""
    return {name: value for name, value in os.environ.items() if name != JOB_NAME}


def _refuse_off_schedule(job: Declaration, when: str | None) -> None:
    """A slot that is not an instant of the schedule is a mistake: no other process would ever claim it."""
    if job.schedule is None or when is None:
        return
    at = job.slot_named(when).at
    if job.schedule.next(at - SECOND) != at:
        near = [spell(one) for one in (job.schedule.previous(at), job.schedule.next(at)) if one]
        raise BadInput(f"{when} is not a slot of {job.schedule.text!r}; the nearest: {' and '.join(near)}")


def _doubt_zone(schedule: Schedule | None, now: Instant) -> None:
    """cron fires by the machine's own zone. Where that is not UTC, a schedule that is due now by local time, and not in
    UTC, was meant in local time: its slots would be those of another hour, or another day."""
    local = now.astimezone()
    offset = local.utcoffset() or timedelta(0)
    if not isinstance(schedule, Cron) or not offset:
        return
    if _due(schedule, now + offset) and not _due(schedule, now):
        from cronce.cli.host_settings import shell_zone, system_zone  # noqa: PLC0415  rarely needed, and slow to import

        say(
            "exec",
            f"{schedule.text!r} is due at {local:%H:%M}, the time here, but cronce reads it as UTC, where it is"
            f" {now:%H:%M}; did you mean --tz {shell_zone() or system_zone() or f'{local:%Z}'}?",
        )


def _due(schedule: Schedule, now: Instant) -> bool:
    latest = schedule.previous(now + SECOND)
    return latest is not None and now - latest < timedelta(minutes=1)
