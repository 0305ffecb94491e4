"""By hand: what a person does at a store, or a program in one's stead. Each act is on record with who and when.

Nothing is run here. An order is put on record (a job is paused, a run is due, a holder shall stop), the schedulers
notice and act on it. Every act may be repeated: the first one counts, and the second call returns that one.

*A run that is asked for* is a cell of its own beside the slot's, `run/<job>/<slot>#<request>`. No floor closes it and
no claim makes it. Its request names what it is, and two callers that ask for the same at once write the same cell:
`rerun-1` for the first rerun of a slot, `backfill`, or what a trigger was given as its id. A trigger has no slot: it is
filed under the second in which it was asked for. So that an id means one run whenever it is used, that second is
recorded first, in a cell by job and id, and later callers read it from there.

*Effects* of a rerun or a backfill go by the slot's key: what the slot did before is not done again. A trigger has a key
of its own.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final, Literal, get_args

from cronce.errors import BadInput, BadRecord, CronceError, NotOnRecord, StoreUnavailable, StoreUnusable
from cronce.model import (
    BACKFILL,
    SWITCH,
    Cell,
    Instant,
    Mark,
    Slot,
    Write,
    asked_cell,
    check_name,
    drained_holder,
    drained_label,
    job_cell,
    rerun_of,
    spell,
)
from cronce.protocol.codec import json_text
from cronce.protocol.commands import Answer, Asked, Closed, Held, Queue, Queued, Resolve, Skip, Unsure
from cronce.protocol.lease import tolerance
from cronce.protocol.record import RESOLVED, SUPERSEDED, Act, Job, Record, effects_key, encode_act, standing_act
from cronce.protocol.retention import PURGE_DELAY
from cronce.protocol.specs import raise_floor
from cronce.runtime.client import MAX_ROUNDS, WAKE, Knowledge
from cronce.runtime.declare import instant_of, zone_of
from cronce.runtime.flow import Flow
from cronce.runtime.jobs import Edit, paused_and_resumed
from cronce.runtime.ledger import Ledger
from cronce.runtime.process_notes import leave_clock, recall_once
from cronce.runtime.queries import RunSeen, job_names, read_all, read_page, refuse_unknown, seen_job, seen_run
from cronce.runtime.scheduling.roster import chunks
from cronce.schedule import Schedule, format_duration
from cronce.schedule.instant import RESOLUTION, whole
from cronce.stores.base import Position, Scan
from cronce.value import NamedTuple

LONGEST_TEXT: Final = 500
LONGEST_ID: Final = 64
TRIGGER_ID_TTL: Final = timedelta(days=30)
"""For how long the id of a trigger means the same run."""

Verdict = Literal["done", "retry"]


class StandingOrder(NamedTuple):
    """An order in force, and whether it is new: otherwise it was given before."""

    act: Act
    new: bool


class RequestedRun(NamedTuple):
    """A run that was asked for, and whether that is new."""

    slot: Slot
    new: bool


class LapsedUnwatched(CronceError):
    """The holder of a cell seems gone: its lease expired, by a clock that was not watched for long enough. The caller
    asks again then."""

    def __init__(self, name: str, cell: Cell, lease: timedelta, know: Knowledge) -> None:
        self.lease = lease
        when = f" at {spell(cell.until)}" if cell.until else ""
        left = max(lease - know.watched(cell, know.guess(), tolerance(lease)), timedelta(0))
        then = spell((know.now() + left).replace(microsecond=0) + timedelta(seconds=1))
        super().__init__(
            f"{name} was begun, and the run's lease expired{when}; cronce watches the store's clock for"
            f" {format_duration(lease)} before it accepts this: until {then}"
        )


class Operator:
    """The person or program that acts, `by` name. Jobs `declared` here are known before they are in the store."""

    def __init__(self, ledger: Ledger, by: str, declared: Collection[str] = ()) -> None:
        self.by = check_text("who acts", by)
        self.ledger = ledger
        self._declared = declared

    # --- pausing ---

    def pause(self, name: str, reason: str = "") -> Flow[StandingOrder]:
        """None of the job's slots is granted from now on; what runs goes on."""
        check_reason(reason)
        yield from self.job(name)
        return StandingOrder(*(yield from self.ledger.jobs.pause(name, self.by, reason)))

    def resume(self, name: str) -> Flow[Act | None]:
        """What was paused, if it was. What fell due meanwhile does not fire."""
        yield from self.job(name)
        return (yield from self.ledger.jobs.resume(name, self.by))

    def pause_all(self, reason: str = "") -> Flow[StandingOrder]:
        """The kill switch: nothing at all is granted from now on."""
        return self.drain(SWITCH, reason)

    def resume_all(self) -> Flow[Act | None]:
        """Undo it; jobs that were paused one by one stay so. The floor of every job rises before the switch goes back:
        what fell due meanwhile does not fire. It rises once more after that: schedulers give up what falls due between
        the two, and so that is on record as passed over, too."""
        stands = yield from self._stands(SWITCH)
        if stands is None:
            return None
        why = paused_and_resumed(stands, self.by)
        yield from self._raise_floors(self.ledger.know.now(), why)
        lifted = yield from self.undrain(SWITCH)
        if lifted is not None:  # else another was faster, and what falls due since then fires
            yield from self._raise_floors(self.ledger.know.now(), why)
        return lifted

    def _raise_floors(self, floor: Instant, why: str) -> Flow[None]:
        raised: Edit = lambda job, _now: job and raise_floor(job, floor, None, why)  # noqa: E731
        for names in chunks((yield from job_names())):
            yield from self.ledger.jobs.edit_all(dict.fromkeys(names, raised))

    # --- draining ---

    def drain(self, cell: str, reason: str = "") -> Flow[StandingOrder]:
        """Processes that this cell is about claim nothing more, while they live."""
        check_reason(reason)
        return (yield from self._order(cell, reason))

    def undrain(self, cell: str) -> Flow[Act | None]:
        """Withdraw the order in this cell. Returns the order that was there."""
        before, _ = yield from self._turn(cell, lambda _stands, _now: None)
        return before

    # --- runs ---

    def refuse_without_history(self) -> None:
        """Asked before anything is written: a store that keeps only the last slots of a job would refuse the run by
        hand itself, after the slot was closed for it."""
        if not self.ledger.client.traits.history:
            raise StoreUnusable(
                "this store keeps only the last slots of a job, and no runs by hand (trigger, rerun, backfill, a Job"
                " created by hand); use a database for those, such as postgresql://"
            )

    def trigger(self, name: str, payload: Any = None, request: str = "") -> Flow[RequestedRun]:
        """Ask for a run of its own, with its own key. With an id, asking twice is asking once."""
        text = json_text("a payload", payload)
        if request:
            _check_id(request)
        self.refuse_without_history()
        job = yield from self.job(name)
        now = self.ledger.know.now()
        asked = RequestedRun(Slot(name, whole(now), request or f"t-{os.urandom(4).hex()}"), new=True)
        if request:
            asked = yield from self._first_asked(asked.slot, job)
        yield from self.ask_for(asked.slot, Queue(by=self.by, payload=text))
        return asked

    def _first_asked(self, slot: Slot, job: Job | None) -> Flow[RequestedRun]:
        """The slot under which the id was asked for first. Above the floor nothing is purged."""
        stands = yield from self._order(asked_cell(slot.job, slot.request), at=slot.at, ttl=TRIGGER_ID_TTL)
        if stands.new:
            return RequestedRun(slot, new=True)
        first = slot._replace(at=_when(stands.act))
        if job is not None and first.at <= job.floor:
            yield from self._is_there(first, stands.act)
        return RequestedRun(first, new=False)

    def _is_there(self, slot: Slot, asked: Act) -> Flow[bool]:
        """Whether the run that was asked for is on record. One that is gone was purged, and is not run again. (Within a
        purge's delay of asking, the process that asked may not have finished.)"""
        (seen,) = yield from self.look([slot])
        if seen is None and self.ledger.know.now() - _when(asked) > PURGE_DELAY:
            raise CronceError(f"{slot.key} was already requested by {asked.by}, and its run is gone: use another id")
        return seen is not None

    def rerun(self, slot: Slot, *, fresh: bool = False, request: str = "", force: bool = False) -> Flow[RequestedRun]:
        """Ask for another run of a slot that is closed. Effects go by its key, unless they shall be done afresh. While
        a rerun of it is open, that is the answer. With an id, asking twice is asking once, also when it is over. It is
        refused while the process that ran it may be alive, unless a person has checked (`force`)."""
        self.refuse_without_history()
        base = rerun_of(slot) or slot
        base = yield from self._on_record(base)
        if request:
            _check_id(request)
            before = yield from self._rerun_asked_for(base, request)
            if before is not None:
                return before
        record = yield from self._record(base)
        if not record.is_closed:
            why = "only a closed slot can be run again" if record.is_running else "it runs without a rerun"
            raise CronceError(f"{base.key} is {record.state}{_on(record)}: {why}")
        prefix, reruns = yield from self._reruns(base)
        if lapsed := [one for one in reruns if one.lapsed]:
            yield from self.settle(lapsed)
            prefix, reruns = yield from self._reruns(base)
        going_on = next((one for one in reruns if one.cell.mark is Mark.OPEN), None)
        if going_on is None and not force:
            self._refuse_beside(base, [record, *(one.record for one in reruns if one.record)])
        if going_on is not None and fresh and going_on.record and going_on.record.key == effects_key(record, base):
            raise CronceError(
                f"{going_on.slot.key} is open, and uses the slot's effect keys: use --fresh when it has ended"
            )
        number = 1 + max((int(one.slot.request.removeprefix(prefix)) for one in reruns), default=0)
        asked = going_on.slot if going_on is not None else base._replace(request=f"{prefix}{number}")
        new = going_on is None
        if request:  # of two who ask at once by one id, the first names the run
            stands = yield from self._order(_rerun_cell(base, request), asked.request, ttl=TRIGGER_ID_TTL)
            asked, new = base._replace(request=stands.act.reason), new and stands.new
        if going_on is not None:
            return RequestedRun(asked, new=False)
        # numbers come back once their runs are purged, but effects are remembered for longer
        key = f"{asked.key}:{os.urandom(4).hex()}" if fresh else effects_key(record, base)
        queued = yield from self.ask_for(asked, Queue(by=self.by, payload=record.payload, key=key))
        bad = [one.slot for one in reruns if one.record and one.record.outcome and one.record.outcome.is_bad]
        for older in bad:  # a new rerun takes the place of an older one: that one does not wait for a person any more
            yield from self.ledger.resolve(older, Resolve("superseded", f"{SUPERSEDED}{asked.key}"))
        return queued._replace(new=queued.new and new)

    def _reruns(self, base: Slot) -> Flow[tuple[str, list[RunSeen]]]:
        """How they are named, and those that are on record."""
        prefix = f"{base.request}:rerun-" if base.request else "rerun-"
        page = yield from read_all(Scan(base._replace(request=prefix).cell))
        return prefix, [seen_run(cell, page.now) for cell in page.cells]

    def open_reruns(self, slot: Slot) -> Flow[list[Slot]]:
        """Reruns of the slot that are to run, or run: a word on the slot does not stop them."""
        _, reruns = yield from self._reruns(slot)
        return [one.slot for one in reruns if one.cell.mark is Mark.OPEN]

    def _refuse_beside(self, base: Slot, runs: Sequence[Record]) -> None:
        """A process that ran the slot, and is only paused, would go on beside the rerun."""
        from cronce.runtime.effects.liveness import refuse_unless_gone, unsure_of_slot  # noqa: PLC0415

        for run in runs:
            refuse_unless_gone(base.key, unsure_of_slot(run), f"cronce rerun {base.key}")

    def _rerun_asked_for(self, base: Slot, request: str) -> Flow[RequestedRun | None]:
        """The rerun that this id means already."""
        stands = yield from self._stands(_rerun_cell(base, request))
        if stands is None:
            return None
        _when(stands)  # what cannot be read names no run
        asked = base._replace(request=stands.reason)
        return RequestedRun(asked, new=False) if (yield from self._is_there(asked, stands)) else None

    def once(self, word: str, ttl: timedelta) -> Flow[bool]:
        """Whether this is the first use of the word: then the caller may do what comes with it."""
        return (yield from self._order(asked_cell("page", f"once:{word}"), ttl=ttl)).new

    def _on_record(self, slot: Slot) -> Flow[Slot]:
        """The slot, or its backfill if that is all that is on record of it."""
        backfill = slot._replace(request=BACKFILL)
        own, backfilled = yield from self.look([slot, backfill])
        return backfill if own is None and backfilled is not None and not slot.request else slot

    def ask_for(self, slot: Slot, command: Queue) -> Flow[RequestedRun]:
        (reply,) = yield from self.ledger.put({slot: command})
        self.ledger.look_again(slot.job)
        return RequestedRun(slot, isinstance(sure(reply), Queued))

    def cancel(self, slot: Slot, reason: str = "") -> Flow[Asked | Closed]:
        """A run is asked to stop, and not tried again; what waits to be run is closed as skipped. What is closed stays
        as it is."""
        why = f"cancelled by {self.by}" + (f": {check_reason(reason)}" if reason else "")
        for _ in range(MAX_ROUNDS):
            record = yield from self._record(slot, f"; nothing to cancel: `cronce runs {slot.job}` lists its runs")
            if record.is_running:
                reply = yield from self.ledger.ask(slot, why)
            else:
                (reply,) = yield from self.ledger.put({slot: Skip(why)})
            if isinstance(sure(reply), Asked | Closed):
                return reply  # type: ignore[return-value]
        raise StoreUnavailable(f"could not cancel {slot.key}: it changed {MAX_ROUNDS} times meanwhile")

    def resolve(self, slot: Slot, verdict: Verdict, reason: str = "", *, force: bool = False) -> Flow[Closed | Queued]:
        """Resolve a slot that failed, was lost or is unknown: it is done, or must be tried again. A retry is refused
        while its holder may be alive or an effect of it is in doubt, unless a person has checked (`force`)."""
        from cronce.runtime.effects.review import refuse_retry  # noqa: PLC0415  it needs an operator itself

        command = Resolve(verdict, self.word(verdict, reason))
        if verdict == "retry" and not force:
            yield from refuse_retry(slot, (yield from self._record(slot)))
        reply = sure((yield from self.ledger.resolve(slot, command)))
        (seen,) = (yield from self.look([slot])) if isinstance(reply, Held) else [None]
        if seen is not None and seen.lapsed:
            yield from self.settle([seen], checked=True)
            reply = sure((yield from self.ledger.resolve(slot, command)))
        match reply:
            case Queued():
                return reply
            case Closed(outcome) if outcome.is_success and verdict == "done":
                return reply
            case Closed(outcome, why):
                first = f" ({why})" if why.startswith(RESOLVED) else ""
                raise CronceError(
                    f"{slot.key} was {outcome}{first}; only a slot that failed, is lost or is unknown can be resolved"
                )
        record = yield from self._record(slot)
        if verdict == "retry" and not record.is_running:
            return Queued(waiting=False)  # it was asked for before
        raise CronceError(f"{slot.key} is {record.state}{_on(record)}: there is nothing to resolve yet")

    def word(self, verdict: Verdict, reason: str) -> str:
        """What goes on record with a verdict: whose it is, and why."""
        if verdict not in get_args(Verdict):
            raise BadInput(f"resolve takes done or retry, not {verdict!r:.60}")
        return f"by {self.by}" + (f": {check_reason(reason)}" if reason else "")

    # --- reading ---

    def job(self, name: str) -> Flow[Job | None]:
        """The job, if a process has carried it; an unknown job is refused. Whether everything is paused is read with
        it."""
        job = yield from self.ledger.jobs.read(check_name(name))
        if job is None and name not in self._declared:
            refuse_unknown(name, [*self._declared, *(yield from job_names())])
        return job

    def look(self, slots: Sequence[Slot]) -> Flow[list[RunSeen | None]]:
        """Runs as they are now; None where there is none."""
        loaded, _ = yield from self.ledger.client.load([slot.cell for slot in slots])
        return [seen_run(cell, loaded.now) if cell.version else None for cell in loaded.cells]

    def _record(self, slot: Slot, remedy: str = "") -> Flow[Record]:
        (seen,) = yield from self.look([slot])
        if seen is None:
            yield from self.job(slot.job)
            never = f"; `cronce rerun {slot.job} --from WHEN --to WHEN` runs slots that never ran"
            raise NotOnRecord(f"there is no record of {slot.key}{remedy or ('' if slot.request else never)}")
        if seen.record is None:
            raise CronceError(seen.trouble)
        if seen.lapsed:
            yield from self.settle([seen])
            (seen,) = yield from self.look([slot])
        assert seen is not None
        assert seen.record is not None
        return seen.record

    def settle(self, lapsed: Sequence[RunSeen], *, checked: bool = False) -> Flow[None]:
        """Close or reopen runs whose lease expired, by the rule that holds for every process. One that may be committed
        in the user's database is closed only by a person who has `checked` that."""
        yield from recall_once(self.ledger)
        for run in lapsed:
            assert run.record is not None
            if not (yield from self.ledger.gone([run.cell.key], for_person=True)):
                yield from leave_clock(self.ledger)  # the next process goes on from there
                raise LapsedUnwatched(run.slot.key, run.cell, run.record.lease, self.ledger.know)
            (reply,) = yield from self.ledger.settle([run.cell], {} if checked else None, for_person=True)
            sure(reply)

    # --- orders: an act in a cell of its own ---

    def _order(
        self, key: str, reason: str = "", at: Instant | None = None, ttl: timedelta | None = None
    ) -> Flow[StandingOrder]:
        """Record an act, unless one is in force."""
        before, after = yield from self._turn(key, lambda stands, now: stands or Act(self.by, at or now, reason), ttl)
        assert after is not None
        return StandingOrder(after, before is None)

    def _stands(self, key: str) -> Flow[Act | None]:
        return (yield from self._turn(key, lambda stands, _now: stands))[0]

    def _turn(
        self, key: str, turn: Callable[[Act | None, Instant], Act | None], ttl: timedelta | None = None
    ) -> Flow[tuple[Act | None, Act | None]]:
        """The act that was in the cell, and the act that is there now."""

        def turned(cell: Cell, now: Instant) -> tuple[tuple[Act | None, Act | None], Write | None]:
            before = standing_act(cell)
            after = turn(before, now)
            write = Write(key, cell.version, encode_act(after), Mark.OPEN, ttl=ttl)
            return (before, after), None if after == before else write

        return (yield from self.ledger.client.rewrite(key, turned, WAKE))


