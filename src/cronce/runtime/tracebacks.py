"""Where a job function failed: its traceback without cronce's own frames, for the record and for the log. Imported only
once something has failed."""

import os
from pathlib import Path
from traceback import StackSummary, TracebackException
from types import TracebackType
from typing import Final

import cronce
from cronce.runtime.processes.output import OUTPUT_VARIABLE, TAIL

_OWN_SOURCES: Final = str(Path(cronce.__file__).parent) + os.sep
CUT_SIGN: Final = "…\n"


def traceback_of(error: BaseException) -> str:
    """The end of its traceback; nothing if it is all cronce's, or the store shall keep no output (CRONCE_OUTPUT)."""
    if os.environ.get(OUTPUT_VARIABLE) == "none":
        return ""
    try:
        told = TracebackException.from_exception(error, compact=True)
        if not _leave_out_own(told):
            return ""
        text = "".join(told.format()).replace("\0", "\ufffd").encode(errors="replace").decode()
    except BaseException:  # some exceptions cannot even say what they are
        return ""
    return text if len(text) <= TAIL else CUT_SIGN + text[len(CUT_SIGN) - TAIL :]


def _leave_out_own(told: TracebackException) -> bool:
    """Also of what it was raised from, and of the parts of a group; whether any frame is left."""
    left, seen, frames = [told], set[int](), 0
    while left:
        one = left.pop()
        if id(one) not in seen:
            seen.add(id(one))
            one.stack = StackSummary.from_list(
                [frame for frame in one.stack if not frame.filename.startswith(_OWN_SOURCES)]
            )
            frames += len(one.stack)
            left += [more for more in (one.__cause__, one.__context__, *(one.exceptions or ())) if more is not None]
    return frames > 0


def from_job(error: BaseException) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """For a log: the exception, with its traceback from the first frame on that is not cronce's."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_OWN_SOURCES):
        frames = frames.tb_next
    return type(error), error, frames or error.__traceback__
