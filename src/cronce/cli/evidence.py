"""cronce audit logs and audit dupes: jobs that started twice, overlapped or never ended, found in logs; and duplicate
rows in a table."""

import argparse
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import datetime
from textwrap import wrap
from typing import Any, Final

from cronce.cli import refuse_outside, say
from cronce.cli.terminal import ColouredText, Screen, Text, paint, screen, table
from cronce.clock import SystemClock
from cronce.errors import BadInput
from cronce.evidence.model import Duplicate, DuplicatesFound, DuplicatesQuery
from cronce.evidence.search import connect, look
from cronce.schedule.instant import format_duration, parse_duration
from cronce.schedule.zone import find_zone
from cronce.stores import mask
from cronce.telling.words import Tone, fine, iso, short
from cronce_audit.logs.fold import Fold, LogReport, Tally
from cronce_audit.logs.judge import CERTAIN, POSSIBLE, Kind, Limits, LogFinding, LogMark, Sure
from cronce_audit.logs.sources import Log, merged, open_logs
from cronce_audit.logs.words import Own

NOTHING_SEEN: Final = 3
MOST_JOBS: Final = 40
_LABEL_WIDTH: Final = 25
_TONE_OF_CERTAINTY: Final[tuple[tuple[Sure, Tone], ...]] = ((CERTAIN, "bad"), (POSSIBLE, "odd"))
LOOKED_FOR: Final = """\
no start of a job was recognised. Looked for, each with a time stamp: a word such as START with a job's name \
(job_id=ORDER_SYNC START, "Job sync started", {"event": "job_started", "job": "sync"}), and lines of cron, of \
supercronic, APScheduler, Celery and cronce. Describe your own lines: \
--start 'begin of (?P<job>\\S+)' --end 'end of (?P<job>\\S+)'\
"""
LOGS_EPILOG = """
examples:
  cronce audit logs /var/log/app/*.log*  --expected 20m
  kubectl logs -l app=shop --timestamps --prefix | cronce audit logs -
  cronce audit logs app.log --start 'begin of (?P<job>\\S+)' --end 'end of (?P<job>\\S+)'

It exits with 0 when nothing was found, 1 when something was, 2 when a file cannot be read, 3 when no start was
recognised.
"""


def add_logs_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="log files, also compressed; - is stdin")
    add("--expected", metavar="SPAN", help="how long a run may take, such as 20m")
    add(
        "--within",
        default="2s",
        metavar="SPAN",
        help="starts closer together than this may be a duplicate (default 2s)",
    )
    add("--tz", metavar="ZONE", help="the time zone of times without an offset (default: UTC)")
    add("--start", metavar="REGEX", help="a line that starts a run; (?P<job>…) and (?P<run>…) name the job and the run")
    add("--end", metavar="REGEX", help="a line that ends a run")
    add("--certain", action="store_true", help="leave out findings that are not certain")
    add("--limit", type=int, default=100, metavar="N", help="show N of each kind (default 100)")
    add("--json", action="store_true", help="print one JSON document")


def run_logs(options: argparse.Namespace) -> int:
    limits = Limits(
        None if options.expected is None else parse_duration(options.expected), parse_duration(options.within)
    )
    if options.limit < 1:
        raise BadInput(f"--limit must be 1 or more, not {options.limit}")
    own = _own(options.start, options.end)
    zone = None if options.tz is None else find_zone(options.tz)
    with ExitStack() as kept:
        logs = open_logs(options.files, zone, SystemClock().wall(), own and own.recognise, kept)
        fold = Fold(limits, options.limit, certain=options.certain)
        for mark in merged(logs):
            fold.see(mark)
    report = fold.close(_until(logs))
    if options.json:
        print(json.dumps(_logs_document(report, logs), ensure_ascii=False))
    if not report.jobs:
        say("logs", LOOKED_FOR)
        return NOTHING_SEEN
    if not options.json:
        print(_logs_page(report, logs, screen()))
    return 1 if report.counts else 0


def _own(start: str | None, end: str | None) -> Own | None:
    if start is None and end is None:
        return None
    if start is None:
        raise BadInput("--end alone finds no start; give --start, too")
    return Own(_pattern("--start", start), None if end is None else _pattern("--end", end))


