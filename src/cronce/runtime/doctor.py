"""What `cronce doctor` looks at: which store is meant and who named it, whether this machine's clock is kept right and
agrees with the store's, what the store promises, what its own kind knows to ask, and the proof that it excludes.

Checks are yielded as they are made, so that the person who waits sees how far it is.
"""

import os
import platform
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import timedelta
from os import urandom
from statistics import median
from typing import Final

from cronce import __version__
from cronce.clock import Clock, KernelClock, kernel_clock
from cronce.errors import BadInput, StoreError, StoreUnavailable
from cronce.model import (
    BOARD_JOBS,
    BOARD_RUNS,
    Epoch,
    Instant,
    Origin,
    Slot,
    Traits,
    Write,
    job_cell,
    slot,
    turn_cell,
)
from cronce.policy import Overlap
from cronce.protocol.commands import Closed, Early, Finished, Released, Stale
from cronce.protocol.lease import LOCK_LEASE, forgotten_floor
from cronce.protocol.notices import Bundle
from cronce.protocol.record import Job, Outcome
from cronce.protocol.store_clock import SET_CLOCK, closed_ahead, dated_ahead
from cronce.protocol.terms import RERUN_LEASE, Terms
from cronce.runtime.clock_repair import FutureDated, find_ahead
from cronce.runtime.flow import Flow, drive
from cronce.runtime.ledger import Grant, Refused, Wanted
from cronce.runtime.node import Node
from cronce.runtime.queries import holders, machines_tzdata, mixed_tzdata, read_bundle, shared_names
from cronce.stores import mask
from cronce.stores.base import Store, Swapped
from cronce.stores.checks import Check, error, ok, warn
from cronce.stores.default import DEFAULT, GIVEN, LINE, Chosen, choose, in_container, open_chosen
from cronce.value import NamedTuple

CLOCK_READINGS: Final = 20
PROBLEMS_SHOWN: Final = 3
SLOW_ANSWER: Final = timedelta(milliseconds=250)
OFF: Final = timedelta(milliseconds=100)
FAR_OFF: Final = timedelta(seconds=5)

Open = Callable[[Chosen], Store]


class ClockReading(NamedTuple):
    """One question to the store: how long it took, and by how much the store's clock was ahead of this machine's, at
    the middle of it."""

    took: timedelta
    ahead: timedelta


def examine(url: str | None, clock: Clock, connect: Open = open_chosen) -> Iterator[Check]:
    """All checks, in an order that people can follow. Raises `StoreUnavailable`, or `BadInput` if the URL is not valid
    or its driver is not installed. The check that reports the failure comes before the error."""
    yield ok("cronce", f"{__version__}, on Python {platform.python_version()} and {platform.system()}")
    yield kept_right(kernel_clock(), container=in_container(os.environ, "/"))
    try:
        chosen = choose(url)
        try:
            store = connect(chosen)
        except StoreError:
            yield named(chosen)
            raise
        yield named(chosen)
        with closing(store):
            yield from _examined(store, lambda: connect(chosen), clock)
    except BadInput as trouble:
        yield unusable(trouble)
        raise
    except StoreUnavailable as trouble:
        yield error("reach", str(trouble), "check that it runs, and that this machine can reach it")
        raise
    except StoreError as trouble:
        yield error("open", str(trouble), "")


def _examined(store: Store, connect: Callable[[], Store], clock: Clock) -> Iterator[Check]:
    samples = measured(store, clock)
    yield round_trip(samples)
    yield skew(samples, store.traits)
    yield promises(store.traits)
    yield from life(store.load([]).epoch)
    yield from drive(together(), store, clock)
    yield from lying_ahead(drive(find_ahead(), store, clock))
    ask = getattr(store, "checks", None)
    if ask is not None:
        yield from ask()
    yield from SelfTest(store, connect, clock).checks()


# --- the store, as it is named ---


def named(chosen: Chosen) -> Check:
    by = {GIVEN: "", DEFAULT: ", the default: only this user's processes on this machine share it"}
    return ok("store", f"{mask(chosen.url)}{by.get(chosen.source, f', named by {chosen.source}')}")


def unusable(trouble: BadInput) -> Check:
    """Most messages name what is wrong, and then what to do about it."""
    says, *remedy = re.split("; |: (?=pip install )", str(trouble), maxsplit=1)
    return error("store", says, "".join(remedy))


def life(epoch: Epoch) -> Iterator[Check]:
    """A store that can forget, and was empty when it was first seen, may be new; or not."""
    if epoch.origin is Origin.FOUND:
        says = f"it was empty at {epoch.born:%Y-%m-%d %H:%M:%S} UTC and may have lost data: slots up to then"
        runs_them = "`cronce rerun JOB --from INSTANT --to INSTANT` runs earlier ones"
        yield warn("life", f"{says} stay closed", f"if it is new, later slots run; {runs_them}")


