"""A function in a process of its own, which can be killed: both sides, the parent that waits for it and the child.

The child's stdin is a channel to the parent. The parent sends where the function is, its run and its arguments, then
how long its lease is trusted, each time that is renewed. The child sends its progress, and how it ended. All of it is
JSON, a line each.
"""

import json
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import cached_property
from types import FrameType
from typing import Any, Final, NoReturn

from cronce.clock import Clock, SystemClock
from cronce.errors import BadInput, BodyFailed, InDoubt, InProgress, LeaseLost, tell
from cronce.model import Cell, Traits, from_us, read_fence, slot_of_cell, to_us
from cronce.protocol.codec import MAX_PAYLOAD_BYTES
from cronce.protocol.lease import Trust
from cronce.protocol.record import Outcome, decode, encode
from cronce.runtime.app_loading import FunctionLocation, find, plain
from cronce.runtime.attempt import Ending, describe
from cronce.runtime.guard import call_with_run
from cronce.runtime.interrupt import Interrupt
from cronce.runtime.keeper import NOT_RENEWED, Lease, LeaseEnd
from cronce.runtime.ledger import Grant
from cronce.runtime.log import log, traceback_of
from cronce.runtime.node import Node
from cronce.runtime.processes.child import Child, Ended, NotStarted, Supervisor
from cronce.runtime.processes.command import Command, environment, in_words
from cronce.runtime.processes.process_group import python
from cronce.runtime.run import AsCurrentRun, Run
from cronce.runtime.steps import BodyStep
from cronce.stores import open_store

UNSENT_MOST: Final = 1 << 16
"""Bytes that wait for a child which does not listen. What is left out makes its trust end sooner, never later."""


class StdinChannel:
    """Our end of a child's stdin."""

    pending = memoryview(b"")

    def __init__(self, first: str, heard: Callable[[Mapping[str, Any]], None]) -> None:
        self.inlet = -1
        self._heard = heard
        self._socket: socket.socket | None = None
        self._unsent = bytearray(f"{first}\n".encode())
        self._unread: list[bytes] = []  # of one line, which may be long: it is put together once
        self._lock = threading.Lock()

    def open(self) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(0)
        self.inlet, self._socket = theirs.detach(), ours

    def tell(self, **word: object) -> None:
        """From any thread, at any time; it does not wait for the child to read."""
        with self._lock:
            if len(self._unsent) < UNSENT_MOST or self._socket is None:
                self._unsent += f"{json.dumps(word)}\n".encode()
            self._send()

    def interest(self) -> dict[int, int]:
        with self._lock:
            if self._socket is None:
                return {}
            return {self._socket.fileno(): select.POLLIN | (select.POLLOUT if self._unsent else 0)}

    def read(self) -> int:
        with self._lock:
            self._send()
            chunk = self._received()
        lines, end, rest = chunk.rpartition(b"\n")
        if end:
            whole, self._unread = b"".join((*self._unread, lines)), []
            for line in whole.split(b"\n"):
                self._heard(json.loads(line))
        self._unread.append(rest)
        return len(chunk)

    def write(self) -> None:
        """Reading does both: there may be something to send and something to read."""

    def finish(self) -> None:
        while self.read():
            pass
        self.close()

    def close(self) -> None:
        with self._lock:
            line, self._socket = self._socket, None
            if line is not None:
                line.close()

    def _send(self) -> None:
        if self._socket is not None and self._unsent:
            with suppress(OSError):  # no room, or the child is gone
                del self._unsent[: self._socket.send(self._unsent)]

    def _received(self) -> bytes:
        """Empty while nothing comes. At its end the socket is closed, since one at its end is always ready to be
        read."""
        if self._socket is None:
            return b""
        try:
            chunk = self._socket.recv(1 << 16)
        except BlockingIOError:
            return b""
        except OSError:
            chunk = b""
        if not chunk:
            self._socket.close()
            self._socket = None
        return chunk