def _pattern(option: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise BadInput(f"{option} {text!r} is not a regular expression: {error}") from None


def _until(logs: Sequence[Log]) -> dict[str, datetime]:
    """How long each log goes on, its rotated parts together."""
    until: dict[str, datetime] = {}
    for log in logs:
        if log.until is not None:
            until[log.log] = max(log.until, until.get(log.log, log.until))
    return until


# --- logs for people --------------------------------------------------------------------------------------------------


def _logs_page(report: LogReport, logs: Sequence[Log], on: Screen) -> str:
    shown = [line for found in report.findings for line in _lines(found, on)]
    more = sum(report.counts.values()) - len(report.findings)
    if more:
        shown.append(f"… and {more:,} more; --limit shows them")
    parts = ["\n".join(shown), _jobs(report.jobs, on), _logs_summary(report, logs, on)]
    return "\n\n".join(filter(None, parts))


def _lines(found: LogFinding, on: Screen) -> Iterator[str]:
    mark = found.mark
    who = f"{mark.said.job}  {fine(mark.at)}  {mark.place}  ({mark.where})"
    tone: Tone = "bad" if found.sure is CERTAIN else "odd"
    yield f"{paint(ColouredText(f'{found.sure:<9}', tone), on)} {found.kind:<13}  {paint(who, on)}"
    for line in wrap(found.says, (on.width or 120) - _LABEL_WIDTH):
        yield " " * _LABEL_WIDTH + paint(line, on)


def _jobs(jobs: Sequence[Tally], on: Screen) -> str:
    """The jobs, those with findings first."""
    ranked = sorted(jobs, key=lambda job: (-job.certain, -job.possible))
    rows: list[list[Text]] = [
        [job.job, job.form, f"{job.starts:,}", f"{job.ends:,}", f"{job.open:,}", _count(job.certain, "bad"),
         _count(job.possible, "odd")]
        for job in ranked[:MOST_JOBS]
    ]  # fmt: skip
    text = table(["job", "told by", "starts", "ends", "no end", "certain", "possible"], rows, on)
    return text + (f"\n… and {len(jobs) - MOST_JOBS:,} more" if len(jobs) > MOST_JOBS else "")


def _count(number: int, tone: Tone) -> ColouredText:
    return ColouredText(f"{number:,}" if number else "—", tone if number else "dim")


def _logs_summary(report: LogReport, logs: Sequence[Log], on: Screen) -> str:
    lines = sum(log.lines for log in logs)
    seen = f"{report.starts:,} starts in {lines:,} lines of {len(logs):,} file{'s' * (len(logs) > 1)}"
    if not report.counts:
        return paint(ColouredText(f"nothing found in {seen}", "good"), on)
    told = []
    for sure, tone in _TONE_OF_CERTAINTY:
        counts = {kind: report.counts.get((kind, sure), 0) for kind in Kind}
        if any(counts.values()):
            each = ", ".join(f"{number:,} {kind}" for kind, number in counts.items() if number)
            told.append(paint(ColouredText(f"{sure}: {each}", tone), on))
    return "; ".join([*told, seen])


# --- logs for programs ------------------------------------------------------------------------------------------------


def _logs_document(report: LogReport, logs: Sequence[Log]) -> dict[str, object]:
    return {
        "starts": report.starts,
        "findings": [_finding(found) for found in report.findings],
        "counts": {sure: {kind: report.counts.get((kind, sure), 0) for kind in Kind} for sure in (CERTAIN, POSSIBLE)},
        "jobs": [job._asdict() for job in report.jobs],
        "logs": [{"file": log.name, "lines": log.lines, "until": iso(log.until)} for log in logs],
    }


def _finding(found: LogFinding) -> dict[str, object]:
    return {
        "kind": found.kind,
        "sure": found.sure,
        "job": found.mark.said.job,
        "says": found.says,
        **_mark(found.mark),
        "first": _mark(found.first) if found.first else None,
    }


def _mark(mark: LogMark) -> dict[str, object]:
    return {
        "at": iso(mark.at),
        "slot": iso(mark.slot),
        "run": mark.said.run or None,
        "host": mark.place.host,
        "pid": int(mark.place.pid) if mark.place.pid else None,
        "file": mark.file,
        "line": mark.line,
    }


# --- rows of a table --------------------------------------------------------------------------------------------------

MAX_KEYS: Final = 10_000
DUPES_EPILOG = """
examples:
  cronce audit dupes postgresql://shop@db/shop --table orders --key order_id --at created_at --since 30m
  cronce audit dupes --url-from-env DATABASE_URL --table mails --key order_id,kind --at sent_at --since 1d --within 2s
  cronce audit dupes sqlite:///shop.db --table orders --key order_id --at created_at --since 30m --json

The database is only read. It exits with 0 when there is no duplicate, 1 when there is one, 2 when a table or a column
does not exist, 3 when the table has rows but none to check, 75 when the database cannot be reached or does not answer
in time, 78 when it refuses the login.
"""


def add_dupes_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("url", nargs="?", metavar="URL", help="postgresql://…, mysql://… or sqlite:///FILE")
    add("--url-from-env", metavar="NAME", help="the variable that holds the URL, and its password")
    add("--table", required=True, metavar="NAME", help="orders, or shop.orders")
    add("--key", required=True, metavar="COLUMNS", help="the columns that should be unique: order_id, or order_id,kind")
    add("--at", required=True, metavar="COLUMN", help="the column with the time a row was created")
    add("--since", required=True, metavar="SPAN", help="how far to look back, by the database's clock")
    add("--within", metavar="SPAN", help="only rows created this close together")
    add("--tz", default="UTC", metavar="ZONE", help="the time zone of that column, if it has none (default UTC)")
    add("--limit", type=int, default=50, metavar="N", help="show the N newest (default 50)")
    add("--timeout", default="30s", metavar="SPAN", help="give up after this (default 30s)")
    add("--json", action="store_true", help="print one JSON document")


def run_dupes(options: argparse.Namespace) -> int:
    url, asked, zone = _url(options), _asked(options), find_zone(options.tz)
    patience = parse_duration(options.timeout)
    if not patience:
        raise BadInput("--timeout must be more than zero, such as 30s")
    with closing(connect(url, patience)) as database:
        found = look(database, asked, zone)
    if options.json:
        print(json.dumps(_dupes_document(found, asked, url), ensure_ascii=False, default=str))
    else:
        print(_dupes_page(found, asked, screen()))
    if found.rows:
        return 1
    return 0 if found.extent.rows or found.extent.is_empty else NOTHING_SEEN


def _url(options: argparse.Namespace) -> str:
    name = options.url_from_env
    if (options.url is None) == (name is None):
        raise BadInput("name one database: URL, or --url-from-env NAME")
    url: str = options.url if name is None else os.environ.get(name, "")
    if "://" not in url:
        at, place = mask(url).rpartition("@")[1:]  # without a scheme, a password cannot be told from the rest
        shown = f"${name}" if name else repr(f"…@{place}" if at else place)
        raise BadInput(f"{shown} is not the URL of a database: sqlite:///shop.db")
    return url


def _asked(options: argparse.Namespace) -> DuplicatesQuery:
    keys = [key.strip() for key in options.key.split(",")]
    if not all(keys):
        raise BadInput(f"--key {options.key!r} has an empty name in it; write order_id,kind")
    refuse_outside("--limit", options.limit, MAX_KEYS)
    within = None if options.within is None else parse_duration(options.within)
    return DuplicatesQuery(options.table, keys, options.at, parse_duration(options.since), within, options.limit)


# --- rows for people --------------------------------------------------------------------------------------------------


def _dupes_page(found: DuplicatesFound, asked: DuplicatesQuery, on: Screen) -> str:
    query = "\n".join(paint(ColouredText(line, "dim"), on) for line in f"{found.query};".splitlines())
    return "\n\n".join(filter(None, [query, _rows(found, asked, on), _dupes_summary(found, asked, on)]))


def _rows(found: DuplicatesFound, asked: DuplicatesQuery, on: Screen) -> str:
    if not found.rows:
        return ""
    keys = list(found.rows[0].key)
    headers = [*keys, "rows", *(["pairs"] if asked.within is not None else []), "first", "last", "least gap"]
    return table(headers, [_row(one) for one in found.rows], on)


def _row(one: Duplicate) -> list[Text]:
    pairs = [] if one.pairs is None else [f"{one.pairs:,}"]
    gap = short(one.gap) if one.gap else "0s"
    return [
        *map(str, one.key.values()),
        ColouredText(f"{one.rows:,}", "bad"),
        *pairs,
        fine(one.first),
        fine(one.last),
        gap,
    ]


def _dupes_summary(found: DuplicatesFound, asked: DuplicatesQuery, on: Screen) -> str:
    if not found.extent.rows:
        return paint(_nothing(found, asked), on)
    near = f" within {format_duration(asked.within)} of each other" if asked.within is not None else ""
    rows = f"{found.extent.rows:,} row{'s' * (found.extent.rows != 1)}"
    where = f"among {rows} {_where(found, asked)}"
    if not found.rows:
        return paint(ColouredText(f"no duplicate {' and '.join(asked.keys)}{near} {where}", "good"), on)
    number = f"more than {len(found.rows):,}" if found.more else f"{len(found.rows):,}"
    keys = "key" if len(found.rows) == 1 and not found.more else "keys"
    return paint(ColouredText(f"{number} duplicate {keys}{near} {where}", "bad"), on)


def _nothing(found: DuplicatesFound, asked: DuplicatesQuery) -> ColouredText:
    """No duplicate, but for want of rows: the zone may be the wrong one, or the column."""
    if found.extent.is_empty:
        return ColouredText(f"{found.table} is empty", "good")
    if found.extent.newest is None:
        return ColouredText(f"nothing to check: no row in {found.table} has a time in {asked.at} and a key", "odd")
    newest = f"the newest is of {fine(found.extent.newest)} (--tz sets its time zone, --since how far to look back)"
    return ColouredText(f"nothing to check: no row {_where(found, asked)}; {newest}", "odd")


def _where(found: DuplicatesFound, asked: DuplicatesQuery) -> str:
    return f"in {found.table} since {fine(found.since)} ({format_duration(asked.since)})"


# --- rows for programs ------------------------------------------------------------------------------------------------


def _dupes_document(found: DuplicatesFound, asked: DuplicatesQuery, url: str) -> dict[str, Any]:
    return {
        "url": mask(url),
        "table": found.table,
        "since": iso(found.since),
        "within_ms": None if asked.within is None else asked.within.total_seconds() * 1000,
        "query": found.query,
        "looked_at": found.extent.rows,
        "newest": iso(found.extent.newest),
        "duplicates": [_duplicate(one) for one in found.rows],
        "more": found.more,
    }


def _duplicate(one: Duplicate) -> dict[str, Any]:
    return {
        "key": dict(one.key),
        "rows": one.rows,
        "pairs": one.pairs,
        "first": iso(one.first),
        "last": iso(one.last),
        "gap_ms": one.gap.total_seconds() * 1000,
    }
