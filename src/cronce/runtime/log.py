"""Events as log lines, in one place. Losers are quiet: a refused claim is normal life."""

import logging
from typing import Final

from cronce.events import Event, What

LOGGER: Final = logging.getLogger("cronce")

LEVELS: Final = {
    What.TAKEN_OVER: logging.WARNING,
    What.STALE: logging.WARNING,
    What.DEPOSED: logging.WARNING,
    What.LATE: logging.INFO,
    What.OVERRUN: logging.WARNING,
    What.MISSED: logging.WARNING,
    What.DRAINED: logging.INFO,
    What.RESUMED: logging.INFO,
    What.FORGOT: logging.ERROR,
    What.SILENT: logging.WARNING,
    What.ANSWERS: logging.INFO,
    What.REGISTERED: logging.INFO,
    What.EDITED: logging.INFO,
    What.RETRYING: logging.INFO,
    What.PURGED: logging.INFO,
    What.ASKED: logging.INFO,
}
"""The rest is for debugging, except a slot that closed as lost or unknown: a person should know."""


def log(event: Event) -> None:
    """The event itself goes with the line, as its attribute `event`, for handlers that want more than words."""
    level = LEVELS.get(event.what, logging.DEBUG)
    if event.what is What.CLOSED and event.detail.startswith(("lost", "unknown")):
        level = logging.WARNING
    detail = f": {event.detail}" if event.detail else ""
    LOGGER.log(level, "%s %s%s", event.key, event.what, detail, extra={"event": event})
