"""cronce logs: jobs that started twice, overlapped or never ended, found in logs."""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from textwrap import wrap
from typing import Final

from cronce.cli.table import Screen, Text, Tone, Toned, paint, screen, table
from cronce.clock import SystemClock
from cronce.errors import BadInput
from cronce.evidence.logs.fold import Fold, Report, Tally
from cronce.evidence.logs.judge import Limits
from cronce.evidence.logs.model import CERTAIN, POSSIBLE, Finding, Kind, Mark, Sure
from cronce.evidence.logs.sources import Log, merged, open_logs
from cronce.evidence.logs.words import Own
from cronce.schedule.duration import parse_duration
from cronce.schedule.zone import find_zone
from cronce.telling.words import fine, iso

NOTHING_SEEN: Final = 3
MOST_JOBS: Final = 40
_INDENT: Final = 25
_TONES: Final[tuple[tuple[Sure, Tone], ...]] = ((CERTAIN, "bad"), (POSSIBLE, "odd"))
LOOKED_FOR: Final = """\
no start of a job was recognised. Looked for, each with a time stamp: a word such as START with a job's name \
(job_id=ORDER_SYNC START, "Job sync started", {"event": "job_started", "job": "sync"}), and lines of cron, of \
supercronic, APScheduler, Celery and cronce. Say what yours look like: \
--start 'begin of (?P<job>\\S+)' --end 'end of (?P<job>\\S+)'\
"""
EXAMPLES = """
examples:
  cronce logs /var/log/app/*.log*  --expected 20m
  kubectl logs -l app=shop --timestamps --prefix | cronce logs -
  cronce logs app.log --start 'begin of (?P<job>\\S+)' --end 'end of (?P<job>\\S+)'

It exits with 0 when nothing was found, 1 when something was, 2 when a file cannot be read, 3 when no start was
recognised.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="logs, also compressed ones; - is stdin")
    parser.add_argument("--expected", metavar="SPAN", help="how long a run may take, such as 20m")
    parser.add_argument("--within", default="2s", metavar="SPAN", help="starts as near as this are one (default 2s)")
    parser.add_argument(
        "--tz", metavar="ZONE", help="by whose clocks stamps without an offset are (UTC, unless it is said)"
    )
    parser.add_argument("--start", metavar="REGEX", help="what a start looks like; (?P<job>…) and (?P<run>…) say which")
    parser.add_argument("--end", metavar="REGEX", help="what an end looks like")
    parser.add_argument("--certain", action="store_true", help="leave out what is only possible")
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="show N of each kind (default 100)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.epilog = EXAMPLES


def run(options: argparse.Namespace) -> int:
    limits = Limits(
        None if options.expected is None else parse_duration(options.expected), parse_duration(options.within)
    )
    if options.limit < 1:
        raise BadInput(f"--limit is 1 at least, and this is {options.limit}")
    own = _own(options.start, options.end)
    zone = None if options.tz is None else find_zone(options.tz)
    with ExitStack() as kept:
        logs = open_logs(options.files, zone, SystemClock().wall(), own and own.recognise, kept)
        fold = Fold(limits, options.limit, certain=options.certain)
        for mark in merged(logs):
            fold.see(mark)
    report = fold.close(_until(logs))
    if options.json:
        print(json.dumps(_document(report, logs), ensure_ascii=False))
    if not report.jobs:
        print(f"cronce logs: {LOOKED_FOR}", file=sys.stderr)
        return NOTHING_SEEN
    if not options.json:
        print(_page(report, logs, screen()))
    return 1 if report.counts else 0


def _own(start: str | None, end: str | None) -> Own | None:
    if start is None and end is None:
        return None
    if start is None:
        raise BadInput("--end alone finds no start; say --start, too")
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


# --- for people -----------------------------------------------------------------------------------------------------


def _page(report: Report, logs: Sequence[Log], on: Screen) -> str:
    shown = [line for found in report.findings for line in _lines(found, on)]
    more = sum(report.counts.values()) - len(report.findings)
    if more:
        shown.append(f"… and {more:,} more; --limit shows them")
    parts = ["\n".join(shown), _jobs(report.jobs, on), _summary(report, logs, on)]
    return "\n\n".join(filter(None, parts))


def _lines(found: Finding, on: Screen) -> Iterator[str]:
    mark = found.mark
    tone: Tone = "bad" if found.sure is CERTAIN else "odd"
    yield f"{paint(Toned(f'{found.sure:<9}', tone), on)} {found.kind:<13}  {paint(_who(mark), on)}"
    for line in wrap(found.says, (on.width or 120) - _INDENT):
        yield " " * _INDENT + paint(line, on)


def _who(mark: Mark) -> str:
    return f"{mark.said.job}  {fine(mark.at)}  {mark.place}  ({mark.where})"


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


def _count(number: int, tone: Tone) -> Toned:
    return Toned(f"{number:,}" if number else "—", tone if number else "dim")


def _summary(report: Report, logs: Sequence[Log], on: Screen) -> str:
    lines = sum(log.lines for log in logs)
    seen = f"{report.starts:,} starts in {lines:,} lines of {len(logs):,} file{'s' * (len(logs) > 1)}"
    if not report.counts:
        return paint(Toned(f"nothing found in {seen}", "good"), on)
    told = []
    for sure, tone in _TONES:
        counts = {kind: report.counts.get((kind, sure), 0) for kind in Kind}
        if any(counts.values()):
            each = ", ".join(f"{number:,} {kind}" for kind, number in counts.items() if number)
            told.append(paint(Toned(f"{sure}: {each}", tone), on))
    return "; ".join([*told, seen])


# --- for programs ---------------------------------------------------------------------------------------------------


def _document(report: Report, logs: Sequence[Log]) -> dict[str, object]:
    return {
        "starts": report.starts,
        "findings": [_finding(found) for found in report.findings],
        "counts": {sure: {kind: report.counts.get((kind, sure), 0) for kind in Kind} for sure in (CERTAIN, POSSIBLE)},
        "jobs": [job._asdict() for job in report.jobs],
        "logs": [{"file": log.name, "lines": log.lines, "until": iso(log.until)} for log in logs],
    }


def _finding(found: Finding) -> dict[str, object]:
    return {
        "kind": found.kind,
        "sure": found.sure,
        "job": found.mark.said.job,
        "says": found.says,
        **_mark(found.mark),
        "first": _mark(found.first) if found.first else None,
    }


def _mark(mark: Mark) -> dict[str, object]:
    return {
        "at": iso(mark.at),
        "slot": iso(mark.slot),
        "run": mark.said.run or None,
        "host": mark.place.host,
        "pid": int(mark.place.pid) if mark.place.pid else None,
        "file": mark.file,
        "line": mark.line,
    }
