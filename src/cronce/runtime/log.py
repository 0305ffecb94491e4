"""Events as log lines, in one place. Losers are quiet: a refused claim is normal life."""

import logging
from typing import Final

from cronce.events import Event, What

LOGGER: Final = logging.getLogger("cronce")

LEVELS: Final = {
    What.TAKEN_OVER: logging.WARNING,
    What.STALE: logging.WARNING,
    What.FORGOT: logging.ERROR,
    What.REGISTERED: logging.INFO,
    What.EDITED: logging.INFO,
    What.RETRYING: logging.INFO,
    What.PURGED: logging.INFO,
    What.ASKED: logging.INFO,
}
"""The rest is for debugging, except a slot that closed as lost or unknown: a person should know."""


def log(event: Event) -> None:
    level = LEVELS.get(event.what, logging.DEBUG)
    if event.what is What.CLOSED and event.detail.startswith(("lost", "unknown")):
        level = logging.WARNING
    LOGGER.log(level, "%s %s%s", event.key, event.what, f": {event.detail}" if event.detail else "")
