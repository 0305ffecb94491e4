"""The foreman of `cronce run -n 3`: a process that does nothing but see to it that so many others run.

It starts one again that died, passes on what it is told, and reaps whoever is left to it: as process 1 of a container
it is the parent of every orphan there. So it does with those beside them, who show the page and answer probes.

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
from functools import partial
from math import inf
from queue import Empty, SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Final

from cronce.cli.health import Page
from cronce.cli.words import say
from cronce.clock import SystemClock
from cronce.errors import BadInput
from cronce.model import Boot
from cronce.runtime.app import Cronce
from cronce.runtime.scheduling.scheduler import LAST, LEAST, Orders, Scheduler, Signals
from cronce.value import NamedTuple

if TYPE_CHECKING:
    from cronce.cli.attendant import Attendant
    from cronce.cli.doorkeeper import Doorkeeper
    from cronce.cli.usher import Usher

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

Watch = Callable[[Cronce], Callable[[Scheduler], None]]
"""Told of an application before it starts, so that all is counted, and of its scheduler as soon as there is one."""


def unwatched(_cron: Cronce) -> Callable[[Scheduler], None]:
    """Nobody asks how it is."""
    return lambda _scheduler: None


class Member(NamedTuple):
    """One of those that run: its place, the pipe to it, since when it runs, and how many before it died young."""

    place: int
    rope: int
    since: Boot
    young: int


class Start(NamedTuple):
    """One that is to run: from when on, and how many in its place died young."""

    place: "int | Attendant"
    due: Boot = 0.0
    young: int = 0


class Beside(NamedTuple):
    """One that answers beside them: since when, and how many before it died young."""

    attendant: "Attendant"
    since: Boot
    young: int


class Foreman:
    """`work` is what each process does: it returns an exit code, and says which scheduler to watch. `health` is where
    to tell how they all are, `usher` whoever shows the page."""

    def __init__(
        self,
        number: int,
        grace: float,
        work: Callable[[Orders, Watch], int],
        health: str | None = None,
        usher: "Usher | None" = None,
    ) -> None:
        if not 1 <= number <= MOST:
            raise BadInput(f"-n is 1 to {MOST:,}, and this is {number}")
        self._grace, self._work = grace, work
        self._page = Page(number)
        self._usher = usher
        self._door = None if health is None else _doorkeeper(health, self._page)
        self._attendants: list[Attendant] = [one for one in (self._usher, self._door) if one is not None]
        self._boot = SystemClock().boot
        self._heard: SimpleQueue[int] = SimpleQueue()
        self._crew: dict[int, Member] = {}
        self._beside: list[Beside] = []
        self._starts = [*map(Start, self._attendants), *map(Start, range(number))]
        self._signals, self._told = Signals(), 0
        self._kill_at = inf
        self._code = 0

    def run(self) -> int:
        """Until all have ended because they were told to. A member never comes back from here: it exits."""
        with self._listening():
            if self._usher is not None:
                say("run", f"{self._usher.url} is the page")
            if self._door is not None:
                say("run", f"{self._door.url}/healthz and /readyz tell how they are, /metrics what they count")
            while self._crew or self._starts:
                self._start_due()
                self._hear()
                if self._boot() >= self._kill_at:
                    self._kill()
        for attendant in self._attendants:
            attendant.close()
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
        until = min([self._kill_at, *(start.due for start in self._starts)])
        with suppress(Empty):
            number = self._heard.get(timeout=None if until == inf else max(until - self._boot(), 0.0))
            if number == signal.SIGCHLD:
                self._reap()
            else:
                self._tell(number)

    # --- those that run ---

    def _start_due(self) -> None:
        now = self._boot()
        due = [start for start in self._starts if start.due <= now]
        for start in due:
            self._starts.remove(start)
            if isinstance(start.place, int):
                self._start(start.place, start.young)
            else:
                self._open(start.place, start.young)

    def _open(self, attendant: "Attendant", young: int) -> None:
        others = [other for other in self._attendants if other is not attendant]
        attendant.open(others, [member.rope for member in self._crew.values()])
        self._beside.append(Beside(attendant, self._boot(), young))

    def _start(self, place: int, young: int) -> None:
        """What a child still has of its parent, it loses before a signal can reach it."""
        inlet, rope = os.pipe()
        for stream in filter(None, (sys.stdout, sys.stderr)):
            with suppress(OSError):
                stream.flush()  # else the child would print it, too
        self._page.begin(place, self._boot())
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
        pid = os.fork()
        if not pid:
            for number in HEARD:
                signal.signal(number, signal.SIG_DFL)
            for fd in (rope, *(member.rope for member in self._crew.values())):
                os.close(fd)
            for attendant in self._attendants:
                attendant.shut()
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            sys.exit(self._as_member(inlet, place))
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.close(inlet)
        self._crew[pid] = Member(place, rope, self._boot(), young)

    def _as_member(self, inlet: int, place: int) -> int:
        orders = Orders()
        threading.Thread(target=_listen, args=(inlet, orders), name="cronce-foreman", daemon=True).start()
        return self._work(orders, partial(self._door.counts.watch, place) if self._door else unwatched)

    def _reap(self) -> None:
        """Also of those that we never started."""
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, code = ended[0], os.waitstatus_to_exitcode(ended[1])
                member = self._crew.pop(pid, None)
                if member is not None:
                    os.close(member.rope)
                    self._ended(pid, member, code)
                for beside in [one for one in self._beside if one.attendant.is_process(pid)]:
                    self._beside.remove(beside)
                    self._left(pid, beside, code)

    def _left(self, pid: int, beside: Beside, code: int) -> None:
        attendant, how = beside.attendant, f"process {pid} ended ({_in_words(code)})"
        if self._told:
            attendant.shut()
            say("run", f"{how}, and nobody answers at {attendant.url} any more")
        else:
            self._replace(f"{how}, and nobody answers at {attendant.url}", attendant, beside)

    def _ended(self, pid: int, member: Member, code: int) -> None:
        self._page.clear(member.place)
        if self._told:
            self._code = self._code or (0 if code in UNHURT else 1)
        elif code in FINAL:
            self._code = code
            self._tell(signal.SIGCHLD)
        else:
            self._replace(f"process {pid} ended ({_in_words(code)})", member.place, member)

    def _replace(self, how: str, place: "int | Attendant", one: Member | Beside) -> None:
        """Later each time that one in its place dies young."""
        young = one.young + 1 if self._boot() - one.since < GROWN else 1
        pause = min(PAUSE * 2 ** (young - 1), LONGEST)
        self._starts.append(Start(place, self._boot() + pause, young))
        say("run", f"{how}; another starts in {pause:g} s")

    # --- what they are told ---

    def _tell(self, why: int) -> None:
        """At the first signal to drain, from then on to stop now. Whoever does not end in time is killed."""
        self._told = self._signals.another(why)
        for start in self._starts:
            if not isinstance(start.place, int):  # nobody will come to its door any more
                start.place.shut()
        self._starts.clear()
        left = self._grace + LEAST if self._told == 1 else LAST
        self._kill_at = min(self._kill_at, self._boot() + left + LEAST)
        for member in self._crew.values():
            with suppress(BrokenPipeError):
                os.write(member.rope, DRAIN if self._told == 1 else STOP_NOW)

    def _kill(self) -> None:
        self._kill_at, self._code = inf, 1
        for pid in self._crew:
            say("run", f"process {pid} does not end; it is killed")
            os.kill(pid, signal.SIGKILL)


def _doorkeeper(address: str, page: Page) -> "Doorkeeper":
    from cronce.cli.doorkeeper import Doorkeeper  # noqa: PLC0415  a web server, which most have no use for

    return Doorkeeper(address, page)


def _listen(inlet: int, orders: Orders) -> None:
    while word := os.read(inlet, 1):
        orders.give("drain" if word == DRAIN else "stop now")
    orders.give("drain")


def _in_words(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
