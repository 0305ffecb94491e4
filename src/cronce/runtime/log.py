"""Events as log lines, in one place. Losers are quiet: a refused claim is normal life. No line holds a secret."""

import logging
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from typing import Final

from cronce.events import Event, What
from cronce.model import Instant
from cronce.stores import discreet

LOGGER: Final = logging.getLogger("cronce")

LEVELS: Final = {
    What.STARTED: logging.INFO,
    What.ENDED: logging.INFO,
    What.TAKEN_OVER: logging.WARNING,
    What.STALE: logging.WARNING,
    What.DEPOSED: logging.WARNING,
    What.LATE: logging.INFO,
    What.OVERRUN: logging.WARNING,
    What.MISSED: logging.WARNING,
    What.DOUBLED: logging.WARNING,
    What.DRAINED: logging.INFO,
    What.RESUMED: logging.INFO,
    What.FORGOT: logging.ERROR,
    What.DOUBTED: logging.WARNING,
    What.SILENT: logging.WARNING,
    What.ANSWERS: logging.INFO,
    What.REGISTERED: logging.INFO,
    What.EDITED: logging.INFO,
    What.RETRYING: logging.INFO,
    What.PURGED: logging.INFO,
    What.ASKED: logging.INFO,
}
"""The rest is for debugging, except a slot that closed as lost or unknown: a person should know."""

SELDOM: Final = timedelta(minutes=1)
"""Between two lines about calls of one name that came too often."""

OF_A_LEASE: Final = (What.GRANTED, What.TAKEN_OVER, What.STARTED, What.ENDED, What.RELEASED, What.CLOSED, What.STALE)


def traceback_of(error: BaseException, *, last: int | None = None) -> str:
    """As Python prints it, with its causes, but without secrets: exceptions quote what they were given. `last`: no
    more than so many of its places."""
    return discreet(_traceback(error, last))


def _traceback(error: BaseException, last: int | None = None) -> str:
    from traceback import format_exception  # noqa: PLC0415  only what fails pays for it

    return "".join(format_exception(error, limit=last and -last)).rstrip("\n")


def _mask(record: logging.LogRecord) -> bool:
    """What holds no secret goes on as it is. Of an exception that does, only its masked traceback goes on, as text."""
    with suppress(Exception):  # arguments that do not fit, or cannot be shown: whoever writes the line will say so
        message = record.getMessage()
        if (shown := discreet(message)) != message:
            record.msg, record.args = shown, None
    error = record.exc_info[1] if record.exc_info else None
    if error is not None and (shown := discreet(text := _traceback(error))) != text:
        record.exc_info, record.exc_text = None, shown
    return True


LOGGER.addFilter(_mask)


class Log:
    """The events of one `Cronce`. What may come with every call is told once a minute for each name."""

    def __init__(self) -> None:
        self._told: dict[str, Instant] = {}
        self._since: Counter[str] = Counter()

    def hear(self, event: Event) -> None:
        if event.what is not What.DOUBLED:
            log(event)
            return
        self._since[event.key] += 1
        told = self._told.get(event.key)
        if told is None or event.at - told >= SELDOM:
            self._told[event.key], count = event.at, self._since.pop(event.key)
            more = "" if told is None else f" ({count} since the last warning)"
            log(event._replace(detail=f"{event.detail}{more}"))


def log(event: Event) -> None:
    """The event itself goes with the line, as its attribute `event`, for handlers that want more than words."""
    level = LEVELS.get(event.what, logging.DEBUG)
    if event.in_doubt:
        level = logging.WARNING
    if LOGGER.isEnabledFor(level):
        if (shown := discreet(event.detail)) != event.detail:
            event = event._replace(detail=shown)
        detail = _detail(event)
        words = f"{_named(event.key)} {event.what}{f': {detail}' if detail else ''}{_whose(event)}"
        LOGGER.log(level, "%s", words.lstrip(), extra={"event": event})


def _named(cell: str) -> str:
    """What a cell is about, as people write it."""
    kind, _, name = cell.partition("/")
    match kind:
        case "run":
            return name.replace("/", "@", 1)
        case "job" | "holder" | "observed":
            return name
        case "meta":
            return ""
        case _:
            return cell.replace("/", " ", 1)


def _whose(event: Event) -> str:
    """Under which fence, and by whom: what ties a line to the record, and to what the job itself logs."""
    return f" fence={event.fence} holder={event.holder}" if event.what in OF_A_LEASE and event.fence else ""


def _detail(event: Event) -> str:
    match event.what:
        case What.STARTED if event.seconds is not None:
            return f"{event.detail}, {event.seconds:.3f}s after its instant"
        case What.ENDED if event.seconds is not None:
            return f"{event.detail} after {event.seconds:.3f}s"
        case What.REGISTERED | What.EDITED:  # by which version, which has no name for people
            return ""
        case What.MISSED:  # and why, in the words of the schedule
            return f"{event.detail.rpartition(': ')[0]} passed while nobody looked"
        case _:
            return event.detail
