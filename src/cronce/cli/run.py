"""cronce run: run the jobs of an application, in as many processes as you like.

With several, a foreman starts them: a process that only keeps the others running. It replaces one that died, passes
signals on, and reaps every child: as process 1 of a container it is the parent of every orphan there. It does the same
for the processes that show the page and answer probes.

*A pipe to each, not a signal.* The Ctrl-C of a terminal and the stop of systemd reach all processes of a group by
themselves. A signal that is passed on would be the second for each of them, and stop at once what runs. Through its
pipe each hears what the foreman was told; and that the foreman is gone, since then the pipe ends.

*A fork, and no more.* The foreman has no threads, and does not load the application."""

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, NoReturn

from cronce.cli import Arguments, let_go, on_signals, refuse_outside, say
from cronce.cli.listening import HttpProcess
from cronce.cli.ui import PageProcess
from cronce.cli.watch import ALERT_ARGUMENTS, monitored, told
from cronce.clock import SystemClock
from cronce.errors import BadInput
from cronce.model import Boot
from cronce.monitor.logs import install
from cronce.monitor.tracing import trace_if_configured
from cronce.runtime.app import Cronce
from cronce.runtime.app_loading import load
from cronce.runtime.log import LOGGER
from cronce.runtime.scheduling.scheduler import MIN_GRACE, STOP_SECONDS, Orders, Scheduler, Signals, see_through
from cronce.schedule import parse_duration
from cronce.value import NamedTuple

if TYPE_CHECKING:
    from cronce.cli.health import ProcessHealth

MAX_PROCESSES: Final = 1_000

RUN_DESCRIPTION: Final = """\
Run the jobs of an application: cronce run app:cron, for `cron = Cronce(…)` in app.py. Start it wherever and as often as
you like: each slot runs once, and the work is shared by all processes.

TERM or Ctrl-C ends it: it takes no new work, and waits for its runs. A run that has not ended near the end of --grace
is stopped: it is closed as failed, or with on_lost="rerun" taken over by another process at once. A second signal stops
all runs at once.

exit codes: 0 all runs are recorded; 1 a run could not be recorded, or not be stopped; 2 the options are wrong; 75 the
store cannot be reached; 78 the store cannot be used; the message says why."""

RUN_EPILOG: Final = """
examples:
  cronce run app:cron
  cronce run shop.jobs:cron -n 3 --workers 20
  cronce run app:cron --role schedule     only finds what is due; other processes run it
  cronce run app:cron --role work         only runs what others found due
  cronce run app:cron --label colour=blue
"""


RUN_ARGUMENTS: Final[Arguments] = {
    "app: MODULE:OBJECT": "the Cronce object: app:cron, shop.jobs:cron",
    "number: -n N": (1, "the number of processes; one that dies is replaced"),
    "--role {both,schedule,work}": ("both", "find what is due, run it, or both (the default)"),
    "--workers N": (10, "how many runs at the same time, in each process (default: 10)"),
    "--grace SPAN": ("30s", "the longest time from TERM to the end (default: 30s)"),
    "--label NAME=VALUE": ([], "a label for `cronce pause --label`; repeatable"),
    "--allow PATTERN": ([], "which functions and commands jobs in the store may run; repeatable"),
    "--health ADDR": "answer /healthz, /readyz and /metrics: 8080 (loopback only), 0.0.0.0:8080",
    "--ui ADDR": "show the page there: 8080 (loopback only); elsewhere it needs a token",
    "--ui-token-file FILE": "a file with the token for acting on the page (or $CRONCE_UI_TOKEN)",
    "--ui-name HOST": ([], "a host name the page is reached by; repeatable"),
    "--store URL": "use this store instead of the application's",
    "--log-json": "log one JSON object a line",
    "-v, --verbose": "log every claim",
    **ALERT_ARGUMENTS,
}


def run_run(options: argparse.Namespace) -> int:
    try:
        return _run(options)
    finally:
        let_go()


def _run(options: argparse.Namespace) -> int:
    labels(options.label)  # before anything is started
    told(options)
    grace = parse_duration(options.grace).total_seconds()
    if options.number == 1 and os.getpid() != 1 and options.health is None and options.ui is None:
        return _work(options, None, Orders(), 0)
    refuse_outside("-n", options.number, MAX_PROCESSES)
    servers, health = list[HttpProcess](), None
    if options.ui is not None:
        servers.append(PageProcess(options))
    if options.health is not None:
        from cronce.cli.health import ProbeProcess, ProcessHealth  # noqa: PLC0415  a web server, which most have no use for

        health = ProcessHealth(options.number)
        servers.append(ProbeProcess(options.health, health))
    return ProcessManager(options.number, grace, partial(_work, options, health), servers, health).run()