def _rerun_cell(base: Slot, request: str) -> str:
    """By slot, and unlike the id of any trigger."""
    return asked_cell(base.job, f"{base.cell.rpartition('/')[2]}:{request}")


def _when(act: Act) -> Instant:
    """An act that cannot be read holds, but since when is not known."""
    if act.at is None:
        raise BadRecord(act.reason)
    return act.at


def _on(record: Record) -> str:
    return f" on {record.holder}" if record.is_running else ""


def is_of_slot(slot: Slot) -> bool:
    """Whether a run is the slot's own, its backfill or a rerun of these, and not one that was triggered then."""
    return (rerun_of(slot) or slot).request in ("", BACKFILL)


def sure(reply: Answer) -> Answer:
    """The answer, if there is one."""
    if isinstance(reply, Unsure):
        raise reply.error or StoreUnavailable(reply.why)
    return reply


# --- what people write ------------------------------------------------------------------------------------------------


def who() -> str:
    """Who acts, unless `by` is given: the user and the machine, for people to read."""
    from getpass import getuser  # noqa: PLC0415  who acts by hand has the time

    from cronce.runtime.node import host_name  # noqa: PLC0415

    try:
        user = getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = f"uid{os.getuid()}"
    return f"{user}@{host_name()}"


def check_text(what: str, text: str) -> str:
    if not isinstance(text, str) or not text.strip() or not text.isprintable() or len(text) > LONGEST_TEXT:
        raise BadInput(f"{what} must have 1 to {LONGEST_TEXT} printable characters; this is {text!r:.60}")
    return text


