"""cronce status: one screen of the store, who is alive, what runs, what is next, what is wrong. And under it, in full:
holders, locks, leaders and observed."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Final, NamedTuple

from cronce.cli import add_arguments
from cronce.cli.runs import remark
from cronce.cli.session import STORE_AND_JSON, looking, nothing, show_table
from cronce.cli.terminal import ColouredText, Text, paint, screen, show, table, toned
from cronce.errors import BadInput, CronceError
from cronce.look import Status, find_status, status_document
from cronce.model import MONITOR, Instant, leader_cell, spell
from cronce.monitor.alerts import incidents, is_seen_to
from cronce.monitor.read_jobs import hosts_refused
from cronce.monitor.read_overview import GONE_SHOWN_FOR, UNNAMED_KINDS, UPCOMING, ForeignSchedulerSeen
from cronce.protocol.notices import Doubled, Observed
from cronce.runtime import queries
from cronce.runtime.flow import Flow
from cronce.runtime.observe import ObservedSeen, observations
from cronce.runtime.queries import HeldSeen, HolderSeen, JobLine, RunSeen
from cronce.schedule import parse_duration
from cronce.stores import mask
from cronce.stores.default import choose
from cronce.telling import documents as told
from cronce.telling.documents import LEADERS, LOCK_LEASES, Leases
from cronce.telling.words import ago, away, by_whom, counted, due_again, handled_by, listed, ran_for, short, tone

# --- one screen -------------------------------------------------------------------------------------------------------

ROWS: Final = 5
"""So many of each are shown, so that it stays one screen."""

NO_SCHEDULER: Final = ColouredText("no live scheduler runs it", "bad")

STATUS_EPILOG: Final = """
It reads, and changes no record. Each list is cut to five lines; --json has more.

examples:
  cronce status
  cronce status holders
  cronce status locks reindex
