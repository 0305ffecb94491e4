"""Pings for a service that raises an alarm when they stay away, such as healthchecks.io.

    https://hc.example/ping/UUID/{job}      a run started: …/start   it succeeded: nothing   it failed: …/fail, and why

Each carries `rid`, a UUID made of the slot's key and the fence of the run: the service tells by it which start belongs
to which end. A failure is sent when it is final. A slot that closed as lost or unknown has failed, too; the process
that closed it sends that.

No run waits for a ping: a thread sends them from a queue. When the receiver is away and the queue is full the oldest
are dropped, and the log says how many.
"""

import os
import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from cronce.errors import BadInput
from cronce.events import Event, What
from cronce.model import Fence, Slot, slot_of_cell
from cronce.stores import discreet
from cronce.value import NamedTuple

if TYPE_CHECKING:
    from urllib.parse import SplitResult

PINGS_QUEUED: Final = 1000
FAILED: Final = ("failed", "lost", "unknown")
LONGEST_BODY: Final = 10_000


class Ping(NamedTuple):
    """What happened to a run of a job: "start", "" for a success, or "fail" and why."""

    job: str
    sign: str
    rid: str = ""
    """Empty: there was no run."""
    why: str = ""


def ping_of(event: Event) -> Ping | None:
    """What an event means to a service of this kind; most mean nothing."""
    if event.what not in (What.STARTED, What.CLOSED) or event.fence is None or not event.key.startswith("run/"):
        return None
    slot = slot_of_cell(event.key)
    rid = run_id(slot, event.fence)
    match event.what:
        case What.STARTED:
            return Ping(slot.job, "start", rid)
        case What.CLOSED if event.outcome == "succeeded":
            return Ping(slot.job, "", rid)
        case What.CLOSED if event.outcome in FAILED:
            return Ping(slot.job, "fail", rid, f"{slot.key} {event.detail}")
        case _:
            return None


def run_id(slot: Slot, fence: Fence) -> str:
    from uuid import NAMESPACE_URL, uuid5  # noqa: PLC0415  `cronce exec` comes by

    return str(uuid5(NAMESPACE_URL, f"{slot.key} {fence}"))


def check_ping(template: str) -> str:
    """A URL for pings, checked: `{job}` stands for the name of the job."""
    from cronce.monitor.destinations import read_url  # noqa: PLC0415

    read_url("a ping", template.replace("{job}", "job"))
    if "{" in template.replace("{job}", ""):
        raise BadInput("the URL for pings may have {job}, the name of the job, and nothing else in braces")
    return template


def send_ping(template: str, ping: Ping) -> None:
    """One ping, now; raises `Undelivered`."""
    from cronce.monitor.destinations import post  # noqa: PLC0415

    why = discreet(ping.why).encode(errors="replace")[:LONGEST_BODY]
    post(_place(template, ping), why, "text/plain; charset=utf-8")


def ping_after(template: str, job: str, events: Sequence[Event], trouble: str, *, only_seen: bool = False) -> str:
    """What a process that runs one command says when that is over: how it closed, or what kept it from running. Nothing
    if another runs it, unless it is only observed. What went wrong with the ping, if anything did."""
    from cronce.monitor.destinations import Undelivered  # noqa: PLC0415

    pings = [ping for event in events if (ping := ping_of(event)) is not None and ping.sign != "start"]
    if trouble:
        pings.append(Ping(job, "fail", why=trouble))
    elif only_seen:
        pings.append(Ping(job, ""))
    try:
        for last in pings[-1:]:
            send_ping(template, last)
    except Undelivered as error:
        return f"the ping failed: {error}"
    return ""


def _place(template: str, ping: Ping) -> "SplitResult":
    from urllib.parse import quote, urlencode, urlsplit  # noqa: PLC0415

    parts = urlsplit(template.replace("{job}", quote(ping.job, safe="")))
    path = parts.path.rstrip("/") + (f"/{ping.sign}" if ping.sign else "")
    query = "&".join(filter(None, (parts.query, urlencode({"rid": ping.rid}) if ping.rid else "")))
    return parts._replace(path=path, query=query)


class Pinger:
    """Give its `hear` to `Cronce.on_event`."""

    def __init__(self, template: str) -> None:
        self._template = check_ping(template)
        self._line: deque[Ping] = deque(maxlen=PINGS_QUEUED)
        self._news = threading.Condition()
        self._process = os.getpid()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._dropped = 0

    def hear(self, event: Event) -> None:
        ping = ping_of(event) if os.getpid() == self._process else None  # a forked child has no pinger
        if ping is None:
            return
        with self._news:
            if len(self._line) == self._line.maxlen:
                self._dropped += 1
            self._line.append(ping)
            if self._thread is None:
                thread = threading.Thread(target=self._send_all, name="cronce-pings", daemon=True)
                thread.start()
                self._thread = thread  # it waits for us before it looks; without a thread the next event asks again
            self._news.notify_all()

    def close(self, seconds: float) -> None:
        """Send what stands in line, for so long at most."""
        with self._news:
            self._closing = True
            self._news.notify_all()
        if self._thread is not None:
            self._thread.join(seconds)

    def _send_all(self) -> None:
        from cronce.monitor.destinations import Undelivered  # noqa: PLC0415
        from cronce.runtime.log import LOGGER  # noqa: PLC0415

        while (ping := self._next()) is not None:
            try:
                send_ping(self._template, ping)
            except Undelivered as error:
                LOGGER.warning("a ping for %s failed: %s", ping.job, error)
            except Exception:
                LOGGER.exception("a ping for %s could not be sent", ping.job)

    def _next(self) -> Ping | None:
        """The next in line, when there is one; None: there will be none."""
        from cronce.runtime.log import LOGGER  # noqa: PLC0415

        with self._news:
            dropped, self._dropped = self._dropped, 0
            if dropped:
                LOGGER.warning("%d pings were not sent: their receiver does not answer, or is too slow", dropped)
            self._news.wait_for(lambda: self._line or self._closing)
            return self._line.popleft() if self._line else None