def lying_ahead(ahead: FutureDated) -> Iterator[Check]:
    """What a clock that leapt has left behind."""
    if ahead.jobs:
        yield error("ahead", closed_ahead(f"future slots of {listed(ahead.jobs)}"), SET_CLOCK)
    if ahead.leases or ahead.holders:
        names = listed([cell.key for cell in (*ahead.leases, *ahead.holders)])
        yield error("ahead", dated_ahead(names), SET_CLOCK)


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - PROBLEMS_SHOWN:,} more" if len(names) > PROBLEMS_SHOWN else ""
    return f"{', '.join(names[:PROBLEMS_SHOWN])}{more}"


def promises(traits: Traits) -> Check:
    """What the store reports of itself."""
    if not traits.linearizable:
        says = "a failover may lose an accepted write, or a later read may not see it: a slot may be claimed twice"
        return warn("promises", says, f"make it wait for its replicas, or use another store: {LINE}")
    if not traits.shared:
        return warn("promises", "each process has a store of its own: nothing is shared", f"use another store: {LINE}")
    if not traits.durable:
        says = "each slot is claimed once, unless the store loses data: a crash may lose its last writes"
        return warn("promises", says, "make it durable; slots that were lost are closed as unknown, not run again")
    also = " or loses its machine" if traits.survives_failover else "; the loss of its machine may lose writes"
    return ok("promises", f"each slot is claimed once, even if the store crashes{also}")


def together() -> Flow[list[Check]]:
    """What the live schedulers do not agree on."""
    _, seen = yield from holders()
    live, bundles = [one.holder for one in seen], dict[str, Bundle]()
    for bundle in {one.bundle for one in live}:
        bundles[bundle] = yield from read_bundle(bundle)
    machines = yield from machines_tzdata()
    return [*names(shared_names(live, bundles)), *time_zones(mixed_tzdata(live, machines))]


def names(shared: Mapping[str, Mapping[str, str]]) -> Iterator[Check]:
    for job, found in shared.items():
        where = " and ".join(f"{code} ({holder})" for code, holder in found.items())
        remedy = (
            "give one of them another name, or each application its own namespace; if the code moved, stop the"
            " old processes"
        )
        yield warn(
            "names", (f"{job} is the name of more than one function: {where}; each slot runs only one of them"), remedy
        )


def time_zones(mixed: Mapping[str, str]) -> Iterator[Check]:
    if mixed:
        where = " and ".join(f"{version} ({place})" for version, place in mixed.items())
        says = f"machines have different versions of the time zone database: {where}"
        yield warn("time zones", says, "update tzdata on all of them")


# --- time ---


def measured(store: Store, clock: Clock) -> list[ClockReading]:
    return [_sample(store, clock) for _ in range(CLOCK_READINGS)]


def _sample(store: Store, clock: Clock) -> ClockReading:
    wall: Instant = clock.wall()
    began = clock.boot()
    now = store.load(["meta"]).now
    took = timedelta(seconds=clock.boot() - began)
    return ClockReading(took, now - (wall + took / 2))


def round_trip(samples: Sequence[ClockReading]) -> Check:
    typical = timedelta(seconds=median(sample.took.total_seconds() for sample in samples))
    says = f"{_ms(typical)} for a round trip (the median of {len(samples)})"
    if typical >= SLOW_ANSWER:
        return warn(
            "round trip", says, ("each claim takes at least as long; put the store closer to the machines that use it")
        )
    return ok("round trip", says)


def skew(samples: Sequence[ClockReading], traits: Traits) -> Check:
    """By the answer that was fastest: the store read its clock somewhere between question and answer."""
    best = min(samples, key=lambda sample: sample.took)
    own = traits.step + traits.skew
    if OFF < own >= abs(best.ahead):
        return ok("clocks", f"the store's clock is known only to {_ms(own)}, and this machine's clock is within that")
    doubt = best.took / 2 + own
    surely = abs(best.ahead) - doubt
    says = f"this machine's clock is {_ms(abs(best.ahead))} {'behind' if best.ahead > timedelta(0) else 'ahead of'} the"
    says += f" store's, known to ±{_ms(doubt)}"
    remedy = "keep both clocks right, with chrony or systemd-timesyncd"
    if surely >= FAR_OFF:
        return error("clocks", says, f"{remedy}; a machine whose clock is a minute off runs nothing")
    return warn("clocks", says, remedy) if surely >= OFF else ok("clocks", says)


