"""Whether the store's clock can be held against anybody: not right after it was set.

Where it goes an hour ahead, all schedulers seem to be dead for an hour, and all slots of that hour to be missed, until
each has had the time to say that it lives, and to see to what fell due. So nothing is judged until then: neither what
is wrong, nor that it is over. Where it is set again and again, a line in the log says that nobody judges.
"""

from datetime import timedelta
from math import inf
from typing import Final

from cronce.model import Boot, Instant
from cronce.runtime.log import LOGGER
from cronce.runtime.scheduling.roster import HOLDER_TTL

SET: Final = HOLDER_TTL / 3
"""By so much at least a clock was set that went otherwise than ours: with less nobody who lives seems to be dead."""

SETTLED: Final = HOLDER_TTL
"""After so long everybody has."""


class Evenly:
    """Asked at each look, by a clock of our own that nobody sets."""

    def __init__(self) -> None:
        self._last: tuple[Instant, Boot] | None = None
        self._from: Boot = 0.0
        self._tell_at: Boot | None = None

    def goes(self, now: Instant, boot: Boot) -> bool:
        last, self._last = self._last, (now, boot)
        if last is not None and abs(now - last[0] - timedelta(seconds=boot - last[1])) > SET:
            self._from = boot + SETTLED.total_seconds()
        even = boot >= self._from
        self._tell(boot, even=even)
        return even

    def _tell(self, boot: Boot, *, even: bool) -> None:
        """Once until it goes evenly again, and not where it was set once."""
        if even:
            self._tell_at = None
        elif self._tell_at is None:
            self._tell_at = boot + 2 * SETTLED.total_seconds()
        elif boot > self._tell_at:
            LOGGER.warning("the store's clock keeps being set, and nothing is judged meanwhile")
            self._tell_at = inf
