"""The post of a process: it takes notices from a shelf of alerts to the destinations that this process has.

The shelf is the store's, or one of its own. Whoever looks after the post calls `deliver` again and again, from one
thread; sending itself takes place in threads of their own, one notice at a time for each destination, so that a
receiver that hangs delays nobody but itself.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, TypeVar

from cronce.model import Boot
from cronce.monitor.alerts import Alerts, Claimed, IsOver, Standing, due
from cronce.monitor.destinations import SPARE, Callback, Destination, Document, Undelivered, reaches
from cronce.monitor.model import Finding
from cronce.protocol.notices import Alert
from cronce.runtime.flow import Flow
from cronce.runtime.log import LOGGER
from cronce.stores import discreet

T = TypeVar("T")
Do = Callable[[Flow[Any]], Any]

DIED: Final = "it did not come back in time"


class Sending:
    """A notice on its way. `over` when it arrived, failed, or took so long that nobody waits for it any more."""

    def __init__(
        self, to: str, destination: Destination, claim: Claimed, said: Document, boot: Callable[[], Boot]
    ) -> None:
        self.to, self.claim = to, claim
        self.trouble = DIED
        self._destination, self._said, self._boot = destination, said, boot
        self._until = boot() + destination.limit + SPARE / 2
        self._ended = False

    def start(self, then: Callable[[], None]) -> "Sending":
        threading.Thread(target=self._send, args=[then], name="cronce-notice", daemon=True).start()
        return self

    @property
    def over(self) -> bool:
        return self._ended or self._boot() >= self._until

    def _send(self, then: Callable[[], None]) -> None:
        try:
            self._destination.send(self._said)
            self.trouble = ""
        except Undelivered as error:
            self.trouble = str(error)
        except BaseException as error:  # of somebody's function; its words may hold anything
            self.trouble = discreet(f"{type(error).__name__}: {error}")
        self._ended = True
        then()


class Post:
    def __init__(
        self,
        alerts: Alerts,
        destinations: Mapping[str, Destination],
        *,
        do: Do,
        describe: Callable[[Claimed], Document],
        boot: Callable[[], Boot],
        wake: Callable[[], None],
    ) -> None:
        self._alerts, self._destinations, self._do = alerts, destinations, do
        self._describe, self._boot, self._wake = describe, boot, wake
        self._on_their_way: list[Sending] = []

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way."""
        return not self._on_their_way

    def settle(self, findings: Iterable[Finding], is_over: IsOver, *, anew: bool = False) -> None:
        self._do(self._alerts.settle(findings, is_over, anew=anew))

    def deliver(self) -> Standing:
        """Say what became of the notices that were sent, and send the next to whoever waits; which alerts there are."""
        for one in [one for one in self._on_their_way if one.over]:
            self._do(self._alerts.conclude(one.claim, one.to, sent=not one.trouble))
            self._on_their_way.remove(one)
            if one.trouble:
                LOGGER.warning("an alert could not be told, and will be tried again: %s", one.trouble)
        seen: Standing = self._do(self._alerts.standing())
        busy = {one.to for one in self._on_their_way}
        for to, destination in self._destinations.items():
            if to not in busy:
                self._send_next(to, destination, seen)
        return seen

    def part(self, alert: Alert, said: Document, seconds: float) -> None:
        """Say this to whoever was told of the alert, once, and wait for it no longer than that."""
        told = [to for to, one in alert.deliveries.items() if one.notice == "raised" and to in self._destinations]
        threads = [threading.Thread(target=_try, args=[self._destinations[to], said], daemon=True) for to in told]
        until = self._boot() + seconds
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(until - self._boot(), 0.0))

    def _send_next(self, to: str, destination: Destination, seen: Standing) -> None:
        lasting = timedelta(seconds=destination.limit + SPARE)
        for one in seen.posted:
            if not reaches(one.alert.severity, destination.threshold) or due(one.alert, to, seen.now) is None:
                continue
            claim: Claimed | None = self._do(self._alerts.claim(one.cell.key, to, lasting))
            if claim is not None:
                sending = Sending(to, destination, claim, self._describe(claim), self._boot)
                self._on_their_way.append(sending.start(self._wake))
                return


def _try(destination: Destination, said: Document) -> None:
    try:
        destination.send(said)
    except Exception as error:
        LOGGER.warning("an alert could not be told: %s", discreet(f"{type(error).__name__}: {error}"))


def told_apart(destinations: Iterable[Destination]) -> dict[str, Destination]:
    """By digest. One that is named twice is one; two functions of one name are two."""
    found: dict[str, Destination] = {}
    for one in destinations:
        digest = one.digest
        while isinstance(one, Callback) and digest in found:
            digest += "+"
        found[digest] = one
    return found
