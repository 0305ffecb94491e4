"""What has become of a run that began a step, as its cell says."""

from typing import Literal

from cronce.errors import BadRecord
from cronce.model import Cell, Instant, Mark
from cronce.protocol.record import Maker, State, decode

Whereabouts = Literal["at it", "lapsed", "over"]


def whereabouts(run: Cell, maker: Maker, now: Instant) -> Whereabouts:
    """Whether it is still at it."""
    if run.mark is not Mark.OPEN or run.fence != maker.fence or not _runs(run):
        return "over"
    return "lapsed" if run.until is not None and run.until <= now else "at it"


def _runs(run: Cell) -> bool:
    """What a newer cronce wrote may be at it."""
    try:
        return decode(run.value, run.key).state is State.RUNNING
    except BadRecord:
        return True
