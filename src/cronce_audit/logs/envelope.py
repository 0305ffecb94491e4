"""A line, opened: who wrote it and what it says. JSON, logfmt, syslog old and new, and what Docker and Kubernetes put
around the lines of a container."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final

from cronce.value import NamedTuple

_PREFIX: Final = re.compile(r"(?:([\w.-]{1,100}) +\||\[pod/([\w.-]{1,100})/[\w.-]{1,100}\]) ")
"""Of `docker compose logs`, and of `kubectl logs --prefix`."""
_CONTAINER: Final = re.compile(r"\S{20,40} (?:stdout|stderr) [FP] ")
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
    """`stamp` is the text that says when; `fields` what it says by name."""

    text: str
    stamp: str
    fields: Mapping[str, str]
    host: str = ""
    pid: str = ""


def opened(line: str) -> Letter:
    """What a line says, and who says it, as far as it does."""
    host = pid = ""
    text = line
    if found := _PREFIX.match(text):
        host, text = found[1] or found[2], text[found.end() :]
    stamp = text
    if found := _CONTAINER.match(text):
        text = text[found.end() :]
    elif (found := _SYSLOG.match(text) or _RFC5424.match(text)) and not _LEVEL.fullmatch(found[1]):
        host, pid = found[1], _digits(found[3])
        text = text[found.end() :]
    if text.startswith("{"):
        return _json(text, stamp, host, pid)
    return _named(text, stamp, _pairs(text), host, pid)


def first(fields: Mapping[str, str], names: Iterable[str]) -> str:
    """The first of these fields that says anything."""
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
    if inner and not fields.keys() & {"message", "msg"}:  # Docker's, around the line of a container
        letter = opened(inner.rstrip("\n"))
        return letter._replace(host=letter.host or host, stamp=first(fields, TIME) or letter.stamp)
    text = first(fields, TEXT)
    return _named(text, first(fields, TIME) or stamp, {**_pairs(text), **fields}, host, pid)


def _named(text: str, stamp: str, fields: Mapping[str, str], host: str, pid: str) -> Letter:
    by_name = ""
    if stamp.startswith(("time=", "ts=", "level=")):  # logfmt: all that it says has a name
        by_name, text = first(fields, TIME), first(fields, TEXT) or text
    return Letter(text, by_name or stamp, fields, first(fields, HOST) or host, _digits(first(fields, PID)) or pid)


def _flat(found: Mapping[str, object]) -> dict[str, str]:
    """The fields by name; those of a field's own, one level down, by both names: host.name."""
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
    """What stands there as name=value; of two with one name the first."""
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