def check_reason(reason: str) -> str:
    return check_text("the reason", reason) if reason else ""


def _check_id(request: str) -> None:
    check_name(request)
    if len(request) > LONGEST_ID:
        raise BadInput(f"an id may have at most {LONGEST_ID} characters, and this one has {len(request)}")
    if request == BACKFILL or request.startswith("rerun-") or ":" in request:
        raise BadInput(f"{request!r} is reserved for cronce's own runs; give another id")


def drain_cell(holder: str | None = None, label: str | None = None) -> str:
    """The cell of the order that a holder, or all with a label, claim nothing more."""
    if (holder is None) == (label is None):
        raise BadInput("name a scheduler, or a label such as colour=blue")
    if holder is not None:
        return drained_holder(check_name(holder))
    name, equals, value = (label or "").partition("=")
    if not equals:
        raise BadInput(f"a label must be NAME=VALUE, such as colour=blue, not {label!r:.60}")
    return drained_label(check_name(name), check_name(value))


# --- a backfill -------------------------------------------------------------------------------------------------------

# A backfill: the slots of a stretch of time that never succeeded are run after all, each once.
#
# Each gets a run of its own, `…#backfill`, whose effects go by the slot's key. That cell is made once, so the command
# may be repeated, interrupted and gone on with.
#
# A slot without a record above the job's floor may still be claimed by a scheduler. So it is recorded as skipped first.
# Then it cannot run beside its backfill, whichever of the two came first.

