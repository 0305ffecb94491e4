"""Those who want to know what happens. None of them has a say: whoever hears it badly must not keep a slot from
running."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from cronce.events import Event
from cronce.runtime.current import Around, around_nothing
from cronce.runtime.log import LOGGER, Log
from cronce.runtime.run import Run
from cronce.runtime.wraps import within


class Listeners:
    """Of one `Cronce`: the log is the first of them."""

    def __init__(self) -> None:
        self.of_events: list[Callable[[Event], None]] = [Log().hear]
        self.of_calls: list[Callable[[str, float], None]] = []
        self.wraps: list[Around] = []

    def report(self, event: Event) -> None:
        for hear in self.of_events:
            try:
                hear(event)
            except Exception:
                LOGGER.exception("%s cannot take in that %s %s", hear, event.key, event.what)

    def timed(self, request: str, seconds: float) -> None:
        for hear in self.of_calls:
            try:
                hear(request, seconds)
            except Exception:
                LOGGER.exception("%s cannot take in that the store answered", hear)

    def around(self, run: Run) -> AbstractContextManager[object]:
        """What a body runs within."""
        return within(self.wraps, run) if self.wraps else around_nothing(run)
