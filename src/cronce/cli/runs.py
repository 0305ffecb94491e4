"""Jobs and their runs. What the store knows of them: cronce jobs, show, runs and why. The jobs that live in the store,
described by the options of `Cronce.job`: cronce jobs add, edit and remove. And cronce beat, a sign of life of a
scheduler that is not ours."""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from cronce.cli import Arguments, add_arguments, refuse_outside
from cronce.cli.exec import JOB_POLICIES
from cronce.cli.session import BY_ARGUMENT, STORE_AND_JSON, acting, looking, nothing, read_option, show_table
from cronce.cli.terminal import ColouredText, Text, paint, screen, show, table, toned
from cronce.clock import SystemClock
from cronce.errors import BadInput
from cronce.look import MAX_RUNS, find_runs, find_why
from cronce.model import Instant, check_name, spell
from cronce.monitor.read_jobs import JobView, job_view
from cronce.protocol.notices import Stored
from cronce.protocol.record import Record
from cronce.runtime import queries
from cronce.runtime.background import SignOfLife, forget_beats, write_notes
from cronce.runtime.flow import Flow
from cronce.runtime.journal import own_journal
from cronce.runtime.operations import Operator
from cronce.runtime.prevented import prevented_in
from cronce.runtime.queries import STATES_WANTED, JobLine, RunSeen, read_all
from cronce.runtime.stored_jobs import add, edit, listed, remove
from cronce.runtime.why import Case
from cronce.schedule import Schedule, format_duration
from cronce.schedule.describe import describe
from cronce.stores.base import Scan
from cronce.stores.default import choose
from cronce.telling import documents as told
from cronce.telling.story import about, tell, warnings
from cronce.telling.words import (
    as_written,
    away,
    by_whom,
    counted,
    due_again,
    fate,
    how_long,
    moment,
    overdue,
    reason_of,
    short,
)

# --- jobs -------------------------------------------------------------------------------------------------------------


def add_jobs_arguments(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser, STORE_AND_JSON)
    parser.set_defaults(hint="`cronce show JOB` shows one job")


def run_jobs(options: argparse.Namespace) -> None:
    with looking(options) as node:
        now, lines = node.do(listed())
        everything, served = node.do(queries.halted_and_carried())
    if everything and not options.json:
        print(paint(ColouredText(f"everything is paused {by_whom(everything)}", "odd"), screen()))
    headers = ["job", "schedule", "next slot", "last run", "outcome"]
    rows = [_job_row(line, now, served) for line in lines]
    if any(line.stored for line in lines):
        headers.append("stored")
        rows = [[*row, _stored(line.stored)] for row, line in zip(rows, lines, strict=True)]
    document = {"jobs": [told.job_document(line, served) for line in lines], "halted": told.act_document(everything)}
    show_table(options, document, headers, rows, "no job is known yet")


def _job_row(line: JobLine, now: Instant, served: set[str]) -> list[Text]:
    seen, last = line.seen, line.last
    if seen.job is None:
        return [seen.name, ColouredText(seen.trouble, "bad"), "", "", ""]
    upcoming: Text = f"{spell(line.next)} ({away(line.next, now)})" if line.next else ""
    if upcoming and seen.is_scheduled and seen.name not in served:
        upcoming = ColouredText(f"{upcoming}, no scheduler runs it", "bad")
    return [
        seen.name,
        _schedules(seen.schedules),
        ColouredText(f"paused {by_whom(seen.job.paused)}", "odd") if seen.job.paused else upcoming,
        last.slot.key.partition("@")[2] if last else "",
        toned(last.shown) if last else "",
    ]


def _stored(stored: Stored | None) -> str:
    return f"{'by' if stored.definition else 'removed by'} {stored.by}" if stored else ""


def _schedules(rules: tuple[Schedule, ...]) -> str:
    """A job's schedule as it was written; of several the newest, and that there are others."""
    others = f" ({len(rules)} seen)" if len(rules) > 1 else ""
    return f"{as_written(rules[0])}{others}" if rules else ""


# --- one job ----------------------------------------------------------------------------------------------------------