def _work(options: argparse.Namespace, health: "ProcessHealth | None", orders: Orders, place: int) -> int:
    cron = load(options.app)
    if options.store is not None:
        cron.use(options.store)
    _log(verbose=options.verbose, as_json=options.log_json)
    trace_if_configured(cron)
    watch = health.watch(place, cron) if health else None  # before it starts, so that all is counted
    with orders, cron, monitored(cron, told(options)):
        scheduler = cron.start(
            role=options.role,
            workers=options.workers,
            grace=options.grace,
            labels=labels(options.label),
            allow=options.allow,
        )
        _refuse_private(cron, scheduler, options)
        if watch:
            watch(scheduler)
        _say(f"cronce run: {_described(cron, scheduler, options)}\n")
        recorded = see_through(scheduler, orders)
    return 0 if recorded else _leave()


def _refuse_private(cron: Cronce, scheduler: Scheduler, options: argparse.Namespace) -> None:
    if scheduler.traits.shared:
        return
    if options.number > 1:
        raise BadInput(
            f"{cron.place} exists only in one process, so each of {options.number} would run everything; name another"
        )
    if options.ui is not None:
        raise BadInput(
            f"{cron.place} exists only in one process, so the page of --ui would not see it; name another store"
        )


def _described(cron: Cronce, scheduler: Scheduler, options: argparse.Namespace) -> str:
    jobs = "1 job" if len(cron.works) == 1 else f"{len(cron.works)} jobs"
    if not cron.works and not options.allow:
        jobs += " (import the modules that declare them)"
    return f"{options.app} on {cron.place}, {jobs}, role {options.role}, as {scheduler.holder}"


def _say(line: str) -> None:
    """In one write, since other processes of -n print to the same screen. It may fail: output is not the job."""
    if sys.stdout is not None:
        with suppress(OSError):
            sys.stdout.write(line)
            sys.stdout.flush()


