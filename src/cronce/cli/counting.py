"""/metrics of `cronce run`: what its processes count, each in a place of its own, and all of it together."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from cronce.cli.health import LATELY, Page, pulse
from cronce.clock import SystemClock
from cronce.model import Boot
from cronce.monitor.metrics.exposition import exposition
from cronce.monitor.metrics.metrics import Metrics
from cronce.monitor.metrics.registry import Values, merged, without_gauges
from cronce.monitor.metrics.slates import Slates, Snapshot
from cronce.runtime.app import Cronce
from cronce.runtime.log import LOGGER
from cronce.runtime.scheduling.scheduler import Scheduler

_boot: Final = SystemClock().boot


class Counts:
    """Made before the processes are."""

    def __init__(self, page: Page) -> None:
        self._page, self._slates = page, Slates(page.number)

    def watch(self, place: int, cron: Cronce) -> Callable[[Scheduler], None]:
        """Count what an application does, on from where the one that had this place before stopped; noted beside how
        its scheduler is."""
        before = self._slates.read(place)
        metrics = Metrics(cron, before.values if before else None)
        return partial(pulse, self._page, place, note=partial(self._note, place, metrics))

    def _note(self, place: int, metrics: Metrics) -> None:
        """Whether a process lives is told by whoever calls this, and does not depend on whether it can count."""
        try:
            self._slates.write(place, Snapshot(_boot(), metrics.read()))
        except Exception:
            LOGGER.exception("what was counted here cannot be told")

    def text(self) -> str:
        """As Prometheus reads it."""
        return exposition(merged(self._found(_boot())))

    def _found(self, now: Boot) -> Iterator[Values]:
        """Of one that is gone, or has said nothing lately, only what it has counted."""
        for place, one in enumerate(self._page.read()):
            snapshot = self._slates.read(place)
            if snapshot is not None:
                here = one.joined and now - snapshot.at <= LATELY
                yield snapshot.values if here else without_gauges(snapshot.values)
