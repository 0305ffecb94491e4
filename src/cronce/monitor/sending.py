"""Who sends: takes notices from a shelf of alerts to the destinations that this process has.

The shelf is the store's, or one of its own. Whoever looks after it calls `deliver` again and again, from one thread;
sending itself takes place in threads of their own, one notice at a time for each destination, so that a receiver that
hangs delays nobody but itself.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

from cronce.model import Boot
from cronce.monitor.alerts import Alerts, Claimed, IsOver, Standing, due
from cronce.monitor.destinations import SPARE, Callback, Destination, Document, Undelivered, reaches
from cronce.protocol.notices import Alert
from cronce.runtime.flow import Flow
from cronce.runtime.log import LOGGER
from cronce.stores import discreet

Do = Callable[[Flow[Any]], Any]

DIED: Final = "it did not come back in time"


class Sending(threading.Thread):
    """A notice on its way: what went wrong with it, if anything did, when it has `ended`."""

    def __init__(self, destination: Destination, said: Document, then: Callable[[], None]) -> None:
        super().__init__(name="cronce-notice", daemon=True)
        self._destination, self._said, self._then = destination, said, then
        self.trouble, self.ended = DIED, False
        self.start()

    def run(self) -> None:
        try:
            self._destination.send(self._said)
            self.trouble = ""
        except Undelivered as error:
            self.trouble = str(error)
        except BaseException as error:  # of somebody's function; its words may hold anything
            self.trouble = discreet(f"{type(error).__name__}: {error}")
        self.ended = True
        self._then()


class Sender:
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
        self._under_way: dict[str, tuple[Claimed, Boot, Sending]] = {}
        """By destination; each with the time after which nobody waits for it any more."""

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way."""
        return not self._under_way

    def settle(self, findings: Iterable[Alert], is_over: IsOver, *, anew: bool = False) -> None:
        self._do(self._alerts.settle(findings, is_over, anew=anew))

    def deliver(self) -> Standing:
        """Say what became of the notices that were sent, and send the next to whoever waits; which alerts there are."""
        for to, (claim, until, sending) in list(self._under_way.items()):
            if sending.ended or self._boot() >= until:
                self._do(self._alerts.conclude(claim, to, sent=not sending.trouble))
                del self._under_way[to]
                if sending.trouble:
                    LOGGER.warning("an alert could not be told, and will be tried again: %s", sending.trouble)
        seen: Standing = self._do(self._alerts.standing())
        for to, destination in self._destinations.items():
            if to not in self._under_way:
                self._send_next(to, destination, seen)
        return seen

    def part(self, alert: Alert, said: Document, seconds: float) -> None:
        """Say this to whoever was told of the alert, once, and wait for it no longer than that."""
        told = [to for to, one in alert.deliveries.items() if one.notice == "raised" and to in self._destinations]
        sendings = [Sending(self._destinations[to], said, lambda: None) for to in told]
        until = self._boot() + seconds
        for sending in sendings:
            sending.join(max(until - self._boot(), 0.0))
            if sending.ended and sending.trouble:
                LOGGER.warning("an alert could not be told: %s", sending.trouble)

    def _send_next(self, to: str, destination: Destination, seen: Standing) -> None:
        lasting = timedelta(seconds=destination.limit + SPARE)
        for one in seen.posted:
            if not reaches(one.alert.severity, destination.threshold) or due(one.alert, to, seen.now) is None:
                continue
            claim: Claimed | None = self._do(self._alerts.claim(one.cell.key, to, lasting))
            if claim is not None:
                until = self._boot() + destination.limit + SPARE / 2
                self._under_way[to] = claim, until, Sending(destination, self._describe(claim), self._wake)
                return


def told_apart(destinations: Iterable[Destination]) -> dict[str, Destination]:
    """By digest. One that is named twice is one; two functions of one name are two."""
    found: dict[str, Destination] = {}
    for one in destinations:
        digest = one.digest
        while isinstance(one, Callback) and digest in found:
            digest += "+"
        found[digest] = one
    return found
