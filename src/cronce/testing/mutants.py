"""Wrong versions of the protocol, each with one safeguard taken away. The simulator must catch every one of them.

They are patches from outside: production code knows none of them. A mutant that survives means that the safeguard is
not needed, or, more likely, that the simulator does not look.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from typing import Any, Final
from unittest.mock import patch

from cronce.errors import StoreUnavailable
from cronce.model import EPOCH, FREE, Cell, Epoch, Instant, Refusal, Write
from cronce.protocol import commands, decide, gates, lease, specs, store_clock, table
from cronce.protocol.commands import (
    Claim,
    Decision,
    Finish,
    Granted,
    Release,
    Renew,
)
from cronce.protocol.record import Job, Record
from cronce.protocol.table import TABLE, Row
from cronce.protocol.view import View
from cronce.runtime import batch, client, jobs, keeper, ledger, loop
from cronce.runtime.scheduling import roster
from cronce.stores import base
from cronce.testing import held_leases, world
from cronce.testing.effect_mutants import EFFECT_MUTANTS

Mutant = Callable[[], Any]


MUTANTS: Final[dict[str, Mutant]] = {}


def _mutant(name: str) -> Callable[[Mutant], Mutant]:
    def add(make: Mutant) -> Mutant:
        MUTANTS[name] = make
        return make

    return add


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """The world with that safeguard missing."""
    with MUTANTS[name]():
        yield


def _with_rules(row: Row, **rules: Any) -> Any:
    wrong = {**TABLE, row: {**TABLE[row], **{getattr(commands, command): rule for command, rule in rules.items()}}}
    return patch.object(table, "TABLE", wrong)


def _without_gate(gate: gates.Gate) -> Any:
    return patch.object(decide, "GATES", tuple(one for one in gates.GATES if one is not gate))


# --- the cell ---


@_mutant("no version check")
def _() -> Any:
    def refusal(write: Write, cell: Cell | None, now: Instant) -> Refusal | None:
        found = _REFUSAL(write, cell, now)
        return None if found is Refusal.VERSION else found

    return patch.object(base, "_refusal", refusal)


_REFUSAL = base._refusal


@_mutant("free means lapsed too")
def _() -> Any:
    def refusal(write: Write, cell: Cell | None, now: Instant) -> Refusal | None:
        if write.seen == FREE and cell is not None and cell.until is not None and cell.until <= now:
            return None
        return _REFUSAL(write, cell, now)

    return patch.object(base, "_refusal", refusal)


@_mutant("a group lands in parts")
def _() -> Any:
    return patch.object(base, "groups", lambda writes: ([place] for place in range(len(writes))))


# --- whose it is ---


@_mutant("no fence check")
def _() -> Any:
    def is_mine(_cell: Cell, record: Record, command: commands.Command) -> bool:
        if isinstance(command, Renew | Finish | Release):
            return True
        return isinstance(command, Claim) and record.nonce == command.nonce

    return patch.object(table, "is_mine", is_mine)


@_mutant("release by name")
def _() -> Any:
    return _with_rules(Row.HELD, Release=table.release)


@_mutant("a nonce per process")
def _() -> Any:
    init = ledger.Ledger.__init__

    def wrong(self: ledger.Ledger, traits: Any, clock: Any, holder: str, nonce: Any, *rest: Any) -> None:
        fixed = nonce()
        init(self, traits, clock, holder, lambda: fixed, *rest)

    return patch.object(ledger.Ledger, "__init__", wrong)


@_mutant("on_lost of the reader")
def _() -> Any:
    def take_over(view: View, command: Claim) -> Decision:
        return table.take_over(view._replace(record=view.stands._replace(on_lost=command.on_lost)), command)

    return _with_rules(Row.LAPSED, Claim=take_over)


# --- time ---


@_mutant("no margin")
def _() -> Any:
    return patch.object(lease, "margin", lambda *_: timedelta(0))


@_mutant("trust from the reply")
def _() -> Any:
    return patch.object(loop, "Sample", lambda _began, ended, now: lease.Sample(ended, ended, now))


@_mutant("read-back restarts the lease")
def _() -> Any:
    def read_back(view: View, _command: Claim) -> Decision:
        return Decision(Granted(view.stands.grant))

    def trust_end(began: float, _now: Instant, _until: Instant, length: timedelta, traits: Any) -> float:
        return began + (length - lease.margin(length, traits)).total_seconds()

    both = ExitStack()
    both.enter_context(_with_rules(Row.MINE, Claim=read_back))
    both.enter_context(patch.object(ledger, "trust_end", trust_end))
    return both


@_mutant("trust returns after it ended")
def _() -> Any:
    return patch.object(lease.Trust, "extended", lambda self, _boot, end: lease.Trust(max(self.end, end)))


@_mutant("a clock that stops in suspend")
def _() -> Any:
    boot = world.SimulatedProcess.boot
    return patch.object(world.SimulatedProcess, "boot", lambda self: boot(self) - self.machine.suspended)


@_mutant("no watch rule")
def _() -> Any:
    def lapsed(view: View, _command: commands.Command) -> bool:
        return view.run.until is not None and view.now >= view.run.until

    return patch.object(table, "lapsed", lapsed)


# --- a store that is away ---


@_mutant("takeover without a hearing")
def _() -> Any:
    return patch.object(table, "hearing", lambda _lease: timedelta(0))


@_mutant("reading counts as contact")
def _() -> Any:
    learn = client.Knowledge.learn

    def wrong(self: client.Knowledge, timed: Any) -> Any:
        self.contact.answered(timed.began, timed.ended)
        return learn(self, timed)

    both = ExitStack()
    both.enter_context(patch.object(client.Contacts, "broke", lambda _self, _began: None))
    both.enter_context(patch.object(client.Knowledge, "learn", wrong))
    return both


@_mutant("a hearing that never adds up")
def _() -> Any:
    def heard(contacts: Any, renewed: float, boot: float) -> timedelta:
        unbroken = contacts and contacts[-1].reaches(boot) and contacts[-1].since <= renewed
        return timedelta.max if unbroken else timedelta(0)

    return patch.object(client, "heard", heard)


@_mutant("only the last piece of contact counts")
def _() -> Any:
    def heard(contacts: Any, renewed: float, boot: float) -> timedelta:
        return lease.heard(contacts[-1:], renewed, boot)

    return patch.object(client, "heard", heard)


@_mutant("contact without end")
def _() -> Any:
    both = ExitStack()
    both.enter_context(patch.object(client.Contacts, "broke", lambda _self, _began: None))
    both.enter_context(patch.object(lease.Contact, "reaches", lambda _self, _boot: True))
    return both


@_mutant("a slot is taken over for ever")
def _() -> Any:
    return patch.object(Record, "closes_as_lost", property(lambda self: self.on_lost == "skip" or bool(self.ask)))


@_mutant("a renewal that hangs is waited for")
def _() -> Any:
    return patch.object(held_leases, "patience", lambda _lease: world.WORLD_TIMEOUT)


# --- a body that does not stop ---


@_mutant("the turn is freed while the body runs")
def _() -> Any:
    return patch.object(keeper.Lease, "held_on", property(lambda _self: False))


@_mutant("slots before their instant")
def _() -> Any:
    return patch.object(decide, "not_before", lambda *_: None)


# --- a clock that leaps ---


@_mutant("a leap is believed")
def _() -> Any:
    return patch.object(client, "judged", lambda _before, sample, *_: store_clock.Believed(sample))


@_mutant("a grant in a leap")
def _() -> Any:
    both = ExitStack()
    both.enter_context(patch.object(decide, "doubted", lambda *_: None))
    both.enter_context(patch.object(client.Knowledge, "corrected", lambda _self, timed: timed))
    return both


@_mutant("a lapse in a leap")
def _() -> Any:
    both = ExitStack()
    both.enter_context(MUTANTS["a grant in a leap"]())
    both.enter_context(patch.object(client.Knowledge, "watched", lambda *_: timedelta.max))
    return both


@_mutant("a floor raised in a leap")
def _() -> Any:
    both = ExitStack()
    both.enter_context(patch.object(client.Client, "check_clock", lambda _self: None))
    both.enter_context(patch.object(client.Knowledge, "corrected", lambda _self, timed: timed))
    return both


@_mutant("dated by a clock that leapt")
def _() -> Any:
    return patch.object(decide, "dated", lambda _doubt, change: change)


# --- a store that forgets ---


@_mutant("birth unnoticed by the store")
def _() -> Any:
    return patch.object(base, "believe", lambda *_: "yes")


@_mutant("birth unnoticed by the holders")
def _() -> Any:
    return patch.object(Epoch, "forgot", property(lambda _self: False))


@_mutant("open cells of an earlier life believed")
def _() -> Any:
    return patch.object(table, "_is_forgotten", lambda *_: False)


@_mutant("locks right after forgetting")
def _() -> Any:
    return patch.object(decide, "LOCK_LEASE", timedelta(0))


@_mutant("turns right after forgetting")
def _() -> Any:
    not_before = decide.not_before

    def wrong(view: View, command: commands.Command, change: commands.Change) -> Instant | None:
        return view.slot.at if view.slot else not_before(view, command, change)

    return patch.object(decide, "not_before", wrong)


@_mutant("facts outlive the store's life")
def _() -> Any:
    return patch.object(
        client.Knowledge, "jobs", lambda self, names: {name: self._jobs[name] for name in names if name in self._jobs}
    )


# --- floors ---


@_mutant("no floor")
def _() -> Any:
    return patch.object(table, "floor_of", lambda *_: EPOCH)


@_mutant("facts never age")
def _() -> Any:
    return patch.object(decide, "not_after", lambda *_: None)


@_mutant("purge at once")
def _() -> Any:
    return patch.object(jobs, "PURGE_DELAY", timedelta(0))


@_mutant("a finish raises the floor")
def _() -> Any:
    exchange = ledger.Ledger.exchange

    def wrong(self: ledger.Ledger, ended: Any, *rest: Any) -> Any:
        answers = yield from exchange(self, ended, *rest)
        for grant, _, _ in ended:
            with suppress(StoreUnavailable):
                yield from self.jobs.edit(grant.slot.job, _higher(grant.slot.at))
        return answers

    return patch.object(ledger.Ledger, "exchange", wrong)


def _higher(floor: Instant) -> Callable[[Job | None, Instant], Job | None]:
    return lambda job, _now: job and job._replace(floor=max(job.floor, floor))


# --- versions ---


@_mutant("an edit keeps the floor")
def _() -> Any:
    respec = specs.respec

    def wrong(job: Job | None, *rest: Any) -> Job:
        new = respec(job, *rest)
        return new if job is None else new._replace(floor=job.floor, spans=job.spans)

    return patch.object(roster, "respec", wrong)


@_mutant("superseded versions fire on")
def _() -> Any:
    return _without_gate(gates.superseded)


# --- ends and claims in one swap ---


@_mutant("a claim that another won takes an end with it")
def _() -> Any:
    """The numbers of groups counted from how many writes there were, and overlapped."""

    def length(self: batch.Batch) -> int:
        return len(self.writes) or _LENGTH(self)

    def refused(command: Any, not_before: Any, refusals: Any, doubt: Any = None) -> Any:
        early = doubt is None and Refusal.LATE not in refusals
        return commands.Early(not_before) if early else _REFUSED(command, not_before, refusals, doubt)

    both = ExitStack()
    both.enter_context(patch.object(batch.Batch, "__len__", length))
    both.enter_context(patch.object(loop, "refused", refused))
    return both


_LENGTH, _REFUSED = batch.Batch.__len__, decide.refused


# --- what a claim needs besides its cell ---


@_mutant("no turn is taken")
def _() -> Any:
    with_turn = decide._with_turn

    def wrong(view: View, *rest: Any) -> Any:
        return with_turn(view._replace(turns=()) if view.record is None else view, *rest)

    return patch.object(decide, "_with_turn", wrong)


# --- effects ---

MUTANTS.update(EFFECT_MUTANTS)
