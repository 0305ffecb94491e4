"""What the store knows. cronce jobs, runs, why and observed: of jobs and their runs. holders, beat, locks and leaders:
the schedulers that are alive, a sign of life of one that is not ours, and who holds or held what by a lease."""

import argparse
import json
from datetime import timedelta
from functools import partial
from typing import Final

from cronce.cli import refuse_outside
from cronce.cli.session import acting, add_store, looking, nothing, show_table
from cronce.cli.terminal import Text, Toned, paint, screen, show, table, toned
from cronce.clock import SystemClock
from cronce.errors import BadInput, CronceError
from cronce.model import Instant, Slot, check_name, spell
from cronce.protocol.notices import Doubled, Observed, Stored
from cronce.protocol.record import Record
from cronce.runtime import queries
from cronce.runtime.ahead import clock_doubt
from cronce.runtime.background import SignOfLife, forget_beats, write_notes
from cronce.runtime.journal import own_journal
from cronce.runtime.observe import ObservedSeen, observations
from cronce.runtime.queries import WANTED, HeldSeen, HolderSeen, JobLine, RunSeen
from cronce.runtime.stored_jobs import listed
from cronce.runtime.why import Case, why
from cronce.schedule import Schedule, format_duration, parse_duration
from cronce.stores.default import choose
from cronce.telling import documents as told
from cronce.telling.documents import LEADERS, LOCKS, Leases
from cronce.telling.story import about, tell, warnings
from cronce.telling.words import ago, as_written, away, by_whom, fate, moment, overdue, short

# --- jobs -------------------------------------------------------------------------------------------------------------


add_jobs_arguments = add_store


def run_jobs(options: argparse.Namespace) -> None:
    with looking(options) as desk:
        now, lines = desk.do(listed())
        everything = desk.do(queries.halted())
        served = desk.do(queries.carried())
    if everything and not options.json:
        print(paint(Toned(f"everything is paused {by_whom(everything)}", "odd"), screen()))
    headers = ["job", "schedule", "next slot", "last slot", "outcome"]
    rows = [_job_row(line, now, served) for line in lines]
    if any(line.stored for line in lines):
        headers.append("stored")
        rows = [[*row, _stored(line.stored)] for row, line in zip(rows, lines, strict=True)]
    document = {"jobs": [told.job_document(line, served) for line in lines], "halted": told.act_document(everything)}
    show_table(options, document, headers, rows, "no job is known yet")


def _job_row(line: JobLine, now: Instant, served: set[str]) -> list[Text]:
    seen, last = line.seen, line.last
    if seen.job is None:
        return [seen.name, Toned(seen.trouble, "bad"), "", "", ""]
    upcoming: Text = f"{spell(line.next)} ({away(line.next, now)})" if line.next else ""
    if upcoming and seen.is_scheduled and seen.name not in served:
        upcoming = Toned(f"{upcoming}, nobody runs it", "bad")
    return [
        seen.name,
        _schedules(seen.schedules),
        Toned(f"paused {by_whom(seen.job.paused)}", "odd") if seen.job.paused else upcoming,
        last.slot.key.partition("@")[2] if last else "",
        toned(last.shown) if last else "",
    ]


def _stored(stored: Stored | None) -> str:
    return f"{'by' if stored.definition else 'removed by'} {stored.by}" if stored else ""


def _schedules(rules: tuple[Schedule, ...]) -> str:
    """A job's schedule as it was written; of several the newest, and that there are others."""
    others = f" ({len(rules)} seen)" if len(rules) > 1 else ""
    return f"{as_written(rules[0])}{others}" if rules else ""


# --- runs -------------------------------------------------------------------------------------------------------------

MOST = 10_000
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
  cronce why order-sync@2026-03-29T01:00:00Z#again