DEFAULT_RUNS: Final = 10
SHOW_EPILOG = """
A slot instead of a job is the same as `cronce why SLOT`.

examples:
  cronce show order-sync
  cronce show order-sync --json
"""


SHOW_ARGUMENTS: Final = {"what: JOB": "which job", **STORE_AND_JSON}


def run_show(options: argparse.Namespace) -> int:
    if "@" in options.what:
        return run_why(options)
    with looking(options) as node:
        seen = node.do(job_view(options.what, DEFAULT_RUNS))
        if seen is None:
            queries.refuse_unknown(options.what, node.do(queries.job_names()))
    assert seen is not None
    found = seen.runs.runs
    line = JobLine(seen.seen, seen.next, found[0] if found else None, seen.stored)
    document = told.job_document(line, {options.what} if seen.carried else ())
    document |= {"halted": told.act_document(seen.halted), "runs": [told.run_document(one) for one in found]}
    facts = table(["job", options.what], list(_facts(seen)), screen())
    show(options, document, "\n\n".join([facts, _runs_table(found) if found else "it has not run yet"]))
    return 0


def _facts(view: JobView) -> Iterator[list[Text]]:
    seen, now = view.seen, view.now
    if seen.job is None:
        yield ["trouble", ColouredText(seen.trouble, "bad")]
    for rule in seen.schedules:
        yield ["schedule", f"{as_written(rule)}: {describe(rule)}"]
    if halt := view.halted or (seen.job and seen.job.paused):
        yield ["paused", ColouredText(by_whom(halt), "odd")]
    if view.next:
        yield ["next slot", f"{spell(view.next)} ({away(view.next, now)})"]
    if policies := ", ".join(
        f"{name} {value}" for name, value in seen.policies.items() if value is not None and name != "zone"
    ):
        yield ["policies", policies]
    if view.stored:
        yield ["stored", _stored(view.stored)]
    by_us = (
        "a live scheduler" if view.carried else ColouredText("no live scheduler runs it: `cronce run app:cron`", "bad")
    )
    yield ["run by", by_us if seen.is_scheduled else "calls from outside: cron, `cronce exec`, another scheduler"]
    if view.durations:
        spans = sorted(span for _, span in view.durations)
        yield ["took", f"{short(spans[len(spans) // 2])} at the median, {short(spans[-1])} at most"]
    if view.prevented.total:
        yield ["prevented", counted(view.prevented.total, "duplicate run")]


# --- runs -------------------------------------------------------------------------------------------------------------

RUNS_EPILOG = """
examples:
  cronce runs
  cronce runs order-sync -n 50
  cronce runs --state lost --json
"""
WHY_EPILOG = """
examples:
  cronce why order-sync
  cronce why order-sync@2026-03-29T01:00:00Z
  cronce why order-sync@2026-03-29T01:00:00Z#rerun-1
"""


def add_runs_arguments(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser, {"[JOB]": "of this job only"})
    add_arguments(parser, {"--state STATE": f"only these: {', '.join(STATES_WANTED)}"}, choices=STATES_WANTED)
    order = "--by {ran,slot}"
    more: Arguments = {"-n N": (20, "how many (default 20)"), order: ("ran", "newest run first (default), or by slot")}
    add_arguments(parser, {**more, **STORE_AND_JSON})


def run_runs(options: argparse.Namespace) -> None:
    refuse_outside("-n", options.n, MAX_RUNS)
    with looking(options) as node:
        found = node.do(find_runs(options.job, options.state, options.n, options.by))
    document = {"runs": [told.run_document(one) for one in found]}
    wanted = f"{f' {options.state}' if options.state else ''} runs{f' of {options.job}' if options.job else ''}"
    show(options, document, _runs_table(found) if found else nothing(f"No{wanted} are recorded", options))


def _runs_table(found: Sequence[RunSeen]) -> str:
    headers = ["slot", "state", "holder", "started", "took", "reason"]
    return table(headers, [_run_row(one) for one in found], screen())


def _run_row(one: RunSeen) -> list[Text]:
    record = one.record
    state = toned(one.shown)
    if record is None:
        return [one.slot.key, state, "", "", "", one.trouble]
    if due_again(record):
        return [one.slot.key, state, "", "", "", remark(one, record)]
    started = moment(record.started, one.slot.at) if record.started else ""
    return [one.slot.key, state, record.holder, started, how_long(record), remark(one, record)]


