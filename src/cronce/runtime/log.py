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
    if LOGGER.isEnabledFor(level):
        detail = _detail(event)
        words = f"{_named(event.key)} {event.what}{f': {detail}' if detail else ''}"
        LOGGER.log(level, "%s", words.lstrip(), extra={"event": event})


def _named(cell: str) -> str:
    """What a cell is about, as people write it."""
    kind, _, name = cell.partition("/")
    match kind:
        case "run":
            return name.replace("/", "@", 1)
        case "job" | "holder":
            return name
        case "meta":
            return ""
        case _:
            return cell.replace("/", " ", 1)


def _detail(event: Event) -> str:
    match event.what:
        case What.REGISTERED | What.EDITED:  # by which version, which has no name for people
            return ""
        case What.MISSED:  # and why, in the words of the schedule
            return f"{event.detail.rpartition(': ')[0]} passed while nobody looked"
        case _:
            return event.detail
