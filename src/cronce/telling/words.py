"""How instants, spans, schedules, numbers and strange texts are said: to programs in full, to people in few words; and
which words mean well or ill."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Literal

from cronce.model import Instant, spell
from cronce.protocol.record import Outcome
from cronce.protocol.table import NOTHING_RAN
from cronce.schedule import Cron, Schedule, Window

if TYPE_CHECKING:
    from cronce.protocol.notices import Handled
    from cronce.protocol.record import Act, Past, Record
    from cronce.runtime.queries import RunSeen

Tone = Literal["good", "bad", "busy", "odd", "dim"]
_TONE_OF_WORD: Final[Mapping[str, Tone]] = {
    **dict.fromkeys(("succeeded", "done", "alive", "cleared"), "good"),
    **dict.fromkeys(("failed", "lost", "unknown", "lapsed", "unreadable", "in doubt", "critical", "error"), "bad"),
    **dict.fromkeys(("silent", "dead", "doubled", "host gone"), "bad"),
    **dict.fromkeys(("running", "in progress", "held", "led"), "busy"),
    **dict.fromkeys(("due", "waiting", "retrying", "resting", "paused", "not done", "warning"), "odd"),
    **dict.fromkeys(("late", "draining"), "odd"),
}
"""The colour of a state, an outcome or a severity; any other word is dim."""

_CONTROL_CHARACTERS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_JUST_NOW: Final = timedelta(seconds=2)
NAMES_LISTED: Final = 3
"""Of so many names each is said."""

_SHORT_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def iso(instant: Instant | None) -> str | None:
    """ISO 8601 in UTC, for JSON: to the microsecond where there are any."""
    return None if instant is None else instant.isoformat().replace("+00:00", "Z")


def fine(instant: Instant) -> str:
    """For people who compare instants: to the millisecond, where there is any."""
    return instant.isoformat(timespec="milliseconds" if instant.microsecond else "seconds").replace("+00:00", "Z")


def short(span: timedelta) -> str:
    """`span` in its two largest units: 3d 4h, 5m, 1.5s, 4ms."""
    seconds = abs(span.total_seconds())
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 10:
        return f"{round(seconds, 1):g}s"
    left = round(seconds)
    parts = []
    for unit, size in _SHORT_UNITS:
        count, left = divmod(left, size)
        parts.append(f"{count}{unit}" if count else "")
    first = next(place for place, part in enumerate(parts) if part)
    return " ".join(filter(None, parts[first : first + 2]))


def away(instant: Instant, now: Instant) -> str:
    """How far from now: in 3d 4h, 5m ago, now."""
    if instant == now:
        return "now"
    return f"in {short(instant - now)}" if instant > now else f"{short(now - instant)} ago"


def ago(instant: Instant, now: Instant) -> str:
    """The same of what has happened: just now, even where it was seen a little later than now was."""
    return "just now" if now - instant < _JUST_NOW else away(instant, now)


def moment(instant: Instant, day: Instant) -> str:
    """An instant in a text about a day: its time alone on that day, else in full."""
    text = spell(instant)
    return text[11:] if instant.date() == day.date() else text


def wall(local: datetime) -> str:
    """A time as clocks on the wall show it: Sun 2026-03-29 03:00:00 CEST."""
    return f"{local:%a %Y-%m-%d %H:%M:%S %Z}"


def by_whom(act: "Act") -> str:
    """Who did it by hand, when and why, as far as that is on record."""
    who = f" by {act.by}" if act.by else ""
    when = f" at {spell(act.at)}" if act.at else ""
    return f"{who}{when}{f' ({act.reason})' if act.reason else ''}".strip()


def handled_by(handled: "Handled") -> str:
    """Who works on an alert, or has snoozed it, and until when."""
    until = f" until {spell(handled.until)}" if handled.until else ""
    return f"{'snoozed' if until else 'acknowledged'} by {handled.by}{until}"


def safe(text: str) -> str:
    """Text without what could move a cursor, change a title or break a line: each such character as its escape."""
    return _CONTROL_CHARACTERS.sub(lambda odd: odd[0].encode("unicode_escape").decode(), text)


def reason_of(record: "Record") -> str:
    """Why it ended so; of one that was resolved, first how it ended by itself."""
    own = own_end(record)
    return f"{own.end}; {record.reason}" if own else record.reason


def own_end(record: "Record") -> "Past | None":
    """Of a run that was resolved: how it ended by itself."""
    return record.past[-1] if record.resolved and record.past else None


def ran_for(record: "Record", now: Instant | None = None) -> timedelta | None:
    """How long it ran; also of one that was resolved, unless it was lost."""
    own = own_end(record)
    if own is None or own.end.startswith(Outcome.LOST):
        return record.took(now)
    return own.ended - own.started if own.ended and own.started else None


def due_again(record: "Record") -> bool:
    """Whether it was made due again and has not run since: then its holder and its start are those of before."""
    return not (record.is_running or record.is_closed or record.failures)


def how_long(record: "Record", now: Instant | None = None) -> str:
    """How long its last attempt took; and, if it began before, since when it was under way: 23ms, 23s since its first
    start."""
    span = ran_for(record, now)
    if span is None or record.started is None:
        return ""
    first = next((past.started for past in record.past if past.started and past.end not in NOTHING_RAN), None)
    last, in_all = short(span), short(span + record.started - (first or record.started))
    return last if in_all == last else f"{last}, {in_all} since its first start"


def overdue(record: "Record") -> str:
    """Of a run that was told to stop, and has not: so, and why it was; else nothing."""
    return f"overdue, still running: {record.overdue}" if record.overdue and record.is_running else ""


def fate(run: "RunSeen") -> str:
    """What becomes of a run that is running on record, if its scheduler is gone or its lease is over; else nothing.
    The one sentence about it, for the page, the command line, the timeline and alerts."""
    record = run.record
    if record is None or not (run.gone or run.lapsed):
        return ""
    gone = f"its scheduler is gone (no heartbeat for {short(run.gone.unheard)}); " if run.gone else ""
    lost = record.closes_as_lost
    if run.gone is None or run.lapsed:
        then = "closes it as lost" if lost else "takes it over"
        return f"{gone}its lease has expired; the next scheduler or call of this job {then}"
    return f"{gone}the lease ends in {short(run.gone.left)}; then it is {'closed as lost' if lost else 'taken over'}"


def what_next(key: str, *, history: bool) -> str:
    """What a person can do about a slot that ended badly. A store without a history keeps no reruns."""
    again = f"cronce rerun {key}" if history else f"cronce resolve {key} retry"
    return f"To run it again: `{again}`. If the work is done: `cronce resolve {key} done`."


def as_written(rule: Schedule) -> str:
    """A schedule as its owner wrote it."""
    if isinstance(rule, Window):
        return f"{as_written(rule.rule)} {rule.bounds}"
    return f"{rule.text} {rule.tz}" if isinstance(rule, Cron) and rule.tz != "UTC" else rule.text


def counted(number: int, noun: str, *, more: bool = False) -> str:
    """1 slot, 2 slots, 1,000 or more slots."""
    return f"{number:,}{' or more' if more else ''} {noun}{'' if number == 1 and not more else 's'}"


def times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def listed(names: Iterable[str]) -> str:
    """a, b, c and 7 more."""
    shown: Sequence[str] = list(names)
    left = len(shown) - NAMES_LISTED
    return f"{', '.join(shown[:NAMES_LISTED])} and {left:,} more" if left > 0 else ", ".join(shown)


def tone(word: str) -> Tone:
    return _TONE_OF_WORD.get(word, "dim")


def read_json(text: str) -> Any:
    """JSON as it is defined: without NaN, and not so deep that it cannot be read. Raises ValueError."""
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _finite(word: str) -> float:
    """JSON has no other numbers."""
    number = float(word)
    if not isfinite(number):
        raise ValueError(f"{word} is no JSON")
    return number
