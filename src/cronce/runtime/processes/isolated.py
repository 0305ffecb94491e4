"""A function in a process of its own, which can be killed: from the side that sees it through. `isolated_child` is the
other.

The child's stdin is a line to us. It is told where the function is, its run and its arguments, then how long its lease
is trusted, each time that is renewed. It tells how far it is, and how it ended. All of it is JSON, a line each.
"""

import json
import os
import select
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from cronce.errors import BadInput, BodyFailed, InDoubt, InProgress
from cronce.model import Traits, to_us
from cronce.protocol.codec import LONGEST
from cronce.protocol.record import Outcome, encode
from cronce.runtime.attempt import Ending
from cronce.runtime.keeper import NOT_RENEWED, Over
from cronce.runtime.ledger import Grant
from cronce.runtime.processes.bodies import Place
from cronce.runtime.processes.child import Child, Ended, NotStarted, Supervisor
from cronce.runtime.processes.command import Command, environment, in_words
from cronce.runtime.processes.process_group import python
from cronce.runtime.run import Run
from cronce.runtime.steps import Body

UNSENT_MOST: Final = 1 << 16
"""Bytes that wait for a child which does not listen. What is left out makes its trust end sooner, never later."""


class Line:
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
        """From any thread, at any time; nobody waits for the child to listen."""
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
        """Reading does it: there may be something to say and something to hear."""

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
            with suppress(OSError):  # no room, or nobody there any more
                del self._unsent[: self._socket.send(self._unsent)]

    def _received(self) -> bytes:
        """Nothing while nothing comes. At the end it hangs up: what is at its end is always ready to be read."""
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


class Isolated(Command):
    """One call of a function. By the store's `url` the child reaches it, unless that is an object of this process.
    `is_async`: whoever runs it is on an event loop, and gets something to await."""

    def __init__(
        self,
        place: Place,
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
        self._line: Line | None = None
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
        run.joined = True  # until the child says that it was not: one that is killed says nothing
        told = {"grant": spelled(run.grant), "store": self._url, "ends": run.ends, "exclusive": run.exclusive}
        self._line = line = Line(json.dumps({**self._call, **told}), lambda word: self._hear(run, word))
        words = python("cronce.runtime.processes.isolated_child:main", run.key)
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

    def stop(self, body: Body, run: Run, over: Over) -> None:
        if self._line is not None:
            self._line.tell(over=(over.cause, over.why))
        super().stop(body, run, over)

    def over(self, run: Run, result: Ended) -> Over | None:
        """A body that asks can know that its trust has ended before it was told."""
        return (run.over or NOT_RENEWED) if self._told.get("untrusted") else super().over(run, result)

    def ended(self, result: Ended) -> Ending:
        why = self._failure(result)
        return Ending(Outcome.FAILED if why else Outcome.SUCCEEDED, why, output=result.output)

    def value(self, result: Ended) -> Any:
        """What the function returned, if JSON can say it."""
        assert self._run is not None
        if why := self._failure(result):
            raise BodyFailed(f"{self._run.key} failed: {why}")
        if size := self._told.get("too_long"):
            raise BadInput(
                f"{self._run.key} succeeded, but its result is {size:,} bytes of JSON, and of a body in another process"
                f" at most {LONGEST:,} come back; let it put the result somewhere, and return where"
            )
        return self._told["returned"]

    def _failure(self, result: Ended) -> str:
        """A child that ends without a word has not returned, whatever its exit code says."""
        if "raised" in self._told:
            return str(self._told["raised"])
        if result.code:
            return in_words(result.code)
        return "" if "returned" in self._told else "exit code 0, but it had not returned"


def _until(grant: Grant) -> int:
    until = grant.cells[0].until
    assert until is not None
    return to_us(until)


def spelled(grant: Grant) -> dict[str, Any]:
    """A grant as a child is told of it; `isolated_child.read_grant` reads it."""
    return {
        "key": grant.key,
        "fence": str(grant.fence),
        "number": grant.number,
        "lease": grant.lease.total_seconds(),
        "trust": grant.trust.end,
        "until": _until(grant),
        "record": encode(grant.record),
    }