def remark(one: RunSeen, record: Record) -> str:
    """Why it ended so; else that its scheduler is gone, that it does not stop, how far it has come, who asked."""
    done = f"{record.progress[0]:,} of {record.progress[1]:,} done" if record.progress else ""
    return reason_of(record) or ", ".join(
        filter(None, [fate(one), overdue(record), done, f"asked for by {record.by}" if record.by else ""])
    )


# --- why --------------------------------------------------------------------------------------------------------------


A_JOB_OR_SLOT: Final = (
    "a job, or a slot such as order-sync@2026-03-29T01:00:00Z; a day is enough if the job has one slot on it"
)
WHY_ARGUMENTS: Final = {"what: JOB|SLOT": A_JOB_OR_SLOT, **STORE_AND_JSON}


def run_why(options: argparse.Namespace) -> int:
    with looking(options) as node:
        found = find_why(node, options.what, own_journal(choose(options.store)))
        name = found.job.name
        counts = node.do(read_all(Scan(f"duplicates/{name}/"))).cells if "@" not in options.what else ()
        prevented = prevented_in(counts)[name].total if counts else 0
    first = warnings(found) if "@" in options.what else [about(found, prevented)]
    text = "\n\n".join([*first, *(tell(story, found) for story in found.stories)])
    show(options, told.why_document(found), text)
    return 1 if any(story.case in (Case.NO_SLOT, Case.NO_REQUEST) for story in found.stories) else 0


# --- jobs that live in the store --------------------------------------------------------------------------------------

DEFINITION_WORDS: Final = (
    "schedule", "every", "at", "start", "end", "tz", "gap", "fold", "missed", "on_lost", "overlap", "turns",
    "start_within", "jitter", "retries", "backoff", "timeout", "lease", "keep", "function", "isolate", "payload",
)  # fmt: skip

ADD_EPILOG: Final = """
Processes whose --allow covers the job run it from now on; they notice it within two seconds. Adding the same job again
changes nothing; `cronce jobs edit` changes a job, `cronce jobs remove` removes it.

examples:
  cronce jobs add mail '*/15 * * * *' --function myapp.tasks:mail --on-lost rerun
  cronce jobs add sync --every 2h --timeout 10m -- ./scripts/sync.sh --all
"""
EDIT_EPILOG: Final = """
Options that are left out do not change. A new schedule does not run slots of the past. A new kind of schedule, function
or command replaces the old one. --unset sets an option back to its default.

examples:
  cronce jobs edit mail --schedule '0 * * * *' --tz Europe/Berlin
  cronce jobs edit sync --unset timeout -- ./scripts/sync.sh --some
"""
REMOVE_EPILOG: Final = """
The job's slots no longer run. A run in progress is not stopped (`cronce cancel` does that). Its history stays, and so
does the record of who removed it and when. To stop it for a while, use `cronce pause`.
"""


def add_add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} NAME 'SCHEDULE' [options] (--function MODULE:NAME | -- COMMAND [argument ...])"
    schedule = "'*/15 * * * *', 'every 15m' or 'at 2026-…'; or give --every"
    add_arguments(parser, {"NAME": "the job's name", "[SCHEDULE]": schedule})
    _add_definition(parser)


def run_add(options: argparse.Namespace) -> None:
    words, as_it_was = _given(options), "in the store already; nothing to change"
    # to add a job may be the first that is done to a store
    _changed(options, lambda operator: add(operator, options.name, words), "added", as_it_was, make=True)


def add_edit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} JOB [options] [-- COMMAND [argument ...]]"
    add_arguments(parser, {"name: JOB": "the job's name", "--schedule SCHEDULE": "another schedule"})
    _add_definition(parser)
    unset: Arguments = {"--unset OPTION": ([], "set this option back to its default, as in --unset timeout")}
    add_arguments(parser, unset, type=lambda word: word.replace("-", "_"), choices=DEFINITION_WORDS)