MOST_BACKFILLED: Final = 10_000
BACKFILL_BATCH: Final = 500


class Stretch(NamedTuple):
    """The slots of a stretch of time, by what there is to do about them."""

    wanted: tuple[Slot, ...]
    """Those that never succeeded, and that are not about to run."""
    succeeded: int
    busy: int
    """Those that are open or unreadable: they may have run."""
    asked: tuple[Slot, ...]
    """The open ones among the runs that an earlier backfill asked for."""
    ended: tuple[RunSeen, ...]
    """Those that an earlier backfill ran, and that did not succeed."""


def backfill_stretch(
    operator: Operator,
    name: str,
    start: datetime | str,
    end: datetime | str,
    most: int = MOST_BACKFILLED,
    *,
    settles: bool = False,
) -> Flow[Stretch]:
    """What a backfill from `start` until before `end` would do. A day begins where the job lives. `settles`: runs whose
    lease expired are closed first, by the rule that holds for every process."""
    operator.refuse_without_history()
    yield from operator.job(name)
    loaded, _ = yield from operator.ledger.client.load([job_cell(name)])
    seen = seen_job(loaded.cells[0]) if loaded.cells[0].version else None
    if seen is None or seen.schedule is None:
        raise CronceError(f"{name} has no schedule on record, so it has no slots to run")
    try:
        first, last = (instant_of(when, zone_of(seen.schedule)) for when in (start, end))
        latest = seen.schedule.previous(last)
        if latest is not None and latest > max(first - RESOLUTION, loaded.now):
            raise BadInput(
                f"{Slot(name, latest).key} is not due yet; a backfill runs slots that are due, up to"
                f" {spell(loaded.now)}"
            )
        slots = list(islice(_slots_between(name, seen.schedule, first, last), most + 1))
    except OverflowError:
        raise BadInput(f"{start} to {end} reaches the end of the calendar; give a shorter time") from None
    if last < first:
        raise BadInput(f"a backfill must end after it starts, not run from {spell(first)} to {spell(last)}")
    if len(slots) > most:
        raise BadInput(
            f"these are more than {most:,} slots, the last of them at {spell(slots[most - 1].at)}: backfill a part"
            " at a time, or raise the limit with --most"
        )
    runs = yield from _runs_between(name, first, last)
    lapsed = [run for of_slot in runs.values() for run in of_slot if run.lapsed] if settles else []
    if lapsed:
        yield from operator.settle(lapsed)
        runs = yield from _runs_between(name, first, last)
    return _by_need(slots, runs)