def kept_right(kept: KernelClock | None, *, container: bool) -> Check:
    whose = "the host's clock (containers share it)" if container else "this machine's clock"
    where = "on the host" if container else "here"
    if kept is None:
        return ok("ntp", f"cannot check here whether NTP synchronises {whose}")
    if kept.synchronised:
        return ok("ntp", f"{whose} is synchronised, to {_ms(timedelta(seconds=kept.error))}")
    return warn("ntp", f"no NTP service synchronises {whose}", f"run chrony or systemd-timesyncd {where}")


def _ms(span: timedelta) -> str:
    milliseconds = span / timedelta(milliseconds=1)
    return f"{milliseconds:.2f} ms" if milliseconds < 10 else f"{milliseconds:,.0f} ms"


# --- a test of the store itself ---------------------------------------------------------------------------------------

# That it does what all rests on, by jobs of its own, which are removed again. Claims meet at once from as many
# connections; one must win. Then a slot is given back and granted to another, and the first speaks again with its old
# fence: it must not be heard. What is renewed lasts longer, what is closed stays closed.

CLAIMANTS: Final = 16
SELF_TEST_ROUNDS: Final = 5

CLAIMANT_TIMEOUT: Final = 10.0
"""Seconds to wait for the slowest claimant."""

SELF_TEST_STEP: Final = timedelta(milliseconds=20)

NOT_A_STORE: Final = "do not use this store: slots would run more than once. Tell its author and its administrator"


class WriteBarrier:
    """A store where the first writes of all claimants begin together, after all have read."""

    def __init__(self, store: Store, all_here: threading.Barrier) -> None:
        self.traits = store.traits
        self.load, self.scan, self.purge, self.close = store.load, store.scan, store.purge, store.close
        self._swap, self._all_here = store.swap, all_here
        self._open = False

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        if not self._open:
            self._open = True
            with suppress(threading.BrokenBarrierError):
                self._all_here.wait(CLAIMANT_TIMEOUT)
        return self._swap(writes, seen)