def _log(*, verbose: bool, as_json: bool) -> None:
    """To stderr, what the jobs log from INFO on too, unless the application has said otherwise."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    if as_json:
        install(json=True)
    LOGGER.setLevel(logging.DEBUG if verbose else logging.INFO)


def _leave() -> NoReturn:
    """A job function still runs, or the store hangs: do not wait for their threads."""
    let_go()
    os._exit(1)


def labels(given: list[str]) -> dict[str, str]:
    pairs = {name: value for name, equals, value in (one.partition("=") for one in given) if equals}
    if len(pairs) < len(given):
        raise BadInput(
            f"a label must be NAME=VALUE, each name once, such as --label colour=blue, not {', '.join(given)}"
        )
    return pairs


# --- the foreman ------------------------------------------------------------------------------------------------------

HEARD: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
DRAIN, STOP_NOW = b"d", b"s"

FINAL: Final = (2, 78)
"""Exit codes after which another start would end the same way: the call makes no sense, or the store needs a person."""

UNHURT: Final = (0, -signal.SIGTERM, -signal.SIGINT)
"""Good ends of a process that was told to end: also by the signal itself, before it began."""

RESTART_PAUSE: Final = 0.5
"""Seconds before one that died is started again; twice as long each time that the next dies young, too."""

LONGEST_RESTART_DELAY: Final = 30.0
GROWN: Final = 60.0
"""Seconds after which a process did not die young."""


class ProcessPlace(NamedTuple):
    """Where a process runs or is to run: a member, by its number and with a pipe to it, or a server beside them. Since
    when, or from when on; and how many in this place died young."""

    of: int | HttpProcess
    at: Boot = 0.0
    young: int = 0
    rope: int = -1


class ProcessManager:
    """Each of `number` processes calls `work` with its orders and its number, and exits with what that returns. The
    `servers` are processes beside them; `health` is where the processes record how they are."""

    def __init__(
        self,
        number: int,
        grace: float,
        work: Callable[[Orders, int], int],
        servers: Sequence[HttpProcess],
        health: "ProcessHealth | None",
    ) -> None:
        self._grace, self._work, self._servers, self._health = grace, work, servers, health
        self._boot = SystemClock().boot
        self._heard: SimpleQueue[int] = SimpleQueue()
        self._running: dict[int, ProcessPlace] = {}
        self._starts = list(map(ProcessPlace, (*servers, *range(number))))
        self._signals, self._told = Signals(), 0
        self._kill_at = inf
        self._code = 0

    def run(self) -> int:
        """Until all have ended because they were told to. A member never comes back from here: it exits."""
        with on_signals(HEARD, lambda number, _frame: self._heard.put(number)):
            for server in self._servers:
                say("run", server.announcement)
            while self._crew or self._starts:
                self._start_due()
                self._hear()
                if self._boot() >= self._kill_at:
                    self._kill()
        for server in self._servers:
            server.close()
        return self._code

    def _hear(self) -> None:
        until = min([self._kill_at, *(start.at for start in self._starts)])
        with suppress(Empty):
            number = self._heard.get(timeout=None if until == inf else max(until - self._boot(), 0.0))
            if number == signal.SIGCHLD:
                self._reap()
            else:
                self._tell(number)

    # --- those that run ---

    @property
    def _crew(self) -> dict[int, ProcessPlace]:
        """The members among those that run."""
        return {pid: place for pid, place in self._running.items() if isinstance(place.of, int)}

    @property
    def _ropes(self) -> list[int]:
        return [member.rope for member in self._crew.values()]

    def _start_due(self) -> None:
        now = self._boot()
        for place in [start for start in self._starts if start.at <= now]:
            self._starts.remove(place)
            if isinstance(place.of, int):
                pid, rope = self._start(place.of)
            else:
                others = [server for server in self._servers if server is not place.of]
                pid, rope = place.of.open(others, self._ropes), -1
            self._running[pid] = place._replace(at=now, rope=rope)

    def _start(self, place: int) -> tuple[int, int]:
        """Start a member, and say which process it is and what is the pipe to it. What a child still has of its parent,
        it loses before a signal can reach it."""
        inlet, rope = os.pipe()
        for stream in filter(None, (sys.stdout, sys.stderr)):
            with suppress(OSError):
                stream.flush()  # else the child would print it, too
        if self._health:
            self._health.begin(place)
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
        pid = os.fork()
        if not pid:
            for number in HEARD:
                signal.signal(number, signal.SIG_DFL)
            for fd in (rope, *self._ropes):
                os.close(fd)
            for server in self._servers:
                server.shut()
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            sys.exit(self._as_member(inlet, place))
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.close(inlet)
        return pid, rope

    def _as_member(self, inlet: int, place: int) -> int:
        orders = Orders()
        threading.Thread(target=_listen, args=(inlet, orders), name="cronce-foreman", daemon=True).start()
        return self._work(orders, place)

    def _reap(self) -> None:
        """Also children that this process did not start."""
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, code = ended[0], os.waitstatus_to_exitcode(ended[1])
                if pid in self._running:
                    how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
                    self._ended(self._running.pop(pid), code, f"process {pid} ended ({how})")

    def _ended(self, place: ProcessPlace, code: int, how: str) -> None:
        if isinstance(place.of, HttpProcess):
            how += f", and no server answers at {place.of.url}"
            if self._told:
                place.of.shut()
                say("run", f"{how} any more")
            else:
                self._replace(place, how)
            return
        os.close(place.rope)
        if self._health:
            self._health.clear(place.of)
        if self._told:
            self._code = self._code or (0 if code in UNHURT else 1)
        elif code in FINAL:
            self._code = code
            self._tell(signal.SIGCHLD)
        else:
            self._replace(place, how)

    def _replace(self, place: ProcessPlace, how: str) -> None:
        """Later each time that one in its place dies young."""
        young = place.young + 1 if self._boot() - place.at < GROWN else 1
        pause = min(RESTART_PAUSE * 2 ** (young - 1), LONGEST_RESTART_DELAY)
        self._starts.append(ProcessPlace(place.of, self._boot() + pause, young))
        say("run", f"{how}; another starts in {pause:g} s")

    # --- what they are told ---

    def _tell(self, why: int) -> None:
        """The first signal means drain, a later one stop now. A process that does not end in time is killed."""
        self._told = self._signals.another(why)
        for start in self._starts:
            if isinstance(start.of, HttpProcess):  # it will not be started again
                start.of.shut()
        self._starts.clear()
        left = self._grace + MIN_GRACE if self._told == 1 else STOP_SECONDS
        self._kill_at = min(self._kill_at, self._boot() + left + MIN_GRACE)
        for rope in self._ropes:
            with suppress(BrokenPipeError):
                os.write(rope, DRAIN if self._told == 1 else STOP_NOW)

    def _kill(self) -> None:
        self._kill_at, self._code = inf, 1
        for pid in self._crew:
            say("run", f"process {pid} did not end in time, and is killed")
            os.kill(pid, signal.SIGKILL)


def _listen(inlet: int, orders: Orders) -> None:
    while word := os.read(inlet, 1):
        orders.give("drain" if word == DRAIN else "stop now")
    orders.give("drain")
