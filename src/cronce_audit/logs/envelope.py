"""Reads a line of a log: its time, host and process, fields and text; times with or without an offset or a year.

A stamp without an offset is read by the clocks of one zone. In the hour that those show twice it is the first one,
until a line would go back in time. Where one job alone writes, the order may not tell: such a stamp is *twofold*. So is
one by clocks that nobody named (they are taken for UTC's) if it goes back by up to an hour, or lies in a night in which
clocks are put back somewhere.

A stamp without a year (`Nov  1 14:00:01`, syslog's) is of the latest year in which it does not lie after the file's
last change, a day's grace included. So a log that goes over New Year needs no order to be read right, as long as it is
not longer than a year.
"""

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from cronce.model import Instant
from cronce.value import NamedTuple

_ISO: Final = re.compile(
    r"(?<!\d)(\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?) ?(Z|UTC|[+-]\d\d:?\d\d(?!\d))?", re.ASCII
)
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SYSLOG_TIME: Final = re.compile(
    rf"(?:<\d{{1,3}}>)?({'|'.join(_MONTHS)}) {{1,2}}(\d{{1,2}}) (\d\d):(\d\d):(\d\d)(?!\d)", re.ASCII
)
_ROOM: Final = 120
"""Characters at the start of a line that may hold its stamp."""
_GRACE: Final = timedelta(days=1)
_HOUR: Final = timedelta(hours=1)
_MINUTE: Final = timedelta(minutes=1)
_NIGHTS: Final = ((4, 1, 7), (10, 25, 31), (11, 1, 7))
"""Month and range of days of the Sunday: in the south, in Europe, in America."""
_SUNDAY: Final = 7
_MORNING: Final = 4
_DISORDER: Final = timedelta(seconds=1)
"""How much older a line may be than the one before it: threads do not write in order."""
_EARLIEST: Final = 1e8
_LATEST: Final = 1e11
"""Seconds since 1970: less is no stamp, more is in a finer unit."""
_LEAP: Final = 8
"""Years between two 29th of February, at most."""


class Stamps:
    """The stamps of one file. `zone` is None if it is not known; `newest` is when the file was last changed. `twofold`
    and `exact` (it has an offset) describe the last stamp."""

    def __init__(self, zone: tzinfo | None, newest: Instant) -> None:
        self._zone, self._named, self._newest = zone or UTC, zone is not None, newest
        self._last: Instant | None = None
        self._furthest: Instant | None = None
        self.twofold = self.exact = False

    def of(self, text: str) -> Instant | None:
        """The stamp at the start of a line, or all of a value."""
        head = text[:_ROOM]
        if found := _ISO.search(head):
            return self._seen(_iso(*found.groups()))
        if found := _SYSLOG_TIME.match(head):
            return self._seen(self._syslog(*found.groups()))
        return None

    def value(self, value: str) -> Instant | None:
        """A stamp as a field of its own: as above, or a number of seconds, of thousandths or of less since 1970."""
        try:
            number = float(value)
        except ValueError:
            return self.of(value)
        for _thousandths in range(3):
            number /= 1000 if number > _LATEST else 1
        return self._seen(datetime.fromtimestamp(number, UTC)) if _EARLIEST < number < _LATEST else None

    def _syslog(self, month: str, *rest: str) -> datetime | None:
        day, hour, minute, second = map(int, rest)
        latest = self._newest + _GRACE
        for year in range(latest.year, latest.year - _LEAP - 1, -1):
            try:
                wall = datetime(year, _MONTHS.index(month) + 1, day, hour, minute, second)  # noqa: DTZ001  a wall's
            except ValueError:  # no such day in this year
                continue
            if wall.replace(tzinfo=self._zone) <= latest:
                return wall
        return None

    def _seen(self, found: datetime | None) -> Instant | None:
        """In UTC."""
        if found is None:
            return None
        try:
            at = (found if found.tzinfo else self._placed(found)).astimezone(UTC)
            self.twofold = found.tzinfo is None and self._is_twofold(found, at)
            self.exact = found.tzinfo is not None
        except OverflowError:
            return None
        self._last = at
        self._furthest = max(at, self._furthest or at)
        return at

    def _is_twofold(self, wall: datetime, at: Instant) -> bool:
        if self._named:
            first, second = (self._zone.utcoffset(wall.replace(fold=fold)) for fold in (0, 1))
            return first != second
        back = (self._furthest or at) - at
        return _MINUTE <= back <= _HOUR or _is_night_of_change(wall)

    def _placed(self, wall: datetime) -> datetime:
        first = wall.replace(tzinfo=self._zone)
        if self._zone is UTC or self._last is None:
            return first
        second = first.replace(fold=1)
        return second if first.astimezone(UTC) <= self._last - _DISORDER < second.astimezone(UTC) else first


def _is_night_of_change(wall: datetime) -> bool:
    if wall.isoweekday() != _SUNDAY or wall.hour >= _MORNING:
        return False
    return any(wall.month == month and first <= wall.day <= last for month, first, last in _NIGHTS)


