"""An isolated body from within: this is the child's whole program. `isolated` is the other side.

A body is given a `Run` like any other. Its lease is kept by the parent, which ends this process before that lapses;
here it is trusted while the parent is there and the last instant that it told has not come, by a clock that all
processes of a machine share. TERM is raised in the body as an exception, so that it can clean up within the grace.
"""

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from types import FrameType
from typing import Any, Final, NoReturn

from cronce.clock import Clock, SystemClock
from cronce.errors import BadInput, InDoubt, InProgress, LeaseLost, tell
from cronce.model import Cell, from_us, read_fence, slot_of_cell
from cronce.protocol.codec import LONGEST
from cronce.protocol.lease import Trust
from cronce.protocol.record import decode
from cronce.runtime.attempt import describe
from cronce.runtime.desk import Desk
from cronce.runtime.guard import call_with_run
from cronce.runtime.interrupt import Interrupt
from cronce.runtime.keeper import Lease, Over
from cronce.runtime.ledger import Grant
from cronce.runtime.log import log, traceback_of
from cronce.runtime.processes.bodies import Place, find, plain
from cronce.runtime.run import Current, Means, Run
from cronce.stores import open_store

TELL_EVERY: Final = 0.1
"""Seconds between two words about progress."""


class Line:
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
                sys.exit("cronce: whoever started this is gone")
        line = self._unread[:end]
        del self._unread[: end + 1]
        return json.loads(line)

    def words(self) -> list[dict[str, Any]]:
        """What was said since."""
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


class FarLease(Lease):
    """A lease that the parent keeps."""

    def __init__(self, grant: Grant, line: Line, clock: Clock, ends: float | None) -> None:
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
                case {"trust": float(end), "until": int(until)}:  # told in time, however late it is heard
                    self.grant = self.grant._replace(trust=Trust(end), cells=(_lived(self.grant.key, until),))
                case {"over": [cause, why]}:
                    self.end(Over(cause, why))
        if self._line.hung_up:
            self.end(Over("lost", "the process that keeps its lease is gone"))


class Progress:
    """Tells the parent how far the body is: not more often than anybody wants to know, and at the end."""

    def __init__(self, line: Line, now: Callable[[], float]) -> None:
        self._line, self._now = line, now
        self._said = 0.0
        self._unsaid: tuple[int, int] | None = None

    def note(self, lease: Lease, done: int, total: int) -> None:
        if lease.mine:
            self._unsaid = done, total
            if self._now() >= self._said + TELL_EVERY:
                self.say()

    def say(self) -> None:
        if self._unsaid is not None:
            self._line.tell(progress=self._unsaid)
            self._said, self._unsaid = self._now(), None


def main() -> None:
    line = Line()
    told = line.first()
    signal.signal(signal.SIGTERM, _interrupt)
    sys.argv = told["argv"]
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # what is killed has no time to flush
    clock = SystemClock()
    progress = Progress(line, clock.boot)
    lease = FarLease(read_grant(told["grant"]), line, clock, told["ends"])
    desk = lru_cache(maxsize=None)(lambda: _desk(told["store"], clock))
    found: Any = None
    run = Run(lease, Means(progress.note, desk, lambda: getattr(found, "database", None), told["exclusive"]))
    try:
        found = find(Place(*told["place"]))
        with Current(run):
            value = call_with_run(plain(found), run, tuple(told["args"]), told["named"])
        if run.forgotten:
            raise run.forgotten
    except Interrupt:
        sys.exit(128 + signal.SIGTERM)
    except BaseException as error:
        tell(traceback_of(error))
        progress.say()
        untrusted = isinstance(error, LeaseLost) and not run.trusted
        line.tell(raised=describe(error), untrusted=untrusted, **_effects(run))
        sys.exit(1)
    progress.say()
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
    """What the body was told: that a person has to look, that another is at it, or that it is not done."""
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


def _desk(url: str | None, clock: Clock) -> Desk:
    """A connection of its own, for a body that has steps."""
    if url is None:
        raise BadInput("the store is an object of the process that started this one; an isolated body needs its URL")
    return Desk(open_store(url), clock, lambda: open_store(url), log)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Interrupt


def _sayable(value: Any) -> dict[str, Any]:
    try:
        size = len(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return {"returned": None}
    return {"returned": value} if size <= LONGEST else {"returned": None, "too_long": size}