"""


def add_runs_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", nargs="?", metavar="JOB", help="of this job only")
    parser.add_argument("--state", choices=WANTED, metavar="STATE", help=f"only these: {', '.join(WANTED)}")
    parser.add_argument("-n", type=int, default=20, metavar="N", help="how many (default 20)")
    add_store(parser)


def run_runs(options: argparse.Namespace) -> None:
    refuse_outside("-n", options.n, MOST)
    with looking(options) as desk:
        if options.job is not None:
            queries.refuse_unknown(options.job, desk.do(queries.job_names()))
        found = desk.do(queries.runs(options.job, options.state, options.n))
    headers = ["slot", "state", "holder", "started", "took", "reason"]
    document = {"runs": [told.run_document(one) for one in found]}
    show_table(options, document, headers, [_run_row(one) for one in found], "no such run is on record")


def _run_row(one: RunSeen) -> list[Text]:
    record = one.record
    state = toned(one.shown)
    if record is None:
        return [one.slot.key, state, "", "", "", one.trouble]
    took = record.took()
    started = moment(record.started, one.slot.at) if record.started else ""
    return [one.slot.key, state, record.holder, started, short(took) if took is not None else "", _remark(one, record)]


def _remark(one: RunSeen, record: Record) -> str:
    """Why it ended so; else that its host is gone, that it does not stop, how far it has come, who asked for it."""
    done = f"{record.progress[0]:,} of {record.progress[1]:,} done" if record.progress else ""
    return record.reason or ", ".join(
        filter(None, [fate(one), overdue(record), done, f"asked for by {record.by}" if record.by else ""])
    )


# --- why --------------------------------------------------------------------------------------------------------------


def add_why_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="JOB|SLOT", help="a job, or a slot such as order-sync@2026-03-29T01:00:00Z")
    add_store(parser)


def run_why(options: argparse.Namespace) -> int:
    job, wanted = _asked(options.what)
    with looking(options) as desk:
        doubt = desk.do(clock_doubt(desk.ledger))
        found = desk.do(why(job, wanted, desk.store.traits))
        journal = own_journal(choose(options.store)).all()
        if found is None:
            queries.refuse_unknown(job, desk.do(queries.job_names()))
    assert found is not None
    found = found._replace(journal=tuple(journal), doubt=doubt.words if doubt else "")
    first = warnings(found) if wanted else [about(found)]
    text = "\n\n".join([*first, *(tell(story, found) for story in found.stories)])
    show(options, told.why_document(found), text)
    return 1 if any(story.case in (Case.NO_SLOT, Case.NO_REQUEST) for story in found.stories) else 0


def _asked(what: str) -> tuple[str, Slot | None]:
    """The job, and which of its slots if one was named."""
    if "@" not in what:
        return check_name(what), None
    wanted = queries.slot_named(what)
    return wanted.job, wanted


# --- what was only observed -------------------------------------------------------------------------------------------

OBSERVED_EPILOG = """
Functions under @cron.observe, jobs with mode="observe" and commands of `cronce exec --observe` run as before. Here is
how often they were called, how often that was once too often, and by whom last.

exit codes: 1 there were duplicates (with --since: as recently as that), else 0.

examples:
  cronce observed
  cronce observed newsletter --cost 0.12           twelve cents for each call that was too many
  cronce observed --since 1h                       for a monitoring system to call
"""


def add_observed_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="of this function or job only")
    parser.add_argument("--cost", metavar="AMOUNT", help="what one call costs, in any currency")
    parser.add_argument("--since", metavar="SPAN", help="exit with 1 only for what is as recent")
    add_store(parser)


def run_observed(options: argparse.Namespace) -> int:
    cost = None if options.cost is None else _cost(options.cost)
    since = None if options.since is None else parse_duration(options.since)
    with looking(options) as desk:
        now, seen = desk.do(observations(options.name))
    if options.name is not None and not seen:
        raise CronceError(f"nothing is on record of {options.name}; `cronce observed` lists what is")
    headers = ["name", "calls", "duplicates", *(["cost"] if cost is not None else []), "last duplicate"]
    document = {"observed": [_observed_document(one, cost) for one in seen]}
    show_table(options, document, headers, [_observed_row(one, now, cost) for one in seen], "nothing was observed")
    return int(any(_is_bad(one, now, since) for one in seen))


def _is_bad(one: ObservedSeen, now: Instant, since: timedelta | None) -> bool:
    """What cannot be read is nothing that one could call clean."""
    if one.observed is None:
        return True
    last = _last(one.observed)
    return last is not None and (since is None or last.at >= now - since)


def _last(observed: Observed) -> Doubled | None:
    return max(observed.recent, key=lambda one: one.at, default=None)


def _cost(text: str) -> float:
    try:
        cost = float(text)
    except ValueError:
        cost = -1.0
    if not 0 <= cost < float("inf"):
        raise BadInput(f"--cost is what one call costs, such as 0.12, and this is {text[:40]!r}")
    return cost


def _total(observed: Observed, cost: float) -> float:
    return round(observed.doubled * cost, 6)


def _observed_document(one: ObservedSeen, cost: float | None) -> dict[str, object]:
    observed = one.observed
    if observed is None:
        return {"name": one.name, "unreadable": True}
    return {**told.observed_document(one.name, observed), "cost": None if cost is None else _total(observed, cost)}


def _observed_row(one: ObservedSeen, now: Instant, cost: float | None) -> list[Text]:
    observed = one.observed
    if observed is None:
        return [one.name, Toned("unreadable", "bad"), "", *([] if cost is None else [""]), ""]
    last = _last(observed)
    duplicates = Toned(f"{observed.doubled:,}", "bad" if observed.doubled else "good")
    price = [] if cost is None else [f"{_total(observed, cost):,.2f}"]
    told = f"{away(last.at, now)} by {last.by}, {last.why}" if last else ""
    return [one.name, f"{observed.times:,}", duplicates, *price, told]


LOCKS_EPILOG: Final = """
examples:
  cronce locks
  cronce locks reindex
"""
LEADERS_EPILOG: Final = """
examples:
  cronce leaders
  cronce leaders indexer
