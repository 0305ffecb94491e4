"""Events as log lines, in one place, and the listeners that get them. A refused claim is normal, so it is logged at a
low level. No line holds a secret."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from cronce.events import Event, What
from cronce.model import Instant
from cronce.stores import discreet

if TYPE_CHECKING:
    import logging
    from traceback import TracebackException
    from types import TracebackType

    from cronce.runtime.run import Around, Run

DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40
"""As `logging` has them."""


class _Logger:
    """The logger named cronce, from the first line on. To import `logging` is a twentieth of what `exec` takes, and
    most runs log nothing. Where it was not imported no level was set, and warnings are shown."""

    _logger: "logging.Logger | None" = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made(), name)

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802  as it is called there
        if self._logger is None and "logging" not in sys.modules:
            return level >= WARNING
        return self._made().isEnabledFor(level)

    def _made(self) -> "logging.Logger":
        if self._logger is None:
            import logging  # noqa: PLC0415  5 ms

            logging.getLogger("cronce").addFilter(_mask)
            self._logger = logging.getLogger("cronce")
            self.isEnabledFor = self._logger.isEnabledFor  # type: ignore[method-assign]  # asked for each run
        return self._logger


LOGGER: Final = cast("logging.Logger", _Logger())

LEVEL_OF_EVENT: Final = {
    **dict.fromkeys((What.STARTED, What.ENDED, What.RETRYING, What.LATE, What.DRAINED, What.RESUMED), INFO),
    **dict.fromkeys((What.REGISTERED, What.EDITED, What.PURGED, What.ASKED, What.ANSWERS, What.STEADY), INFO),
    **dict.fromkeys((What.TAKEN_OVER, What.STALE, What.DEPOSED, What.OVERRUN, What.MISSED, What.DOUBLED), WARNING),
    **dict.fromkeys((What.SILENT, What.DOUBTED), WARNING),
    **dict.fromkeys((What.FORGOT, What.LEAPT), ERROR),
}
"""The rest is for debugging, except a slot that closed as lost or unknown: a person should know."""

SAME_NAME_EVERY: Final = timedelta(minutes=1)
"""Between two lines about calls of one name that came too often."""

OF_A_LEASE: Final = (What.GRANTED, What.TAKEN_OVER, What.STARTED, What.ENDED, What.RELEASED, What.CLOSED, What.STALE)


def traceback_of(error: BaseException, *, last: int | None = None) -> str:
    """As Python prints it, with its causes, but without secrets: exceptions quote what they were given. `last`: no
    more than so many of its places."""
    return discreet(_traceback(error, error.__traceback__, last))


def _traceback(error: BaseException, frames: "TracebackType | None", last: int | None = None) -> str:
    from traceback import format_exception  # noqa: PLC0415  only what fails pays for it

    return "".join(format_exception(type(error), error, frames, limit=last and -last)).rstrip("\n")


def _mask(record: "logging.LogRecord") -> bool:
    """What holds no secret goes on as it is. Of an exception that does, only its masked traceback goes on, as text."""
    with suppress(Exception):  # arguments that do not fit, or cannot be shown: the handler reports that
        message = record.getMessage()
        if (shown := discreet(message)) != message:
            record.msg, record.args = shown, None
    error = record.exc_info[1] if record.exc_info else None
    frames = record.exc_info[2] if record.exc_info else None
    if error is not None and (shown := discreet(text := _traceback(error, frames))) != text:
        record.exc_info, record.exc_text = None, shown
    return True


# --- where a job function failed, without cronce's own frames: for the record and for the log ---

_OWN_SOURCES: Final = __file__.removesuffix("runtime/log.py")
CUT_SIGN: Final = "…\n"


def job_traceback(error: BaseException) -> str:
    """The end of its traceback; nothing if it is all cronce's, or the store shall keep no output (CRONCE_OUTPUT)."""
    from traceback import TracebackException  # noqa: PLC0415  only what fails pays for it

    from cronce.runtime.processes.output import OUTPUT_VARIABLE, TAIL  # noqa: PLC0415

    if os.environ.get(OUTPUT_VARIABLE) == "none":
        return ""
    try:
        told = TracebackException.from_exception(error, compact=True)
        if not _leave_out_own(told):
            return ""
        text = "".join(told.format()).replace("\0", "\ufffd").encode(errors="replace").decode()
    except BaseException:  # some exceptions cannot even be formatted
        return ""
    return text if len(text) <= TAIL else CUT_SIGN + text[len(CUT_SIGN) - TAIL :]


