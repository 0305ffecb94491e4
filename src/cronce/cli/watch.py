"""cronce watch: watch the store, and tell of what is wrong."""

import argparse
import json
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import Final

from cronce.cli.alerting import Told, add_alerts, add_settings, monitored, told
from cronce.cli.looking import add_store, looking, nothing
from cronce.cli.table import Screen, Text, Tone, Toned, paint, screen, table
from cronce.clock import SystemClock
from cronce.model import spell
from cronce.monitor.alerts import alert_of
from cronce.monitor.destinations import reaches
from cronce.monitor.gathered import gathered
from cronce.monitor.known import Known
from cronce.monitor.model import SEVERITIES, Finding
from cronce.monitor.survey import Memory, survey
from cronce.monitor.watch import judge
from cronce.protocol.notices import Alert
from cronce.runtime.app import Cronce
from cronce.runtime.flow import drive
from cronce.stores import mask
from cronce.telling.notices import raised_document
from cronce.telling.words import short

TEXT: Final = """\
Watch the store and tell of what is wrong: schedulers that fell silent, slots that were missed, runs that are lost, late
or too long, clocks that are off, copies of a store, and more. It goes on until TERM or Ctrl-C, prints each alert when
it is raised and when it is over, and sends it to whoever is named. Each `cronce run` and `cronce ui` watches, too: one
of them all leads, and each alert is sent once.

With --once it looks once, prints what is wrong and ends: for a monitoring system to call. It remembers nothing, and so
sees of each job the latest slot or two, and of no run that it comes no further: for those let a watcher stay.

exit codes with --once: 0 nothing is as bad as --threshold; 1 something is; 75 the store cannot be reached; 78 the store
needs a person."""

EXAMPLES: Final = """
examples:
  cronce watch --alert https://hooks.slack.com/services/…
  cronce watch --alert-command './page.sh on-call' --schedulers 3
  cronce watch --once --threshold critical
  cronce watch --json
"""

TONES: Final[Mapping[str, Tone]] = {"critical": "bad", "warning": "odd", "info": "dim"}
PEEK: Final = 0.5
"""Seconds between two looks at whether there is news."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = TEXT, EXAMPLES
    add_store(parser)
    add = parser.add_argument
    add("--once", action="store_true", help="look once, print what is wrong, and end")
    add(
        "--threshold", choices=SEVERITIES, default="warning", help="from which severity on it counts (default: warning)"
    )
    add_settings(parser)
    add_alerts(parser)


def run(options: argparse.Namespace) -> int:
    given = told(options)
    return _once(options, given) if options.once else _watch(options, given)


# --- once -------------------------------------------------------------------------------------------------------------


def _once(options: argparse.Namespace, given: Told) -> int:
    with looking(options) as store:
        seen = drive(survey(Known()), store, SystemClock())
    found, _ = judge(seen, Memory(), given.settings)
    findings = gathered(found)
    if options.json:
        print(json.dumps({"alerts": [raised_document(alert_of(one)) for one in findings]}))
    else:
        print(_table(findings) if findings else nothing("nothing is wrong", options))
        if findings and options.store:
            print(_elsewhere(options.store))
    return 1 if any(reaches(one.severity, options.threshold) for one in findings) else 0


def _elsewhere(store: str, which: str = "above") -> str:
    """What is copied out of a finding would ask the usual store."""
    return f"the commands {which} need `--store {shlex.quote(mask(store))}`, too"


def _table(findings: Sequence[Finding]) -> str:
    """In full: what to do about it is at the end of a line."""
    rows: list[list[Text]] = [
        [Toned(one.severity, TONES[one.severity]), one.kind, spell(one.since), _said(one)] for one in findings
    ]
    return table(["severity", "what", "since", "why"], rows, screen()._replace(width=None))


def _said(one: Finding | Alert) -> str:
    return f"{one.text} {one.remedy}".strip()


# --- on and on --------------------------------------------------------------------------------------------------------


def _watch(options: argparse.Namespace, given: Told) -> int:
    shown: dict[tuple[str, str], Alert] = {}
    on = screen()
    with Cronce(options.store) as cron, monitored(cron, given, log=False) as monitor, _until_told() as stopped:
        with looking(options):  # a store that is not there, or cannot be used, is refused as ever
            pass
        if not options.json:
            _say(f"cronce watch: on {cron.place}")
            if options.store:
                _say(_elsewhere(options.store, "that it names"))
        while not stopped.wait(PEEK):
            now = [one for one in (*monitor.standing, *monitor.own) if reaches(one.severity, options.threshold)]
            for state, alert in _news(shown, now):
                document = {"state": state, **raised_document(alert)}
                _say(json.dumps(document) if options.json else _line(state, alert, on))
    return 0


def _news(shown: dict[tuple[str, str], Alert], now: Sequence[Alert]) -> Iterator[tuple[str, Alert]]:
    """What was raised and cleared since it was last shown."""
    stand = {(one.kind, one.subject): one for one in now if one.cleared is None}
    for key in stand.keys() - shown.keys():
        yield "raised", stand[key]
    for key in shown.keys() - stand.keys():
        yield "cleared", shown[key]
    shown.clear()
    shown.update(stand)


def _line(state: str, alert: Alert, on: Screen) -> str:
    word = Toned(alert.severity, TONES.get(alert.severity)) if state == "raised" else Toned("over", "good")
    now = SystemClock().wall()
    lasted = "" if state == "raised" else f", after {short(max(now - alert.since, timedelta(0)))}"
    said = _said(alert) if state == "raised" else alert.text
    return f"{spell(now)} {paint(word, on)} {alert.kind}{lasted}: {paint(said, on)}"


@contextmanager
def _until_told() -> Iterator[threading.Event]:
    told_to = threading.Event()

    def came(_number: int, _frame: FrameType | None) -> None:
        told_to.set()

    before = {number: signal.signal(number, came) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield told_to
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(line: str) -> None:
    if sys.stdout is not None:
        print(line, flush=True)
