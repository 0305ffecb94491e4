"""Logs as text, and what is found in them, in brief."""

import io
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo

from cronce_audit.logs.envelope import Stamps
from cronce_audit.logs.fold import Fold, LogReport
from cronce_audit.logs.judge import Limits, LogMark
from cronce_audit.logs.sources import Log, merged
from cronce_audit.logs.words import Recogniser

NEWEST = datetime(2026, 11, 15, tzinfo=UTC)
Brief = tuple[str, str, str, str]


def logs_of(
    texts: Mapping[str, str | bytes],
    zone: tzinfo | None = UTC,
    newest: datetime = NEWEST,
    own: Recogniser | None = None,
) -> list[Log]:
    raw = {name: text.encode() if isinstance(text, str) else text for name, text in texts.items()}
    return [Log(io.BytesIO(text), name, Stamps(zone, newest), own) for name, text in raw.items()]


def marks(
    text: str | bytes, zone: tzinfo | None = UTC, newest: datetime = NEWEST, own: Recogniser | None = None
) -> list[LogMark]:
    return list(merged(logs_of({"app.log": text}, zone, newest, own)))


def report(
    texts: str | Mapping[str, str], *, expected: int | None = None, within: float = 2, most: int = 100,
    certain: bool = False, zone: tzinfo | None = UTC,
) -> LogReport:  # fmt: skip
    """`expected` in minutes, `within` in seconds."""
    logs = logs_of({"app.log": texts} if isinstance(texts, str) else texts, zone)
    limits = Limits(None if expected is None else timedelta(minutes=expected), timedelta(seconds=within))
    fold = Fold(limits, most, certain=certain)
    for mark in merged(logs):
        fold.see(mark)
    until: dict[str, datetime] = {}
    for log in logs:
        if log.until:
            until[log.log] = max(log.until, until.get(log.log, log.until))
    return fold.close(until)


def found(
    texts: str | Mapping[str, str], *, expected: int | None = None, within: float = 2, zone: tzinfo | None = UTC
) -> list[Brief]:
    """The kind, how sure, the job, and the line it is about."""
    told = report(texts, expected=expected, within=within, zone=zone)
    return [(one.kind, one.sure, one.mark.said.job, one.mark.where) for one in told.findings]


def says(texts: str | Mapping[str, str], *, expected: int | None = None, zone: tzinfo | None = UTC) -> list[str]:
    return [one.says for one in report(texts, expected=expected, zone=zone).findings]


def log(text: str) -> str:
    """Lines of a day: `14:00:00 job=sync START`."""
    return "".join(f"2026-11-01 {line.strip()}\n" for line in text.strip().splitlines())
