"""The health of the processes of `cronce run`: each writes it to memory that all share, and one answers /healthz,
/readyz and /metrics over HTTP.

Each notes, every second, when its scheduler last came round and when the store last answered. One that is stopped, or
whose interpreter hangs in C, notes nothing, and is told by that.

*Alive*: none of them hangs. One that died is being replaced, which is no reason to end the others; nor is a store that
does not answer. *Ready*: all run, are registered, hear from their store, claim, and have a worker left: one whose job
function was told to stop and still runs does not count.

*Nothing else is shown*: the words that stand here, and numbers by the names of jobs. No URLs, no hosts, no errors: it
may be asked from other machines.
"""

import mmap
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from cronce.cli.listening import HttpProcess, listening, read_address
from cronce.clock import SystemClock
from cronce.model import Boot
from cronce.monitor.metrics import (
    CONTENT_TYPE,
    Metrics,
    ProcessSnapshots,
    Snapshot,
    Values,
    exposition,
    merged,
    without_gauges,
)
from cronce.runtime.app import Cronce
from cronce.runtime.log import LOGGER
from cronce.runtime.scheduling.scheduler import Scheduler, SchedulerHealth

_boot: Final = SystemClock().boot

STUCK_AFTER: Final = 60.0
"""Seconds without coming round after which a scheduler hangs. A store that gives no answer takes up half of it."""

ANSWER_FRESH: Final = 15.0
"""Seconds for which an answer of the store is news. It is asked something every other second."""

PULSE: Final = 1.0
"""Seconds between two notes."""

PROBE_TIMEOUT: Final = 5.0
"""Seconds that a client has to send its request."""

_NOTE: Final = struct.Struct("=dd????4x")

_NO_SCHEDULER: Final = SchedulerHealth(0.0, 0.0, joined=False, claims=False)


class ProcessHealth:
    """What the processes note, each in a place of its own: how they are, and what they count. Made before they are."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._memory = mmap.mmap(-1, number * _NOTE.size)
        self._slates = ProcessSnapshots(number)

    def note(self, place: int, vitals: SchedulerHealth) -> None:
        _NOTE.pack_into(self._memory, place * _NOTE.size, *vitals)

    def begin(self, place: int) -> None:
        """A process is started, and has so long to come round for the first time."""
        self.note(place, _NO_SCHEDULER._replace(ticked=_boot()))

    def clear(self, place: int) -> None:
        self.note(place, _NO_SCHEDULER)

    def read(self) -> list[SchedulerHealth]:
        return [SchedulerHealth(*_NOTE.unpack_from(self._memory, place * _NOTE.size)) for place in range(self.number)]

    def watch(self, place: int, cron: Cronce) -> Callable[[Scheduler], None]:
        """Count what an application does, on from where the one that had this place before stopped; noted beside how
        its scheduler is."""
        before = self._slates.read(place)
        metrics = Metrics(cron, before.values if before else None)
        return partial(self._pulse, place, metrics)

    def _pulse(self, place: int, metrics: Metrics, scheduler: Scheduler) -> None:
        """Note how the scheduler is and what was counted, until it is gone; then what was counted a last time."""
        gone = threading.Event()

        def beat() -> None:
            while True:
                self.note(place, scheduler.vitals)
                self._note_counts(place, metrics)
                if gone.wait(PULSE):
                    return

        def end(_scheduler: Scheduler) -> None:
            gone.set()
            thread.join(PULSE)
            self._note_counts(place, metrics)

        thread = threading.Thread(target=beat, name="cronce-pulse", daemon=True)
        thread.start()
        scheduler.when_gone(end)

    def _note_counts(self, place: int, metrics: Metrics) -> None:
        """A process whose metrics cannot be read is still alive."""
        try:
            self._slates.write(place, Snapshot(_boot(), metrics.read()))
        except Exception:
            LOGGER.exception("the metrics of this process cannot be read")

    def metrics(self) -> str:
        """What all of them count together, as Prometheus reads it."""
        return exposition(merged(self._counted(_boot())))

    def _counted(self, now: Boot) -> Iterator[Values]:
        """Of one that is gone, or has said nothing lately, only what it has counted."""
        for place, one in enumerate(self.read()):
            snapshot = self._slates.read(place)
            if snapshot is not None:
                here = one.joined and now - snapshot.at <= ANSWER_FRESH
                yield snapshot.values if here else without_gauges(snapshot.values)


# --- judged -----------------------------------------------------------------------------------------------------------


def hangs(crew: Sequence[SchedulerHealth], now: Boot) -> str:
    """Why it is not alive; empty: it is."""
    stuck = [now - one.ticked for one in crew if one.ticked and now - one.ticked > STUCK_AFTER]
    return f"{len(stuck)} of {len(crew)} processes have hung, for {max(stuck):.0f} s" if stuck else ""


def not_ready(crew: Sequence[SchedulerHealth], now: Boot) -> str:
    """Why it is not ready; empty: it is."""
    return hangs(crew, now) or next(filter(None, (_obstacle(one, now) for one in crew)), "")


def _obstacle(one: SchedulerHealth, now: Boot) -> str:
    if not one.ticked:
        return "a process has died, and will be replaced"
    if not one.joined:
        return "not registered yet"
    if not one.claims:
        return "takes no new work"
    if one.no_worker:
        return "no worker is free: each is busy with a run that was told to stop and still runs"
    if one.doubts:
        return "the store's clock is not trusted"
    return f"the store has not answered for {now - one.answered:.0f} s" if now - one.answered > ANSWER_FRESH else ""


# --- told over HTTP ---------------------------------------------------------------------------------------------------


class ProbeProcess(HttpProcess):
    def __init__(self, address: str, health: ProcessHealth) -> None:
        offers = "/healthz and /readyz report their health, /metrics their counters"
        super().__init__(listening(*read_address(address)), offers)
        self._health = health

    def answer(self) -> None:
        _Server(self._socket, self._health).serve_forever()


class _Server(ThreadingHTTPServer):
    def __init__(self, listening: socket.socket, health: ProcessHealth) -> None:
        super().__init__(("", 0), _ProbeHandler, bind_and_activate=False)
        self.socket.close()
        self.socket, self.health = listening, health

    def handle_error(self, *_: object) -> None:
        """A client may hang up."""


class _ProbeHandler(BaseHTTPRequestHandler):
    server: _Server
    timeout = PROBE_TIMEOUT

    def do_GET(self) -> None:
        health = self.server.health
        match self.path.partition("?")[0]:
            case "/healthz":
                self._judged(hangs(health.read(), _boot()))
            case "/readyz":
                self._judged(not_ready(health.read(), _boot()))
            case "/metrics":
                self._say(HTTPStatus.OK, health.metrics(), CONTENT_TYPE)
            case _:
                self._say(HTTPStatus.NOT_FOUND, "not found; try /healthz, /readyz or /metrics\n")

    do_HEAD = do_GET  # noqa: N815

    def _judged(self, trouble: str) -> None:
        self._say(HTTPStatus.SERVICE_UNAVAILABLE if trouble else HTTPStatus.OK, f"{trouble or 'ok'}\n")

    def _say(self, status: HTTPStatus, text: str, kind: str = "text/plain; charset=utf-8") -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        return "cronce"

    def log_message(self, *_: object) -> None:
        """No log line for each probe."""