def _iso(text: str, offset: str | None) -> datetime | None:
    try:
        stamp = datetime.fromisoformat(text.replace("/", "-"))
        if not offset:
            return stamp
        if offset in ("Z", "UTC"):
            return stamp.replace(tzinfo=UTC)
        return datetime.fromisoformat(f"{stamp.isoformat()}{offset}")
    except ValueError:
        return None


_LOG_PREFIX: Final = re.compile(r"(?:([\w.-]{1,100}) +\||\[pod/([\w.-]{1,100})/[\w.-]{1,100}\]) ")
"""The prefix of `docker compose logs` and of `kubectl logs --prefix`."""
_CONTAINER_LOG: Final = re.compile(r"\S{20,40} (?:stdout|stderr) [FP] ")
_STAMP: Final = r"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.,]{8,18}(?:Z|[+-]\d\d:?\d\d)?)"
_SYSLOG: Final = re.compile(
    rf"(?:<\d{{1,3}}>)?{_STAMP} ([\w.:-]{{1,255}}) ([\w./()@-]{{1,100}}?)(?:\[(\d{{1,10}})\])?: "
)
_RFC5424: Final = re.compile(
    rf"<\d{{1,3}}>1 {_STAMP} (\S{{1,255}}) (\S{{1,48}}) (\S{{1,128}}) \S{{1,32}} (?:-|\[.*?\]) ?"
)
_LEVEL: Final = re.compile(r"(?i:trace|debug|info|notice|warn|warning|error|critical|fatal)")
PAIR: Final = re.compile(r"""([A-Za-z_@][\w.-]{0,60})=("(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;\])}"']+)""")

TIME: Final = ("time", "timestamp", "ts", "@timestamp", "asctime", "datetime", "__REALTIME_TIMESTAMP")
TEXT: Final = ("message", "msg", "MESSAGE", "log", "text")
HOST: Final = ("host", "hostname", "host.name", "_HOSTNAME", "pod", "node", "server", "instance")
PID: Final = ("pid", "process_id", "process.pid", "_PID", "process")


class Letter(NamedTuple):
    """The parts of a line: its text, the text with the time, named fields, host and process."""

    text: str
    stamp: str
    fields: Mapping[str, str]
    host: str = ""
    pid: str = ""


def opened(line: str) -> Letter:
    """Takes a line apart."""
    host = pid = ""
    text = line
    if found := _LOG_PREFIX.match(text):
        host, text = found[1] or found[2], text[found.end() :]
    stamp = text
    if found := _CONTAINER_LOG.match(text):
        text = text[found.end() :]
    elif (found := _SYSLOG.match(text) or _RFC5424.match(text)) and not _LEVEL.fullmatch(found[1]):
        host, pid = found[1], _digits(found[3])
        text = text[found.end() :]
    if text.startswith("{"):
        return _json(text, stamp, host, pid)
    return _named(text, stamp, _pairs(text), host, pid)


def first(fields: Mapping[str, str], names: Iterable[str]) -> str:
    """The first of these fields that is not empty."""
    return next((fields[name] for name in names if fields.get(name)), "")


def _json(text: str, stamp: str, host: str, pid: str) -> Letter:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return _named(text, stamp, _pairs(text), host, pid)
    fields = _flat(found)
    inner = fields.get("log", "")
    if inner and not fields.keys() & {"message", "msg"}:  # Docker's JSON around a container's line
        letter = opened(inner.rstrip("\n"))
        return letter._replace(host=letter.host or host, stamp=first(fields, TIME) or letter.stamp)
    text = first(fields, TEXT)
    return _named(text, first(fields, TIME) or stamp, {**_pairs(text), **fields}, host, pid)


def _named(text: str, stamp: str, fields: Mapping[str, str], host: str, pid: str) -> Letter:
    by_name = ""
    if stamp.startswith(("time=", "ts=", "level=")):  # logfmt: all fields have names
        by_name, text = first(fields, TIME), first(fields, TEXT) or text
    return Letter(text, by_name or stamp, fields, first(fields, HOST) or host, _digits(first(fields, PID)) or pid)


def _flat(found: Mapping[str, object]) -> dict[str, str]:
    """The fields by name; fields one level down by both names: host.name."""
    fields: dict[str, str] = {}
    for name, value in found.items():
        if isinstance(value, dict):
            fields |= {f"{name}.{inner}": str(each) for inner, each in value.items() if _plain(each)}
        elif _plain(value):
            fields[name] = str(value)
    return fields


def _plain(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _pairs(text: str) -> dict[str, str]:
    """All name=value in the text; the first of each name."""
    fields: dict[str, str] = {}
    for name, value in PAIR.findall(text):
        fields.setdefault(name, _unquoted(value))
    return fields


def _unquoted(value: str) -> str:
    if value[:1] in ("'", '"'):
        return value[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return value


def _digits(text: str | None) -> str:
    return text if text and text.isdigit() else ""