def backfill(operator: Operator, name: str, start: datetime | str, end: datetime | str) -> Flow[list[Slot]]:
    """All of it at once; the runs that were asked for."""
    asked: list[Slot] = []
    for part in backfill_parts((yield from backfill_stretch(operator, name, start, end, settles=True)).wanted):
        asked += yield from ask_to_backfill(operator, part)
    return asked


def backfill_parts(slots: Sequence[Slot]) -> Iterator[Sequence[Slot]]:
    """As many as are asked for in one go."""
    return (slots[place : place + BACKFILL_BATCH] for place in range(0, len(slots), BACKFILL_BATCH))


def ask_to_backfill(operator: Operator, slots: Sequence[Slot]) -> Flow[list[Slot]]:
    """Ask for runs of these slots, one part of all; those that are due now."""
    skipped = yield from operator.ledger.put(dict.fromkeys(slots, Skip(f"backfilled by {operator.by}")))
    closed = [slot for slot, reply in zip(slots, map(sure, skipped), strict=True) if _never_succeeded(reply)]
    asked = {slot._replace(request=BACKFILL): Queue(by=operator.by, key=slot.key) for slot in closed}
    replies = yield from operator.ledger.put(asked)
    return [slot for slot, reply in zip(asked, map(sure, replies), strict=True) if isinstance(reply, Queued)]