"""

# --- schedulers -------------------------------------------------------------------------------------------------------


add_holders_arguments = add_store


def run_holders(options: argparse.Namespace) -> None:
    with looking(options) as desk:
        now, live = desk.do(queries.holders())
    headers = ["holder", "role", "workers", "labels", "since", "version", "last beat", "state"]
    document = {"holders": [told.holder_document(one) for one in live]}
    show_table(options, document, headers, [_holder_row(one, now) for one in live], "no scheduler is alive")


def _holder_row(one: HolderSeen, now: Instant) -> list[Text]:
    holder = one.holder
    labels = " ".join(f"{name}={value}" for name, value in sorted(holder.labels.items()))
    since, beat = spell(holder.since), ago(one.beat, now)
    return [holder.holder, holder.role, str(holder.workers), labels, since, holder.cronce, beat, _state(one)]


def _state(one: HolderSeen) -> Toned:
    if one.drained is not None:
        return Toned(f"drained {by_whom(one.drained)}", "odd")
    return Toned("draining", "odd") if one.holder.draining else Toned("at work", "busy")


# --- locks and leaders ------------------------------------------------------------------------------------------------


def _add_arguments(parser: argparse.ArgumentParser, kind: Leases) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help=f"this {kind.noun}, with its history")
    add_store(parser)


def _run(options: argparse.Namespace, kind: Leases) -> None:
    with looking(options) as desk:
        found = desk.do(queries.locks() if kind is LOCKS else queries.leaders())
    never = f"nobody ever {kind.says('held')} a {kind.noun}"
    if options.name is not None:
        found = [one for one in found if one.name == options.name]
        if not found:
            raise CronceError(f"{never} {options.name[:60]!r}; `cronce {kind.way}` lists those that there were")
    page = _page(found, kind, with_history=options.name is not None) if found else nothing(never, options)
    show(options, {kind.way: [told.held_document(one, kind) for one in found]}, page)


def _page(found: list[HeldSeen], kind: Leases, *, with_history: bool) -> str:
    """The fences of locks are for programs alone."""
    fence = "" if kind is LOCKS else kind.number
    page = _table([kind.noun, "state", kind.holder, fence, "since", "until"], [_row(one, kind) for one in found])
    past = [past for one in found if one.record for past in reversed(one.record.past)]
    if with_history and past:
        rows: list[list[Text]] = [
            [one.holder, str(one.fence or ""), _spelled(one.started), _spelled(one.ended), kind.says(one.end)]
            for one in past
        ]
        page += "\n\n" + _table([f"{kind.says('held')} before by", fence, "from", "to", "end"], rows)
    return page


def _table(headers: list[str], rows: list[list[Text]]) -> str:
    """Without the column that has no header."""
    shown = [[cell for header, cell in zip(headers, row, strict=True) if header] for row in rows]
    return table(list(filter(None, headers)), shown, screen())


def _row(one: HeldSeen, kind: Leases) -> list[Text]:
    state, free = toned(kind.says(one.state)), one.record is None or one.state == "free"
    until = "" if free else _spelled(one.cell.until)
    if one.record is None or free or one.state == "resting":
        return [one.name, state, "", "", "", until]
    return [one.name, state, one.record.holder, str(one.cell.fence or ""), _spelled(one.record.started), until]


def _spelled(instant: Instant | None) -> str:
    return spell(instant) if instant else ""


add_locks_arguments, run_locks = partial(_add_arguments, kind=LOCKS), partial(_run, kind=LOCKS)
add_leaders_arguments, run_leaders = partial(_add_arguments, kind=LEADERS), partial(_run, kind=LEADERS)


# --- a sign of life ---------------------------------------------------------------------------------------------------

BEAT_EPILOG = """
Let the scheduler that is to be watched start it at every interval, beside its jobs. Who watches (`cronce watch`) raises
an alert when it was silent for two intervals, and when it beats more than twice within one: there are two of it.

examples:
  * * * * *  cronce beat web-1-cron                  a line of its own in the crontab
  */5 * * * *  cronce beat nightly --every 5m        by its own schedule
  cronce beat web-1-cron --remove                    it was taken down on purpose
"""


def add_beat_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the scheduler's name, the same at each beat")
    parser.add_argument("--every", default="1m", metavar="SPAN", help="how often it beats (default: 1m)")
    parser.add_argument("--remove", action="store_true", help="expect no more of it")
    add_store(parser)
    parser.set_defaults(by=None)


def run_beat(options: argparse.Namespace) -> None:
    """Quiet, as all that cron starts should be."""
    check_name(options.name)
    clock = SystemClock()
    beat = SignOfLife(options.name, options.every, clock.boot())
    with acting(options, make=not options.remove) as actor:
        client = actor.desk.ledger.client
        if options.remove:
            known = actor.desk.do(forget_beats(client, options.name))
            text = f"{options.name} is not expected any more" if known else f"nothing was expected of {options.name}"
            show(options, {"removed": known}, text)
            return
        actor.desk.do(write_notes(client, [beat], clock.boot))
    if options.json:
        print(json.dumps({"beat": options.name, "every": format_duration(beat.every), "by": beat.by}))