"""


def add_status_arguments(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser, STORE_AND_JSON)
    parser.set_defaults(hint="`cronce show JOB` shows one job, `cronce status --help` lists what else there is")


def run_status(options: argparse.Namespace) -> None:
    with looking(options) as node:
        found = node.do(find_status())
        watched = node.do(_last_watched())
    place = mask(choose(options.store).url)
    show(options, {**status_document(found, place)}, "\n\n".join(filter(None, _screen(found, place, watched))))


class LastWatched(NamedTuple):
    """Whether a watcher looks at the store now; and when one last did, if that is known."""

    now: bool
    at: Instant | None


def _last_watched() -> Flow[LastWatched]:
    """By the leadership of the watchers."""
    loaded = yield from queries.load([leader_cell(MONITOR)])
    cell = loaded.cells[0]
    record = queries.seen_held(cell, MONITOR, loaded.now).record if cell.version else None
    if record is None or cell.until is None:
        return LastWatched(now=False, at=None)
    if record.is_running and cell.until > loaded.now:
        return LastWatched(now=True, at=loaded.now)
    past = record.past[-1].ended if record.past else None
    return LastWatched(now=False, at=cell.until - record.lease if record.is_running else past)


def _screen(found: Status, place: str, watched: LastWatched) -> Iterator[str]:
    seen, now = found.overview, found.overview.now
    running = [run for run in seen.open.runs if run.record and run.record.is_running and not run.lapsed]
    waiting = [run for run in seen.open.runs if not (run.record and run.record.is_running)]
    over = [run for run in seen.newest if run.record and run.record.is_closed]
    yield f"{place}, {counted(found.jobs, 'job')}, {counted(found.prevented, 'duplicate')} prevented, {spell(now)}"
    yield _wrong_part(found, watched)
    there = [*(_scheduler(one, now) for one in seen.holders), *(_guest(one, now) for one in seen.guests)]
    yield _part("schedulers", there, _none_alive(found))
    yield _part("running", [_run_line(run, now) for run in running], "nothing")
    yield _part("waiting", [_waiting_line(run, found) for run in waiting])
    yield _part("next", [_next_line(line, found) for line in seen.upcoming], _none_next(found), most=UPCOMING)
    yield _part("last", [_run_line(run, now) for run in over], "nothing ran yet")
    for kind, held in ((LOCK_LEASES, found.locks), (LEADERS, found.leaders)):
        yield _part(kind.way, [[one.name, toned(kind.says(one.state)), _holder(one)] for one in held])
    yield _part("observed", [_observed_line(one) for one in found.observed])


def _part(title: str, rows: Sequence[Sequence[Text]], none: str = "", most: int = 0) -> str:
    """A few lines under a title; where there are none, what there is to say of that, if anything. `most`: no more were
    read."""
    if not rows:
        return paint(ColouredText(title, "dim"), screen()) + f"  {none}" if none else ""
    left = "more" if len(rows) == most else f"{len(rows) - ROWS:,} more"
    more: list[Sequence[Text]] = [[f"… and {left}", *[""] * (len(rows[0]) - 1)]]
    lines = [*rows[:ROWS], *(more if len(rows) > ROWS else [])]
    return table([title, *[""] * (len(rows[0]) - 1)], [[f"  {_plain(row[0])}", *row[1:]] for row in lines], screen())


def _plain(text: Text) -> str:
    return text if isinstance(text, str) else text.text


NO_WATCHER: Final = "no watcher runs: `cronce watch --once` looks now"


def _wrong_part(found: Status, watched: LastWatched) -> str:
    """The worst first: the severity and the name of an incident, and below it what happened and what to do. Alerts are
    what a watcher has recorded, so where none runs now, how old that is stands below."""
    wrong = list(_wrong(found))
    title = paint(ColouredText("wrong", "dim"), screen())
    if not wrong:
        return f"{title}  {_nothing_wrong(watched)}"
    shown = [line for lines in wrong[:ROWS] for line in lines]
    more = [f"  … and {len(wrong) - ROWS:,} more"] if len(wrong) > ROWS else []
    is_old = not watched.now and (watched.at is not None or found.overview.alerts.alerts)
    old = [f"  {_as_of(watched)}{NO_WATCHER}"] if is_old else []
    return "\n".join([title, *shown, *more, *old])


def _nothing_wrong(watched: LastWatched) -> str:
    if watched.now:
        return "nothing"
    if watched.at is not None:
        return f"{_as_of(watched)}no alert was open; {NO_WATCHER}"
    return "nothing known; no watcher runs, so missed slots are not checked: `cronce watch --once` looks now"


def _as_of(watched: LastWatched) -> str:
    return f"as of {spell(watched.at)}; " if watched.at else ""


def _wrong(found: Status) -> Iterator[list[str]]:
    """The lines of each thing that is wrong: first the alerts that a watcher has recorded, one incident for each cause;
    then what no watcher has recorded yet."""
    seen, told_of = found.overview, incidents(found.overview.alerts.alerts)
    paused = {"everything": seen.halted} if seen.halted else found.paused
    for what, act in paused.items():
        again = "--all" if seen.halted else what
        yield [_wrong_line(f"{what} is paused", ColouredText(by_whom(act), "bad"), f"`cronce resume {again}`")]
    for one in told_of:
        handled = one.handled if is_seen_to(one.lead, seen.now) else None
        names = listed(alert.id.removesuffix("/") for alert in one.alerts)
        name = f"{names}{f', {handled_by(handled)}' if handled else ''}"
        yield [
            _wrong_line(ColouredText(one.lead.severity, tone(one.lead.severity)), name),
            *(f"    {paint(text, screen())}" for text in (one.lead.text, one.lead.remedy) if text),
        ]
    slots = {slot for one in told_of for slot in (*one.slots, one.lead.subject)}
    last = {run.slot.job: run for run in reversed(seen.newest) if run.record and run.record.is_closed}
    failed = [run for run in last.values() if run.shown == "failed"]
    lapsed = [run for run in seen.open.runs if run.lapsed]
    for run in (*lapsed, *seen.attention.runs, *failed):
        if run.slot.key not in slots and run.slot.job not in slots:
            yield [_wrong_line(run.slot.key, toned(run.shown), f"`cronce why {run.slot.key}`")]
    if seen.in_doubt.number and not any(one.effects for one in told_of):
        effects = counted(seen.in_doubt.number, "effect", more=seen.in_doubt.more)
        yield [_wrong_line(effects, toned("in doubt"), "`cronce resolve`")]


def _wrong_line(*cells: Text) -> str:
    return "  ".join(["", *(paint(cell, screen()) for cell in cells)])


def _scheduler(one: HolderSeen, now: Instant) -> list[Text]:
    """One that is stopped or dead runs nothing, whatever it last said."""
    busy = f", {one.holder.running} of {one.holder.workers} workers busy"
    return [one.holder.holder, f"{one.holder.role}{'' if one.life(now) == 'dead' else busy}", _state(one, now)]


def _guest(one: ForeignSchedulerSeen, now: Instant) -> list[Text]:
    """Another scheduler, or a host whose crontab calls: with its jobs, their schedules, and the next slot."""
    jobs = ", ".join(f"{job.name} ({job.schedule})" if job.schedule else job.name for job in one.jobs)
    last = [f"ran {ago(one.last, now)}"] if one.last else []
    ahead = [job.next for job in one.jobs if job.next and job.next > now]
    slot = [f"next {away(min(ahead), now)}"] if ahead else []
    kind = "" if one.kind in UNNAMED_KINDS else f"{one.kind}: "
    return [one.name if kind else f"called from {one.name}", f"{kind}{jobs}".strip(": "), ", ".join((*last, *slot))]


def _none_alive(found: Status) -> str:
    """No scheduler is needed where something else calls the jobs."""
    if any(line.seen.is_scheduled for line in found.overview.upcoming):
        return "no scheduler; start one: `cronce run app:cron`"
    calls = [(one.at, of.job) for of in hosts_refused(found.overview.refused.cells) for one in of.refusals.recent]
    at, job = max(calls, default=(None, ""))
    if at is None or found.overview.now - at >= GONE_SHOWN_FOR:
        return "no scheduler, and no call within the hour"
    return f"no scheduler; calls did not run, the last {ago(at, found.overview.now)}: `cronce why {job}`"


def _none_next(found: Status) -> str:
    """Another scheduler fires what it has by itself; what is paused has no next slot."""
    others = {one.kind for one in found.overview.guests if one.jobs and one.kind not in UNNAMED_KINDS}
    if others:
        return f"{' and '.join(sorted(others))} decides"
    return "each job is paused or has no schedule" if found.paused else "no job has a schedule"


def _next_line(line: JobLine, found: Status) -> list[Text]:
    assert line.next is not None
    served = line.seen.name in found.carried or not line.seen.is_scheduled
    return [line.seen.name, spell(line.next), away(line.next, found.overview.now) if served else NO_SCHEDULER]


def _run_line(run: RunSeen, now: Instant) -> list[Text]:
    took = ran_for(run.record, now) if run.record else None
    reason = remark(run, run.record) if run.record else run.trouble
    return [run.slot.key, toned(run.shown), short(took) if took is not None else "", _holder(run), reason]


def _waiting_line(run: RunSeen, found: Status) -> list[Text]:
    """What waits because it is paused says so."""
    slot, state, *others = _run_line(run, found.overview.now)
    return [slot, toned("paused") if found.overview.halted or run.slot.job in found.paused else state, *others]


def _holder(one: RunSeen | HeldSeen) -> str:
    return one.record.holder if one.record and not due_again(one.record) else ""


def _observed_line(one: Mapping[str, object]) -> list[Text]:
    return [str(one["name"]), f"{one['duplicates']:,} of {one['calls']:,} calls were duplicates"]


# --- what was only observed -------------------------------------------------------------------------------------------

OBSERVED_EPILOG = """
Functions under @cron.observe, jobs with mode="observe" and commands of `cronce exec --observe` run as before. This
shows how often they were called, how many of the calls were duplicates, and who made the last one.

