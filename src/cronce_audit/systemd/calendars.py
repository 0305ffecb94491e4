"""`OnCalendar=` as a cron expression, where it can be one."""

import re
from typing import Final, NamedTuple

from cronce_audit.folds import is_zone

_NAMED: Final = {
    "minutely": "* * * * *",
    "hourly": "0 * * * *",
    "daily": "0 0 * * *",
    "weekly": "0 0 * * 1",
    "monthly": "0 0 1 * *",
    "quarterly": "0 0 1 1,4,7,10 *",
    "semiannually": "0 0 1 1,7 *",
    "yearly": "0 0 1 1 *",
    "annually": "0 0 1 1 *",
}
_PART: Final = r"[\d*.,/]+"
_CALENDAR: Final = re.compile(
    rf"(?:(?P<days>[A-Za-z.,]+)\s+)?(?:(?:\*-)?(?P<month>{_PART})-(?P<date>{_PART})(?:\s+|$))?"
    rf"(?:(?P<hour>{_PART}):(?P<minute>{_PART})(?::(?P<second>{_PART}))?)?"
)


class Calendar(NamedTuple):
    """When a timer elapses."""

    expression: str
    """As cron has it."""
    zone: str
    """"" is that of the host."""


def calendar(text: str) -> Calendar | None:
    """None for what cron cannot say: years, days from the end of the month, a weekday and a date together, seconds."""
    text, zone = _zone(" ".join(text.split()))
    if text.lower() in _NAMED:
        return Calendar(_NAMED[text.lower()], zone)
    found = _CALENDAR.fullmatch(text)
    if not found or not text or (found["second"] or "0").strip("0"):
        return None
    days, date = found["days"], found["date"] or "*"
    if days and (date != "*" or not re.fullmatch(r"(?i)(mon|tue|wed|thu|fri|sat|sun|[a-z]*day|[.,])+", days)):
        return None
    weekday = re.sub(r"[A-Za-z]+", lambda name: name[0][:3].upper(), days).replace("..", "-") if days else "*"
    fields = (found["minute"] or "0", found["hour"] or "0", date, found["month"] or "*")
    return Calendar(" ".join((*map(_field, fields), weekday)), zone)


def _zone(text: str) -> tuple[str, str]:
    rest, _, last = text.rpartition(" ")
    return (rest, last) if rest and re.match(r"[A-Z][A-Za-z]", last) and is_zone(last) else (text, "")


def _field(part: str) -> str:
    """`1..7` is `1-7`; of `5/15` cron and systemd mean the same."""
    return part.replace("..", "-")


def is_refused(text: str) -> bool:
    """Whether systemd surely cannot read it: crontab's five fields or nicknames, and steps after a star."""
    return (
        re.search(r"\*/\d|^@(?!\d)", text) is not None
        or re.fullmatch(r"([\d*,/-]+ +){4}[\w*,/-]+", text.strip()) is not None
    )