def _never_succeeded(reply: object) -> bool:
    """Whether the slot itself is closed and did not succeed; what another runs meanwhile is left to them."""
    return isinstance(reply, Closed) and not reply.outcome.is_success


def _slots_between(name: str, rule: Schedule, start: Instant, end: Instant) -> Iterator[Slot]:
    instant = rule.next(start - RESOLUTION)
    while instant is not None and instant < end:
        yield Slot(name, instant)
        instant = rule.next(instant)


def _runs_between(name: str, start: Instant, end: Instant) -> Flow[dict[Instant, list[RunSeen]]]:
    """What is on record of the slots of a stretch, without what was triggered then. In the order of keys a slot comes
    before its requests, and what its key begins with before it."""
    prefix = f"run/{name}/"
    scan = Scan(prefix, after=Position(0, prefix + spell(start).removesuffix("Z")))
    found = defaultdict[Instant, list[RunSeen]](list)
    while True:
        page = yield from read_page(scan)
        for seen in (seen_run(cell, page.now) for cell in page.cells):
            if seen.slot.at < end and is_of_slot(seen.slot):
                found[seen.slot.at].append(seen)
        if page.next is None or page.next.key >= prefix + spell(end):
            return found
        scan = scan._replace(after=page.next)


def _by_need(slots: Sequence[Slot], runs: dict[Instant, list[RunSeen]]) -> Stretch:
    wanted, asked, ended = list[Slot](), list[Slot](), list[RunSeen]()
    succeeded = busy = 0
    for slot in slots:
        of_slot = runs.get(slot.at, [])
        backfill = next((run for run in of_slot if run.slot.request == BACKFILL), None)
        if any(run.record and run.record.succeeded for run in of_slot):
            succeeded += 1
        elif any(run.record is None or run.cell.mark is Mark.OPEN for run in of_slot):
            busy += 1
            asked += [backfill.slot] if backfill and backfill.cell.mark is Mark.OPEN else []
        elif backfill is not None:
            ended.append(backfill)
        else:
            wanted.append(slot)
    return Stretch(tuple(wanted), succeeded, busy, tuple(asked), tuple(ended))