exit codes: 1 there were duplicates (with --since: within that time), else 0.

examples:
  cronce status observed
  cronce status observed newsletter --cost 0.12           twelve cents for each duplicate
  cronce status observed --since 1h                       for a monitoring system to call
"""


OBSERVED_ARGUMENTS: Final = {
    "[NAME]": "only this function or job",
    "--cost AMOUNT": "what one call costs, in any currency",
    "--since SPAN": "exit with 1 only for duplicates within this time",
    **STORE_AND_JSON,
}


def run_observed(options: argparse.Namespace) -> int:
    cost = None if options.cost is None else _cost(options.cost)
    since = None if options.since is None else parse_duration(options.since)
    with looking(options) as node:
        now, seen = node.do(observations(options.name))
    if options.name is not None and not seen:
        raise CronceError(f"there is no record of {options.name}; `cronce status observed` lists all")
    headers = ["name", "calls", "duplicates", *(["cost"] if cost is not None else []), "last duplicate"]
    document = {"observed": [_observed_document(one, cost) for one in seen]}
    show_table(options, document, headers, [_observed_row(one, now, cost) for one in seen], "nothing was observed")
    return int(any(_is_bad(one, now, since) for one in seen))


def _is_bad(one: ObservedSeen, now: Instant, since: timedelta | None) -> bool:
    """A record that cannot be read counts as bad."""
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
        raise BadInput(f"--cost must be the cost of one call, such as 0.12, not {text[:40]!r}")
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
        return [one.name, ColouredText("unreadable", "bad"), "", *([] if cost is None else [""]), ""]
    last = _last(observed)
    duplicates = ColouredText(f"{observed.doubled:,}", "bad" if observed.doubled else "good")
    price = [] if cost is None else [f"{_total(observed, cost):,.2f}"]
    told = f"{away(last.at, now)} by {last.by}, {last.why}" if last else ""
    return [one.name, f"{observed.times:,}", duplicates, *price, told]


# --- schedulers -------------------------------------------------------------------------------------------------------


HOLDERS_ARGUMENTS: Final = STORE_AND_JSON


def run_holders(options: argparse.Namespace) -> None:
    with looking(options) as node:
        now, live = node.do(queries.holders())
    headers = ["holder", "role", "workers", "labels", "since", "version", "last beat", "state"]
    document = {"holders": [told.holder_document(one) for one in live]}
    show_table(options, document, headers, [_holder_row(one, now) for one in live], "no scheduler is alive")


def _holder_row(one: HolderSeen, now: Instant) -> list[Text]:
    holder = one.holder
    labels = " ".join(f"{name}={value}" for name, value in sorted(holder.labels.items()))
    since, beat = spell(holder.since), ago(one.beat, now)
    return [holder.holder, holder.role, str(holder.workers), labels, since, holder.cronce, beat, _state(one, now)]


def _state(one: HolderSeen, now: Instant) -> ColouredText:
    """Stopped: it said so when it left. Dead: it stopped sending heartbeats."""
    if one.holder.gone:
        return ColouredText("stopped", "dim")
    life = one.life(now)
    if life != "alive":
        return toned(life)
    if one.drained is not None:
        return ColouredText(f"takes no new work: paused {by_whom(one.drained)}", "odd")
    return ColouredText("draining", "odd") if one.holder.draining else toned("alive")


# --- locks and leaders ------------------------------------------------------------------------------------------------


LOCKS_ARGUMENTS: Final = {"[NAME]": "this lock, with its history", **STORE_AND_JSON}
LEADERS_ARGUMENTS: Final = {"[NAME]": "this group, with its history", **STORE_AND_JSON}


def _run(options: argparse.Namespace, kind: Leases) -> None:
    with looking(options) as node:
        found = node.do(queries.held(kind.prefix)).held
    never = f"no {kind.noun} is on record"
    if options.name is not None:
        found = tuple(one for one in found if one.name == options.name)
        if not found:
            raise CronceError(
                f"no {kind.noun} {options.name[:60]!r} is on record; `cronce status {kind.way}` lists all"
            )
    page = _page(found, kind, with_history=options.name is not None) if found else nothing(never, options)
    show(options, {kind.way: [told.held_document(one, kind) for one in found]}, page)


def _page(found: Sequence[HeldSeen], kind: Leases, *, with_history: bool) -> str:
    """The fences of locks are for programs alone."""
    fence = "" if kind is LOCK_LEASES else kind.number
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


run_locks, run_leaders = partial(_run, kind=LOCK_LEASES), partial(_run, kind=LEADERS)