class IsolatedCall(Command):
    """One call of a function. The child reaches the store by its `url`, unless the store is an object of this process.
    `is_async`: the caller is on an event loop, and gets something to await."""

    def __init__(
        self,
        place: FunctionLocation,
        supervisor: Supervisor,
        traits: Traits,
        url: str | None,
        *,
        args: tuple[Any, ...],
        named: Mapping[str, Any],
        is_async: bool,
    ) -> None:
        super().__init__((), supervisor, traits)
        self._url = url
        self.is_async = is_async
        self._call = {"place": place, "argv": sys.argv, "args": args, "named": dict(named)}
        self._line: StdinChannel | None = None
        self._told: dict[str, Any] = {}
        try:
            json.dumps(self._call)
        except (TypeError, ValueError, RecursionError) as error:
            raise BadInput(
                f"{place.qualname} runs in another process, and its arguments go there as JSON: {error}"
            ) from None

    def run(self, run: Run) -> Any:
        return self._awaited(run) if self.is_async else super().run(run)

    async def _awaited(self, run: Run) -> Ended | NotStarted:
        """On a thread of its own: those of the loop's pool are few, and stores are asked on them."""
        import asyncio  # noqa: PLC0415
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

        with ThreadPoolExecutor(1, "cronce-isolated") as thread:
            seen = asyncio.get_running_loop().run_in_executor(thread, super().run, run)
            try:
                return await asyncio.shield(seen)
            except asyncio.CancelledError:
                if self._child is not None:
                    self._child.stop("cancelled")
                await asyncio.wait([seen])
                raise

    def child(self, run: Run) -> Child:
        self._told = {}
        run.joined = True  # until the child reports that it was not: a child that is killed reports nothing
        told = {"grant": spelled(run.grant), "store": self._url, "ends": run.ends, "exclusive": run.exclusive}
        self._line = line = StdinChannel(json.dumps({**self._call, **told}), lambda word: self._hear(run, word))
        words = python("cronce.runtime.processes.isolated:main", run.key)
        return self._supervisor.child(words, {**os.environ, **environment(run)}, line)

    def _hear(self, run: Run, word: Mapping[str, Any]) -> None:
        if "progress" in word:
            run.progress(*word["progress"])
            return
        for name, (kind, why) in word.get("unfinished", {}).items():
            made = {"in doubt": InDoubt(name, why), "in progress": InProgress(name)}
            run.unfinished[name] = made.get(kind) or BodyFailed(why)
        run.committed |= word.get("committed", False)
        run.joined, run.transactions = word.get("joined", True), word.get("transactions", 0)
        self._told.update(word)

    def renewed(self, grant: Grant) -> None:
        super().renewed(grant)
        if self._line is not None:
            self._line.tell(trust=grant.trust.end, until=_until(grant))

    def stop(self, body: BodyStep, run: Run, over: LeaseEnd) -> None:
        if self._line is not None:
            self._line.tell(over=(over.cause, over.why))
        super().stop(body, run, over)

    def over(self, run: Run, result: Ended) -> LeaseEnd | None:
        """A job function that asks can know that its trust has ended before the parent reports it."""
        return (run.over or NOT_RENEWED) if self._told.get("untrusted") else super().over(run, result)

    def ended(self, result: Ended) -> Ending:
        why = self._failure(result)
        return Ending(Outcome.FAILED if why else Outcome.SUCCEEDED, why, output=result.output)

    def value(self, result: Ended) -> Any:
        """What the function returned, if JSON can hold it."""
        assert self._run is not None
        if why := self._failure(result):
            raise BodyFailed(f"{self._run.key} failed: {why}")
        if size := self._told.get("too_long"):
            raise BadInput(
                f"{self._run.key} succeeded, but its result is {size:,} bytes of JSON; a job function in another"
                " process"
                f" can return at most {MAX_PAYLOAD_BYTES:,}; store the result elsewhere, and return its location"
            )
        return self._told["returned"]

    def _failure(self, result: Ended) -> str:
        """A child that ends without a report has not returned, whatever its exit code."""
        if "raised" in self._told:
            return str(self._told["raised"])
        if result.code:
            return in_words(result.code)
        return "" if "returned" in self._told else "the process ended with exit code 0 before the job function returned"


def _until(grant: Grant) -> int:
    until = grant.cells[0].until
    assert until is not None
    return to_us(until)


def spelled(grant: Grant) -> dict[str, Any]:
    """A grant as it is sent to a child; `read_grant` reads it."""
    return {
        "key": grant.key,
        "fence": str(grant.fence),
        "number": grant.number,
        "lease": grant.lease.total_seconds(),
        "trust": grant.trust.end,
        "until": _until(grant),
        "record": encode(grant.record),
    }


# --- the child --------------------------------------------------------------------------------------------------------

# An isolated body from within: this is the child's whole program.
#
# A body is given a `Run` like any other. Its lease is kept by the parent, which ends this process before that lapses;
# here it is trusted while the parent is there and the last instant that it sent has not come, by a clock that all
# processes of a machine share. TERM is raised in the body as an exception, so that it can clean up within the grace.

TELL_EVERY: Final = 0.1
"""Seconds between two words about progress."""


class ParentConnection:
    """Our end of what was stdin. Who reads stdin finds it empty."""

    def __init__(self) -> None:
        self._socket = socket.socket(fileno=os.dup(0))
        nowhere = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nowhere, 0)
        os.close(nowhere)
        self._unread = bytearray()
        self._lock = threading.Lock()
        self._process = os.getpid()
        self.hung_up = False

    def first(self) -> Any:
        """What this process is for."""
        seen = 0
        while (end := self._unread.find(b"\n", seen)) < 0:
            seen = len(self._unread)
            self._read(0)
            if self.hung_up:
                sys.exit("cronce: the process that started this one is gone")
        line = self._unread[:end]
        del self._unread[: end + 1]
        return json.loads(line)

    def words(self) -> list[dict[str, Any]]:
        """What was sent since."""
        with self._lock:
            with suppress(BlockingIOError):
                while not self.hung_up:
                    self._read(socket.MSG_DONTWAIT)
            *lines, self._unread = self._unread.split(b"\n")
        return [json.loads(line) for line in lines]

    def tell(self, **word: object) -> None:
        if os.getpid() != self._process:  # what the body forked comes back from it, too, and does not speak for it
            return
        with self._lock, suppress(OSError):  # the parent is gone, and so are we soon
            self._socket.sendall(f"{json.dumps(word)}\n".encode())

    def _read(self, flags: int) -> None:
        try:
            chunk = self._socket.recv(1 << 16, flags)
        except ConnectionError:
            chunk = b""
        self._unread += chunk
        self.hung_up = not chunk


