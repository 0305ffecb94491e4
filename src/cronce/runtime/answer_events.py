"""Which event follows from an answer."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from cronce.events import Event, What
from cronce.protocol.commands import (
    Answer,
    Asked,
    Closed,
    Finished,
    Granted,
    Held,
    Paused,
    Queued,
    Released,
    Settled,
    Stale,
    Superseded,
)
from cronce.protocol.view import View

Events = Mapping[type, Callable[[Any], tuple[What, str]]]

ANSWERED: Final[Events] = {
    Granted: lambda a: (What.TAKEN_OVER, f"from {a.taken_over}") if a.taken_over else (What.GRANTED, ""),
    Finished: lambda a: (What.RETRYING if a.retrying else What.CLOSED, a.outcome),
    Released: lambda _: (What.RELEASED, ""),
    Stale: lambda a: (What.STALE, a.by),
    Held: lambda a: (What.REFUSED, f"held by {a.by}"),
    Closed: lambda a: (What.REFUSED, f"{a.outcome}: {a.reason}"),
    Paused: lambda _: (What.REFUSED, "paused"),
    Superseded: lambda a: (What.REFUSED, f"superseded by version {a.firing}"),
}
"""What is a fact whoever wrote it: a grant or an end whose reply was lost was written too. A claim that lost is told
quietly: the monitor counts them."""

WROTE: Final[Events] = {
    **ANSWERED,
    Closed: lambda a: (What.CLOSED, f"{a.outcome}: {a.reason}"),
    Queued: lambda a: (What.QUEUED, "waiting for its turn" if a.waiting else ""),
    Asked: lambda _: (What.ASKED, ""),
    Settled: lambda _: (What.RELEASED, "its holder did not renew its lease"),
}
"""What is a fact because we wrote it."""


def is_wanted(answer: Answer, wants: Callable[[What], bool]) -> bool:
    """Grants and successes come by the thousand: whether anybody wants to hear of this one."""
    if isinstance(answer, Granted):
        return bool(answer.taken_over) or wants(What.GRANTED)
    return not (isinstance(answer, Finished) and answer.outcome.is_success) or wants(What.CLOSED)


def event_of(answer: Answer, view: View, holder: str, *, wrote: bool) -> Event | None:
    """The event of an answer that was reached with this view; `wrote`: by a write of ours."""
    found = (WROTE if wrote else ANSWERED).get(type(answer))
    if found is None:
        return None
    what, detail = found(answer)
    if isinstance(answer, Finished) and answer.outcome.is_bad and view.record is not None and view.record.reason:
        detail = f"{detail}: {view.record.reason}"
    return Event(what, view.run.key, holder, view.now, view.run.fence, detail)