def _leave_out_own(told: "TracebackException") -> bool:
    """Also of what it was raised from, and of the parts of a group; whether any frame is left."""
    left, seen, frames = [told], set[int](), 0
    while left:
        one = left.pop()
        if id(one) not in seen:
            seen.add(id(one))
            one.stack[:] = [frame for frame in one.stack if not frame.filename.startswith(_OWN_SOURCES)]
            frames += len(one.stack)
            left += [more for more in (one.__cause__, one.__context__, *(one.exceptions or ())) if more is not None]
    return frames > 0


def job_exc_info(error: BaseException) -> "tuple[type[BaseException], BaseException, TracebackType | None]":
    """For a log: the exception, with its traceback from the first frame on that is not cronce's."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_OWN_SOURCES):
        frames = frames.tb_next
    return type(error), error, frames or error.__traceback__


# --- events ---


class EventLog:
    """The events of one `Cronce`. An event that may come with every call is logged once a minute for each name."""

    def __init__(self) -> None:
        self._told: dict[str, Instant] = {}
        self._since: Counter[str] = Counter()

    def hear(self, event: Event) -> None:
        if event.what is not What.DOUBLED:
            log(event)
            return
        self._since[event.key] += 1
        told = self._told.get(event.key)
        if told is None or event.at - told >= SAME_NAME_EVERY:
            self._told[event.key], count = event.at, self._since.pop(event.key)
            more = "" if told is None else f" ({count} since the last warning)"
            log(event._replace(detail=f"{event.detail}{more}"))


def log(event: Event) -> None:
    """The event itself goes with the line, as its attribute `event`, for handlers that want more than words."""
    level = WARNING if event.in_doubt else LEVEL_OF_EVENT.get(event.what, DEBUG)
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
            return f"{event.detail}, {event.seconds:.3f}s after it was due"
        case What.ENDED if event.seconds is not None:
            return f"{event.detail} after {event.seconds:.3f}s"
        case What.REGISTERED | What.EDITED:  # by which version, which has no name for people
            return ""
        case What.MISSED:  # and why, in the words of the schedule
            return f"{event.detail.rpartition(': ')[0]} fell due while no scheduler ran"
        case _:
            return event.detail


# --- listeners ------------------------------------------------------------------------------------------------------


class Listeners:
    """The listeners of one `Cronce`: the log is the first of them. A listener that fails must not keep a slot from
    running."""

    def __init__(self) -> None:
        self.of_events: list[Callable[[Event], None]] = [EventLog().hear]
        self.of_calls: list[Callable[[str, float], None]] = []
        self.wraps: list[Around] = []

    def report(self, event: Event) -> None:
        for hear in self.of_events:
            try:
                hear(event)
            except Exception:
                LOGGER.exception("listener %s failed on event: %s %s", hear, event.key, event.what)

    def wants(self, what: What) -> bool:
        """Whether anybody hears of such an event: the log may pass over it, and be alone."""
        return len(self.of_events) > 1 or LOGGER.isEnabledFor(LEVEL_OF_EVENT.get(what, DEBUG))

    def timed(self, request: str, seconds: float) -> None:
        for hear in self.of_calls:
            try:
                hear(request, seconds)
            except Exception:
                LOGGER.exception("listener %s failed when the store answered again", hear)

    def around(self, run: "Run") -> AbstractContextManager[object]:
        """What a body runs within."""
        return _within(self.wraps, run) if self.wraps else _NO_CONTEXT


_NO_CONTEXT: Final = nullcontext()


@contextmanager
def _within(wraps: Iterable["Around"], run: "Run") -> Iterator[None]:
    """What others want bodies to run within, such as a span of a tracer. Where it fails, that is logged, and the body
    runs without it; what the body returned or raised stays what it was."""
    entered = []
    for wrap in wraps:
        try:
            made = wrap(run)
            made.__enter__()
            entered.append((wrap, made))
        except Exception:
            LOGGER.exception("%s runs without %s, which failed", run, wrap)
    error: BaseException | None = None
    try:
        yield
    except BaseException as raised:
        error = raised
        raise
    finally:
        for wrap, made in reversed(entered):
            try:
                made.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)
            except Exception as another:
                if another is not error:
                    LOGGER.exception("%s ran, and then %s failed", run, wrap)
