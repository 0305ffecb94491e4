"""cronce jobs: the jobs that the store knows."""

import argparse
import json
from typing import TYPE_CHECKING

from cronce.cli.documents import run_document
from cronce.cli.looking import add_store, looking, tone
from cronce.cli.table import Text, Toned, screen, table
from cronce.cli.words import away, iso
from cronce.clock import SystemClock
from cronce.model import spell
from cronce.runtime.flow import drive
from cronce.runtime.look import JobLine, jobs
from cronce.schedule import Cron, spec_of

if TYPE_CHECKING:
    from cronce.model import Instant
    from cronce.schedule import Schedule


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_store(parser)


def run(options: argparse.Namespace) -> int:
    with looking(options) as store:
        now, lines = drive(jobs(), store, SystemClock())
    if options.json:
        print(json.dumps({"jobs": [_document(line) for line in lines]}))
    else:
        headers = ["job", "schedule", "next slot", "last slot", "outcome"]
        print(table(headers, [_row(line, now) for line in lines], screen()) if lines else "no job is known yet")
    return 0


def _document(line: JobLine) -> dict[str, object]:
    seen = line.seen
    return {
        "job": seen.name,
        "schedules": [spec_of(rule) for rule in seen.schedules],
        "policies": dict(seen.policies),
        "next": iso(line.next),
        "paused": seen.job.paused if seen.job else None,
        "floor": iso(seen.job.floor) if seen.job else None,
        "last": run_document(line.last) if line.last else None,
    }


def _row(line: JobLine, now: "Instant") -> list[Text]:
    seen, last = line.seen, line.last
    if seen.job is None:
        return [seen.name, Toned(seen.trouble, "bad"), "", "", ""]
    upcoming = f"{spell(line.next)} ({away(line.next, now)})" if line.next else ""
    return [
        seen.name,
        _schedules(seen.schedules),
        Toned("paused", tone("paused")) if seen.job.paused else upcoming,
        last.slot.key.partition("@")[2] if last else "",
        Toned(last.shown, tone(last.shown)) if last else "",
    ]


def _schedules(rules: tuple["Schedule", ...]) -> str:
    """A job's schedule as it was written; of several the newest, and that there are others."""
    others = f" ({len(rules)} seen)" if len(rules) > 1 else ""
    return f"{as_written(rules[0])}{others}" if rules else ""


def as_written(rule: "Schedule") -> str:
    return f"{rule.text} {rule.tz}" if isinstance(rule, Cron) and rule.tz != "UTC" else rule.text
