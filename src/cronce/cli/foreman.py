"""The foreman of `cronce run -n 3`: a process that does nothing but see to it that so many others run.

It starts one again that died, passes on what it is told, and reaps whoever is left to it: as process 1 of a container
it is the parent of every orphan there.

*A pipe to each, not a signal.* The Ctrl-C of a terminal and the stop of systemd reach all processes of a group by
themselves. A signal that is passed on would be the second for each of them, and stop at once what runs. Through its
pipe each hears what the foreman was told; and that the foreman is gone, since then the pipe ends.

*A fork, and no more.* The foreman has no threads, and has loaded nothing of what it runs.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final

from cronce.clock import SystemClock
from cronce.errors import BadInput
from cronce.model import Boot
from cronce.runtime.scheduling.scheduler import LAST, LEAST, Orders
from cronce.value import NamedTuple

HEARD: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
DRAIN, STOP_NOW = b"d", b"s"

FINAL: Final = (2, 78)
"""Exit codes after which another start would end the same way: the call makes no sense, or the store needs a person."""

UNHURT: Final = (0, -signal.SIGTERM, -signal.SIGINT)
"""How one may end that was told to: also by the signal itself, before it began."""

PAUSE: Final = 0.5
"""Seconds before one that died is started again; twice as long each time that the next dies young, too."""

LONGEST: Final = 30.0
GROWN: Final = 60.0
"""Seconds after which a process did not die young."""

MOST: Final = 1_000


class Member(NamedTuple):
    """One of those that run: the pipe to it, since when it runs, and how many before it died young."""

    rope: int
    since: Boot
    young: int


class Foreman:
    """`work` is what each process does: it returns an exit code."""

    def __init__(self, number: int, grace: float, work: Callable[[Orders], int]) -> None:
        if not 1 <= number <= MOST:
            raise BadInput(f"-n is 1 to {MOST:,}, and this is {number}")
        self._grace, self._work = grace, work
        self._boot = SystemClock().boot
        self._heard: SimpleQueue[int] = SimpleQueue()
        self._crew: dict[int, Member] = {}
        self._starts: list[tuple[Boot, int]] = [(0.0, 0)] * number
        self._told = 0
        self._kill_at = inf
        self._code = 0

    def run(self) -> int:
        """Until all have ended because they were told to. A member never comes back from here: it exits."""
        with self._listening():
            while self._crew or self._starts:
                self._start_due()
                self._hear()
                if self._boot() >= self._kill_at:
                    self._kill()
        return self._code

    @contextmanager
    def _listening(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._came) for number in HEARD}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _came(self, number: int, _frame: FrameType | None) -> None:
        self._heard.put(number)

    def _hear(self) -> None:
        until = min([self._kill_at, *(when for when, _ in self._starts)])
        with suppress(Empty):
            number = self._heard.get(timeout=None if until == inf else max(until - self._boot(), 0.0))
            if number == signal.SIGCHLD:
                self._reap()
            else:
                self._tell()

    # --- those that run ---

    def _start_due(self) -> None:
        now = self._boot()
        due = [start for start in self._starts if start[0] <= now]
        for start in due:
            self._starts.remove(start)
            self._start(start[1])

    def _start(self, young: int) -> None:
        """What a child still has of its parent, it loses before a signal can reach it."""
        inlet, rope = os.pipe()
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()  # else the child would print it, too
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
        pid = os.fork()
        if not pid:
            for number in HEARD:
                signal.signal(number, signal.SIG_DFL)
            for fd in (rope, *(member.rope for member in self._crew.values())):
                os.close(fd)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            sys.exit(self._as_member(inlet))
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.close(inlet)
        self._crew[pid] = Member(rope, self._boot(), young)

    def _as_member(self, inlet: int) -> int:
        orders = Orders()
        threading.Thread(target=_listen, args=(inlet, orders), name="cronce-foreman", daemon=True).start()
        return self._work(orders)

    def _reap(self) -> None:
        """Also of those that we never started."""
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                member = self._crew.pop(pid, None)
                if member is not None:
                    os.close(member.rope)
                    self._ended(pid, member, os.waitstatus_to_exitcode(status))

    def _ended(self, pid: int, member: Member, code: int) -> None:
        if self._told:
            self._code = self._code or (0 if code in UNHURT else 1)
        elif code in FINAL:
            self._code = code
            self._tell()
        else:
            young = member.young + 1 if self._boot() - member.since < GROWN else 1
            pause = min(PAUSE * 2 ** (young - 1), LONGEST)
            self._starts.append((self._boot() + pause, young))
            _say(f"process {pid} ended ({_in_words(code)}); another starts in {pause:g} s")

    # --- what they are told ---

    def _tell(self) -> None:
        """First to drain, from then on to stop now. Whoever does not end in time is killed."""
        self._told += 1
        self._starts.clear()
        left = self._grace + LEAST if self._told == 1 else LAST
        self._kill_at = min(self._kill_at, self._boot() + left + LEAST)
        for member in self._crew.values():
            with suppress(BrokenPipeError):
                os.write(member.rope, DRAIN if self._told == 1 else STOP_NOW)

    def _kill(self) -> None:
        self._kill_at, self._code = inf, 1
        for pid in self._crew:
            _say(f"process {pid} does not end; it is killed")
            os.kill(pid, signal.SIGKILL)


def _listen(inlet: int, orders: Orders) -> None:
    while word := os.read(inlet, 1):
        orders.give("drain" if word == DRAIN else "stop now")
    orders.give("drain")


def _in_words(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _say(text: str) -> None:
    print(f"cronce run: {text}", file=sys.stderr, flush=True)
