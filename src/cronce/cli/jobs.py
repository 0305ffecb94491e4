"""cronce jobs: the jobs that the store knows."""

import argparse
import json
from typing import TYPE_CHECKING

from cronce.cli.looking import add_store, looking, nothing, tone
from cronce.cli.table import Text, Toned, paint, screen, table
from cronce.clock import SystemClock
from cronce.model import spell
from cronce.runtime.flow import drive
from cronce.runtime.holders import carried
from cronce.runtime.look import JobLine, halted
from cronce.runtime.stored.definitions import listed
from cronce.telling.documents import act_document, job_document
from cronce.telling.schedules import as_written
from cronce.telling.words import away, by_whom

if TYPE_CHECKING:
    from cronce.model import Instant
    from cronce.protocol.record import Stored
    from cronce.schedule import Schedule


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_store(parser)


def run(options: argparse.Namespace) -> int:
    with looking(options) as store:
        now, lines = drive(listed(), store, SystemClock())
        everything = drive(halted(), store, SystemClock())
        served = drive(carried(), store, SystemClock())
    if options.json:
        print(json.dumps({"jobs": [job_document(line, served) for line in lines], "halted": act_document(everything)}))
    else:
        if everything:
            print(paint(Toned(f"everything is paused {by_whom(everything)}", tone("paused")), screen()))
        headers = ["job", "schedule", "next slot", "last slot", "outcome"]
        rows = [_row(line, now, served) for line in lines]
        if any(line.stored for line in lines):
            headers.append("stored")
            rows = [[*row, _stored(line.stored)] for row, line in zip(rows, lines, strict=True)]
        print(table(headers, rows, screen()) if lines else nothing("no job is known yet", options))
    return 0


def _row(line: JobLine, now: "Instant", carried: set[str]) -> list[Text]:
    seen, last = line.seen, line.last
    if seen.job is None:
        return [seen.name, Toned(seen.trouble, "bad"), "", "", ""]
    upcoming: Text = f"{spell(line.next)} ({away(line.next, now)})" if line.next else ""
    if upcoming and seen.is_scheduled and seen.name not in carried:
        upcoming = Toned(f"{upcoming}, nobody runs it", "bad")
    return [
        seen.name,
        _schedules(seen.schedules),
        Toned(f"paused {by_whom(seen.job.paused)}", tone("paused")) if seen.job.paused else upcoming,
        last.slot.key.partition("@")[2] if last else "",
        Toned(last.shown, tone(last.shown)) if last else "",
    ]


def _stored(stored: "Stored | None") -> str:
    return f"{'by' if stored.definition else 'removed by'} {stored.by}" if stored else ""


def _schedules(rules: tuple["Schedule", ...]) -> str:
    """A job's schedule as it was written; of several the newest, and that there are others."""
    others = f" ({len(rules)} seen)" if len(rules) > 1 else ""
    return f"{as_written(rules[0])}{others}" if rules else ""