class SelfTest:
    """`connect` opens the store once more, as another process would."""

    def __init__(self, store: Store, connect: Callable[[], Store], clock: Clock) -> None:
        self._store, self._connect, self._clock = store, connect, clock
        self._nodes: list[Node] = []
        self._name = f"doctor-{urandom(4).hex()}"
        self._slots: list[Slot] = []
        self._boards: list[str] = []
        self._overlap: Overlap = "skip"

    def checks(self) -> Iterator[Check]:
        try:
            yield from self._made()
        except StoreError as trouble:
            yield error("proof", f"the store failed during the test: {trouble}", "fix the store, then try again")
        finally:  # also when the caller stops early
            tidy = self._tidied()
            self._close()
        yield tidy

    def _made(self) -> Iterator[Check]:
        self._boards = [cell.key for cell in self._store.load([BOARD_RUNS, BOARD_JOBS]).cells if not cell.version]
        for _ in range(CLAIMANTS):
            self._nodes.append(self._node())
        at = self._ripe()
        yield self._one_winner([self._slot(f"{self._name}-{number}", at) for number in range(SELF_TEST_ROUNDS)])
        yield from self._fences(self._slot(f"{self._name}-fence", at))

    def _node(self) -> Node:
        store = self._connect() if self._store.traits.shared else self._store
        return Node(store, self._clock, self._connect, lambda _event: None)

    # --- one winner ---

    def _one_winner(self, slots: Sequence[Slot]) -> Check:
        for place in slots:
            self._register(place)
            answers = self._race(place)
            for answer in answers:
                if isinstance(answer, StoreError):
                    raise answer
            winners = sum(isinstance(answer, Grant) for answer in answers)
            if winners != 1:
                return error(
                    "claim", f"of {CLAIMANTS} claims of one slot at the same time {winners} were granted", NOT_A_STORE
                )
        return ok(
            "claim",
            f"of {CLAIMANTS} claims of one slot at the same time one was granted, in each of {SELF_TEST_ROUNDS} rounds",
        )

    def _race(self, place: Slot) -> list[Grant | Refused | StoreError]:
        all_here = threading.Barrier(CLAIMANTS)
        answers: list[Grant | Refused | StoreError] = []

        def claim(node: Node) -> None:
            gate = WriteBarrier(node.store, all_here)
            try:
                (answer,) = drive(node.ledger.claim([self._wanted(place)]), gate, self._clock)
                answers.append(answer)
            except StoreError as trouble:
                answers.append(trouble)
                all_here.abort()

        threads = [threading.Thread(target=claim, args=(node,), name="cronce-doctor") for node in self._nodes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return answers

    # --- fences ---

    def _fences(self, place: Slot) -> Iterator[Check]:
        first, second = self._nodes[:2]
        old = self._claim(first, place)
        if not isinstance(old, Grant) or first.do(first.ledger.release([old])) != [Released()]:
            yield error("fence", f"a free slot was not granted and given back: {old}", NOT_A_STORE)
            return
        new = self._claim_soon(second, place)
        if not isinstance(new, Grant) or new.fence <= old.fence:
            yield error("fence", f"a slot that was given back was not granted under a higher fence: {new}", NOT_A_STORE)
            return
        yield self._renewed(second, new)
        yield self._stale(first, old)
        yield self._closed(first, second, new)

    def _renewed(self, node: Node, grant: Grant) -> Check:
        self._wait(SELF_TEST_STEP + 2 * self._store.traits.step)
        (renewed,) = node.do(node.ledger.renew([grant]))
        before, after = grant.cells[0].until, renewed.cells[0].until if isinstance(renewed, Grant) else None
        if before is None or after is None or after <= before:
            return error("lease", f"a renewed lease does not last longer: {before} became {after}", NOT_A_STORE)
        return ok("lease", "a lease is renewed")

    def _stale(self, node: Node, old: Grant) -> Check:
        answer = node.do(node.ledger.finish(old, Outcome.FAILED))
        if not isinstance(answer, Stale):
            return error("fence", f"a process with an older grant could still close the slot: {answer}", NOT_A_STORE)
        return ok("fence", "a write with an old fence is refused")

    def _closed(self, first: Node, second: Node, new: Grant) -> Check:
        finished = second.do(second.ledger.finish(new, Outcome.SUCCEEDED))
        assert new.slot is not None
        again = self._claim(first, new.slot)
        if finished != Finished(Outcome.SUCCEEDED) or again != Closed(Outcome.SUCCEEDED, ""):
            return error("closed", f"a finished slot is not closed for good: {finished}, {again}", NOT_A_STORE)
        return ok("closed", "a slot that was finished is not granted again")

    # --- what it takes ---

    def _claim(self, node: Node, place: Slot) -> Grant | Refused:
        (answer,) = node.do(node.ledger.claim([self._wanted(place)]))
        return answer

    def _claim_soon(self, node: Node, place: Slot) -> Grant | Refused:
        """What was given back is free when its instant has come, by a clock that not all connections know as well."""
        answer = self._claim(node, place)
        for _ in range(round((self._store.traits.skew + self._store.traits.step) / SELF_TEST_STEP) + 1):
            if not isinstance(answer, Early):
                break
            self._wait(SELF_TEST_STEP)
            answer = self._claim(node, place)
        return answer

    def _wanted(self, place: Slot) -> Wanted:
        return Wanted(place, Terms(RERUN_LEASE, "rerun", self._overlap, outside=True))

    def _register(self, place: Slot) -> None:
        """Else the claimants would meet over the job first, and the slot would be the fastest one's."""
        node = self._nodes[0]
        below = Job(place.at - timedelta(seconds=1))
        node.do(node.ledger.jobs.edit(place.job, lambda _job, _now: below))

    def _slot(self, job: str, at: Instant) -> Slot:
        made = slot(job, at)
        self._slots.append(made)
        return made

    def _ripe(self) -> Instant:
        """An instant that has come by the store's clock, and that even a store that forgot all before can grant; its
        turns it cannot grant for a while."""
        read, traits = self._store.load([]), self._store.traits
        if (traits.history and not traits.groups) or (read.epoch.forgot and read.now < read.epoch.born + LOCK_LEASE):
            self._overlap = "allow"
        at = read.now.replace(microsecond=0)
        floor = forgotten_floor(read.epoch, traits)
        if floor is not None and at <= floor:
            at = floor.replace(microsecond=0) + timedelta(seconds=1)
        self._wait(at - read.now + SELF_TEST_STEP)
        return at

    def _wait(self, span: timedelta) -> None:
        threading.Event().wait(max(span.total_seconds(), 0.0))

    def _tidied(self) -> Check:
        """Also after an error: the test leaves a few cells of jobs that only it knows."""
        keys = [key for one in self._slots for key in (one.cell, turn_cell(one.job, 0), job_cell(one.job))]
        try:
            boards = [cell for cell in self._store.load(self._boards).cells if cell.version]
            if boards:  # only the test has written there
                self._store.purge(boards)
            there = [cell for cell in self._store.load(keys).cells if cell.version]
            if not there:
                return ok("tidy", "nothing was written")
            gone = self._store.purge(there)
            left = sum(cell.version > 0 for cell in self._store.load(keys).cells)
        except StoreError as trouble:
            return error(
                "tidy", (f"what the test wrote is still there, below {self._name}: {trouble}"), "check the store"
            )
        if left:
            return error("tidy", f"{left} of {gone + left} cells below {self._name} cannot be removed", NOT_A_STORE)
        return ok("tidy", f"the {gone} cells that the test wrote are removed")

    def _close(self) -> None:
        for node in self._nodes:
            if node.store is not self._store:
                with suppress(StoreError):
                    node.store.close()
