"""How the command line says instants and spans: to programs in full, to people in two units at most."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from cronce.model import Instant, spell

if TYPE_CHECKING:
    from cronce.protocol.record import Act

_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def iso(instant: Instant | None) -> str | None:
    """ISO 8601 in UTC, for JSON: to the microsecond where there are any."""
    return None if instant is None else instant.isoformat().replace("+00:00", "Z")


def short(span: timedelta) -> str:
    """`span` in its two largest units: 3d 4h, 5m, 1.5s, 4ms."""
    seconds = abs(span.total_seconds())
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 10:
        return f"{round(seconds, 1):g}s"
    left = round(seconds)
    parts = []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        parts.append(f"{count}{unit}" if count else "")
    first = next(place for place, part in enumerate(parts) if part)
    return " ".join(filter(None, parts[first : first + 2]))


def away(instant: Instant, now: Instant) -> str:
    """How far from now: in 3d 4h, 5m ago, now."""
    if instant == now:
        return "now"
    return f"in {short(instant - now)}" if instant > now else f"{short(now - instant)} ago"


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