class ParentsLease(Lease):
    """A lease that the parent keeps."""

    def __init__(self, grant: Grant, line: ParentConnection, clock: Clock, ends: float | None) -> None:
        super().__init__(grant, clock, lambda _over: None)
        self._line, self.ends = line, ends

    @property
    def trusted(self) -> bool:
        if self.mine:
            self._hear()
        return super().trusted

    def _hear(self) -> None:
        for word in self._line.words():
            match word:
                case {"trust": float(end), "until": int(until)}:  # sent in time, however late it is read
                    self.grant = self.grant._replace(trust=Trust(end), cells=(_lived(self.grant.key, until),))
                case {"over": [cause, why]}:
                    self.end(LeaseEnd(cause, why))
        if self._line.hung_up:
            self.end(LeaseEnd("lost", "the process that renews its lease is gone"))


class IsolatedHost:
    """Where the run goes on: it has a connection to the store if it needs one, and reports the progress of the job
    function to the parent, not more often than is useful, and at the end."""

    def __init__(self, line: ParentConnection, url: str | None, clock: Clock) -> None:
        self._line, self._url, self._clock = line, url, clock
        self._sent = 0.0
        self._unsent: tuple[int, int] | None = None

    @cached_property
    def node(self) -> Node:
        return _node(self._url, self._clock)

    def note_progress(self, lease: Lease, done: int, total: int) -> None:
        if lease.mine:
            self._unsent = done, total
            if self._clock.boot() >= self._sent + TELL_EVERY:
                self.say()

    def say(self) -> None:
        if self._unsent is not None:
            self._line.tell(progress=self._unsent)
            self._sent, self._unsent = self._clock.boot(), None


class IsolatedJob:
    """What is known of the job: the database is its function's, once that is imported."""

    database: Any = None

    def __init__(self, *, exclusive: bool) -> None:
        self.exclusive = exclusive


def main() -> None:
    line = ParentConnection()
    told = line.first()
    signal.signal(signal.SIGTERM, _interrupt)
    sys.argv = told["argv"]
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # what is killed has no time to flush
    clock = SystemClock()
    host, job = IsolatedHost(line, told["store"], clock), IsolatedJob(exclusive=told["exclusive"])
    lease = ParentsLease(read_grant(told["grant"]), line, clock, told["ends"])
    run = Run(lease, host, job)
    try:
        found = find(FunctionLocation(*told["place"]))
        job.database = getattr(found, "database", None)
        with AsCurrentRun(run):
            value = call_with_run(plain(found), run, tuple(told["args"]), told["named"])
        if run.forgotten:
            raise run.forgotten
    except Interrupt:
        sys.exit(128 + signal.SIGTERM)
    except BaseException as error:
        tell(traceback_of(error))
        host.say()
        untrusted = isinstance(error, LeaseLost) and not run.trusted
        line.tell(raised=describe(error), untrusted=untrusted, **_effects(run))
        sys.exit(1)
    host.say()
    line.tell(**_sayable(value), **_effects(run))


def _effects(run: Run) -> dict[str, object]:
    """What became of its transactions, and what is not known to be done."""
    unfinished = {name: _told(error) for name, error in run.unfinished.items()}
    return {
        "unfinished": unfinished,
        "committed": run.committed,
        "joined": run.joined,
        "transactions": run.transactions,
    }


def _told(error: BaseException) -> tuple[str, str]:
    """What the job function got: that a person has to look, that another process holds it, or that it is not done."""
    if isinstance(error, InDoubt):
        return "in doubt", error.why
    return "in progress" if isinstance(error, InProgress) else "", describe(error)


def read_grant(told: dict[str, Any]) -> Grant:
    return Grant(
        told["key"],
        slot_of_cell(told["key"]),
        read_fence(told["fence"]),
        told["number"],
        timedelta(seconds=told["lease"]),
        Trust(told["trust"]),
        (_lived(told["key"], told["until"]),),
        decode(told["record"], told["key"]),
        0,
    )


def _lived(key: str, until: int) -> Cell:
    """The run's cell, as far as a child has to know it: until when its lease goes."""
    return Cell(key, until=from_us(until))


def _node(url: str | None, clock: Clock) -> Node:
    """A connection of its own, for a body that has steps."""
    if url is None:
        raise BadInput(
            "the store is an object in the process that started this one; an isolated job function needs a"
            " store with a URL"
        )
    return Node(open_store(url), clock, lambda: open_store(url), log)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Interrupt


def _sayable(value: Any) -> dict[str, Any]:
    try:
        size = len(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return {"returned": None}
    return {"returned": value} if size <= MAX_PAYLOAD_BYTES else {"returned": None, "too_long": size}