def run_edit(options: argparse.Namespace) -> None:
    changes = {**dict.fromkeys(options.unset), **_given(options)}
    if not changes:
        raise BadInput(f"nothing to change was given; try: cronce jobs edit {options.name} --schedule '0 * * * *'")
    _changed(options, lambda operator: edit(operator, options.name, changes), "changed", "as it was")


REMOVE_ARGUMENTS: Final = {"name: JOB": "the job's name", **BY_ARGUMENT, **STORE_AND_JSON}


def run_remove(options: argparse.Namespace) -> None:
    _changed(options, lambda operator: remove(operator, options.name), "removed", "")


WHEN_AND_WHAT: Final = {
    "--every SPAN": "instead of a cron expression: 15m, 2h, 1d",
    "--at INSTANT": "once, at this instant",
    "--start INSTANT": "run no slot before this instant",
    "--end INSTANT": "run no slot after this instant",
    "--function MODULE:NAME": "an importable function that --allow of the processes covers",
}
OF_SCHEDULERS: Final = {
    "--missed {skip,latest,all}": "what to do with slots that fell due while no scheduler ran: skip, latest, all",
    "--turns N": "how many runs may be in progress at the same time (default: 1)",
}


def _add_definition(parser: argparse.ArgumentParser) -> None:
    """All but the schedule, which is an argument of one and an option of the other."""
    add_arguments(parser, WHEN_AND_WHAT)
    isolate = "run the function in a process of its own"
    parser.add_argument("--isolate", action=argparse.BooleanOptionalAction, help=isolate)
    payload = {"--payload JSON": "the payload of each run"}
    add_arguments(parser, {**payload, **JOB_POLICIES, **OF_SCHEDULERS, **BY_ARGUMENT, **STORE_AND_JSON})
    parser.set_defaults(**dict.fromkeys(DEFINITION_WORDS))  # what is not said is left to the job


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """What was said of the job."""
    words = {word: value for word in DEFINITION_WORDS if (value := getattr(options, word)) is not None}
    if "payload" in words:
        words["payload"] = read_option("--payload", words["payload"])
    return {**words, "command": list(options.command)} if options.command else words


def _changed(
    options: argparse.Namespace,
    change: Callable[[Operator], Flow[Stored | None]],
    done: str,
    as_it_was: str,
    *,
    make: bool = False,
) -> None:
    """Change what the store has of the job, and say what came of it."""
    with acting(options, make=make) as actor:
        stored = actor.node.do(change(actor.operator))
    document = {"job": options.name, "changed": bool(stored), "revision": stored and stored.revision}
    show(options, document, f"{options.name} is {f'{done}, revision {stored.revision}' if stored else as_it_was}")


# --- a sign of life ---------------------------------------------------------------------------------------------------

BEAT_EPILOG = """
Let the scheduler that you want to watch run this command at every interval, beside its jobs. `cronce watch` raises an
alert when no heartbeat came for two intervals, and when more than two came within one: two schedulers use the name.

examples:
  * * * * *  cronce beat web-1-cron                  a line of its own in the crontab
  */5 * * * *  cronce beat nightly --every 5m        by its own schedule
  cronce beat web-1-cron --remove                    it was shut down on purpose
"""


BEAT_ARGUMENTS: Final[Arguments] = {
    "NAME": "the scheduler's name, the same each time",
    "--every SPAN": ("1m", "how often it sends a heartbeat (default: 1m)"),
    "--remove": "expect no more heartbeats of it",
    **STORE_AND_JSON,
}


def run_beat(options: argparse.Namespace) -> None:
    """Quiet, as all that cron starts should be."""
    check_name(options.name)
    clock = SystemClock()
    beat = SignOfLife(options.name, options.every, clock.boot())
    with looking(options, make=not options.remove) as node:
        client = node.ledger.client
        if options.remove:
            known = node.do(forget_beats(client, options.name))
            text = (
                f"heartbeats of {options.name} are not expected any more"
                if known
                else (f"no heartbeats of {options.name} were expected")
            )
            show(options, {"removed": known}, text)
            return
        node.do(write_notes(client, [beat], clock.boot))
    if options.json:
        print(json.dumps({"beat": options.name, "every": format_duration(beat.every), "by": beat.by}))
