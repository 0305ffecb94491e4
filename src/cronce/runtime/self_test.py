"""A test of a live store: that it does what all rests on, by jobs of its own, which are removed again.

Claims meet at once from as many connections; one must win. Then a slot is given back and granted to another, and the
first speaks again with its old fence: it must not be heard. What is renewed lasts longer, what is closed stays closed.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from os import urandom
from typing import Final

from cronce.clock import Clock
from cronce.errors import StoreError
from cronce.model import BOARD_JOBS, BOARD_RUNS, Instant, Slot, Write, job_cell, slot, turn_cell
from cronce.policy import Overlap
from cronce.protocol.commands import Closed, Early, Finished, Released, Stale
from cronce.protocol.lease import LOCK_LEASE, forgotten_floor
from cronce.protocol.record import Job, Outcome
from cronce.protocol.terms import RERUN_LEASE, Terms
from cronce.runtime.flow import drive
from cronce.runtime.ledger import Grant, Refused, Wanted
from cronce.runtime.node import Node
from cronce.stores.base import Store, Swapped
from cronce.stores.checks import Check, error, ok

CLAIMANTS: Final = 16
SELF_TEST_ROUNDS: Final = 5

CLAIMANT_TIMEOUT: Final = 10.0
"""Seconds to wait for the slowest claimant."""

SELF_TEST_STEP: Final = timedelta(milliseconds=20)

NOT_A_STORE: Final = "do not use this store: slots would run more than once. Tell its author and its administrator"

Answer = Grant | Refused | StoreError


class WriteBarrier:
    """A store where nobody's first write begins before everybody's: all have read by then, and none the others'."""

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
        finally:  # also when nobody wants to hear more
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

    def _race(self, place: Slot) -> list[Answer]:
        all_here = threading.Barrier(CLAIMANTS)
        answers: list[Answer] = []

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
        """Also after trouble: what is left is a few cells of jobs that nobody else knows."""
        keys = [key for one in self._slots for key in (one.cell, turn_cell(one.job, 0), job_cell(one.job))]
        try:
            boards = [cell for cell in self._store.load(self._boards).cells if cell.version]
            if boards:  # nobody had written there before
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
