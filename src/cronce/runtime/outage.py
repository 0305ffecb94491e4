"""One line for each outage: while something is held and the store does not answer, a person should know, once.

A call that got no answer raises, and its caller hears of it. But a body that works, and whose lease cannot be renewed,
has nobody to raise to. Renewing is tried again many times in an outage, by several threads, and each try is one failure
of the same.
"""

import threading
from datetime import timedelta

from cronce.events import Event, What
from cronce.model import Boot
from cronce.runtime.desk import Desk
from cronce.schedule import format_duration


class Outage:
    """Whether the store answers this process."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._lock = threading.Lock()
        self._since: Boot | None = None
        self.heard: Boot = float("-inf")
        """When it last answered."""

    def unanswered(self, began: Boot, why: str) -> None:
        """A call that began then got no answer. One that began before the last answer came tells nothing new: it is of
        an outage that is over, and if there is another the next call will tell."""
        with self._lock:
            news = self._since is None and began > self.heard
            if news:
                self._since = began
        if news:
            self._tell(What.SILENT, f"{why}; what runs here goes on while its lease can be trusted")

    def answered(self) -> None:
        boot = self._desk.clock.boot()
        with self._lock:
            since, self._since = self._since, None
            self.heard = boot
        if since is not None:
            self._tell(What.ANSWERS, f"after {format_duration(timedelta(seconds=round(boot - since, 1)))}")

    def _tell(self, what: What, detail: str) -> None:
        desk = self._desk
        desk.ledger.carrier.report(Event(what, "the store", desk.holder, desk.ledger.know.now(), detail=detail))
