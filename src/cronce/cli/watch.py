"""cronce watch: watch the store, and report what is wrong. And where alerts and pings go, for `run` and `ui` too.

Each setting (webhooks, commands, the URL for pings) comes from the first of these that names it: the command line, the
environment, the config.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from shlex import quote
from typing import Any, Final

from cronce.cli import Arguments, add_arguments, on_signals, pasteable
from cronce.cli.session import ACT_ARGUMENTS, STORE_AND_JSON, acting, looking, nothing, read_words
from cronce.cli.terminal import ColouredText, Screen, Text, paint, screen, show, table, toned
from cronce.clock import SystemClock
from cronce.errors import BadInput, NotOnRecord
from cronce.model import spell
from cronce.monitor.alerts import SEVERITIES, AlertKind, Alerts, gathered, handle, is_seen_to, no_such_alert
from cronce.monitor.destinations import CommandDestination, Destination, Webhook, reaches
from cronce.monitor.monitor import Monitor
from cronce.monitor.pings import Pinger, check_ping
from cronce.monitor.settings import Settings, check_settings
from cronce.monitor.survey import WatcherState, WatchMemory, survey
from cronce.monitor.watch import clock, judge
from cronce.monitor.watch_runs import first_of_each, unsaid
from cronce.protocol.notices import Alert
from cronce.runtime.app import Cronce
from cronce.runtime.clock_repair import clock_doubt
from cronce.runtime.journal import own_journal
from cronce.runtime.node import Node
from cronce.schedule import parse_duration
from cronce.stores.default import alerts_table, choose
from cronce.telling.documents import raised_document
from cronce.telling.words import counted, handled_by, safe, short
from cronce.value import NamedTuple

ALERT: Final = "CRONCE_ALERT"
PING: Final = "CRONCE_PING"
PAGE_VARIABLE: Final = "CRONCE_PAGE"
WATCH_KEYS: Final = ("webhook", "command", "ping", "threshold", *Settings._fields)
AS_GIVEN: Final = ("schedulers", "flapping", "page")

LAST_PINGS: Final = 5.0
"""Seconds that are left for pings at the end."""


class AlertTargets(NamedTuple):
    """Where alerts and pings go, and the settings: checked."""

    destinations: tuple[Destination, ...]
    ping: str | None
    settings: Settings


ALERT_ARGUMENTS: Final[Arguments] = {
    "--alert URL": ([], f"POST alerts to this URL; repeatable (or ${ALERT})"),
    "--alert-command WORDS": ([], "run this for each alert; repeatable"),
    "--page URL": f"where the page is: alerts link to it (or ${PAGE_VARIABLE})",
    "--ping URL": f"ping it when a run starts, succeeds or fails; {{job}} is the job's name (or ${PING})",
}


def told(
    options: argparse.Namespace, environ: Mapping[str, str] = os.environ, *, root: str | os.PathLike[str] = "/"
) -> AlertTargets:
    path, table = alerts_table(environ, root=root)
    try:
        config = _checked(table)
    except BadInput as error:
        raise BadInput(f"{path}, [alerts]: {error}") from None
    threshold = config.get("threshold", "warning")
    urls = options.alert or environ.get(ALERT, "").split() or config["webhook"]
    commands = [read_words("--alert-command", text) for text in options.alert_command] or config["command"]
    ping = options.ping or environ.get(PING) or config.get("ping")
    destinations: list[Destination] = [Webhook(url, threshold) for url in urls]
    destinations += [CommandDestination(_startable(words), threshold) for words in commands]
    settings = _settings(options, config)
    settings = settings._replace(page=settings.page or environ.get(PAGE_VARIABLE, ""))
    return AlertTargets(tuple(destinations), ping and check_ping(ping), check_settings(settings))


@contextmanager
def monitored(cron: Cronce, given: AlertTargets, *, log: bool = True) -> Iterator[Monitor]:
    """In the block this process watches and tells. Should the block end because the store cannot be used, that is told
    before."""
    pinger = Pinger(given.ping) if given.ping else None
    if pinger is not None:
        cron.on_event(pinger.hear)
    try:
        with Monitor(cron, given.destinations, given.settings, log=log) as monitor:
            yield monitor
    finally:
        if pinger is not None:
            pinger.close(LAST_PINGS)


# --- settings ---------------------------------------------------------------------------------------------------------


WATCH_SETTINGS: Final = {
    "--schedulers N": "the highest number of schedulers to expect",
    "--late SPAN": "a slot that starts later than this is late (default: 60s)",
    "--skew SPAN": "how far a clock may be off (default: 1s)",
    "--no-progress SPAN": "a run without progress for this long is stalled (default: 15m)",
    "--flapping N": f"a leader that changes this often is unstable (default: {Settings().flapping})",
    "--superseded SPAN": "how long an old version of a job may keep running (default: 10m)",
}
"""From when on something is wrong. The watcher that leads uses its own settings, so most users put them into the
config."""


def _settings(options: argparse.Namespace, config: Mapping[str, Any]) -> Settings:
    said = {name: getattr(options, name, None) for name in Settings._fields}
    chosen = {name: config.get(name) if given is None else given for name, given in said.items()}
    made: dict[str, Any] = {
        name: value if name in AS_GIVEN else parse_duration(value)
        for name, value in chosen.items()
        if value is not None
    }
    return check_settings(Settings(**made))


# --- the config -------------------------------------------------------------------------------------------------------


def _checked(table: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(table.keys() - set(WATCH_KEYS))
    if unknown:
        raise BadInput(f"{', '.join(unknown)} is not known; known: {', '.join(WATCH_KEYS)}")
    hooks, command, ping = table.get("webhook", []), table.get("command", []), table.get("ping", "")
    hooks = [hooks] if isinstance(hooks, str) else hooks
    if not _are_texts(hooks):
        raise BadInput('webhook must be a URL, or a list of them: webhook = "https://…"')
    if not _are_texts(command):
        raise BadInput('command must be a list of words: command = ["./page.sh", "on-call"]')
    if not isinstance(ping, str):
        raise BadInput('ping must be a URL: ping = "https://…/{job}"')
    if table.get("threshold", "warning") not in SEVERITIES:
        raise BadInput(f"threshold must be one of {', '.join(SEVERITIES)}")
    return {**table, "webhook": hooks, "command": [command] if command else []}


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _startable(words: list[str]) -> list[str]:
    """Checked now, so that it does not fail at night."""
    if words[0] and shutil.which(words[0]) is None:
        where = "cannot be started" if os.sep in words[0] else "is not on the PATH"
        raise BadInput(f"an alert's command is a program and its arguments, and {words[0]!r:.60} {where}")
    return words


# --- watching ---------------------------------------------------------------------------------------------------------

WATCH_DESCRIPTION: Final = """\
Watch the store and report what is wrong: silent schedulers, missed slots, runs that are lost, late or too long, clocks
that are off, copies of a store, and more. It runs until TERM or Ctrl-C. It prints each alert when it is raised and when
it clears, and sends it to the destinations you name. Each `cronce run` and `cronce ui` watches, too: one of them leads,
so each alert is sent once.

With --once it checks once, prints what is wrong and exits: for a monitoring system to call. A single check sees only
the last one or two slots of each job and cannot spot a stalled run; keep `cronce watch` running for that.

exit codes with --once: 0 nothing is as bad as --threshold; 1 something is; 75 the store cannot be reached; 78 the store
needs a person."""

WATCH_EPILOG: Final = """
examples:
  cronce watch --alert https://hooks.slack.com/services/…
  cronce watch --alert-command './page.sh on-call' --schedulers 3
  cronce watch --once --threshold critical
  cronce watch --json
  cronce watch --acknowledge lost/billing --reason 'on it'
  cronce watch --acknowledge lost/billing --for 1h
"""

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
PEEK: Final = 0.5
"""Seconds between two looks at whether there is news."""


WATCH_ARGUMENTS: Final[Arguments] = {
    **STORE_AND_JSON,
    "--once": "check once, print what is wrong, and exit",
    "--threshold {critical,warning,info}": ("warning", "the lowest severity that counts (default: warning)"),
    **WATCH_SETTINGS,
    **ALERT_ARGUMENTS,
}
OF_AN_ALERT: Final[Arguments] = {
    "--acknowledge ALERT": "record that you work on it: nothing more is sent about it",
    "span: --for SPAN": "snooze it: it is sent again if it is still open then",
    **ACT_ARGUMENTS,
}


def add_watch_arguments(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser.add_argument_group("an open alert"), OF_AN_ALERT)


def run_watch(options: argparse.Namespace) -> int:
    if options.acknowledge is not None:
        return _acknowledge(options)
    if options.span:
        raise BadInput("--for snoozes an alert: name the alert with --acknowledge ALERT")
    given = told(options)
    return _once(options, given) if options.once else _watch(options, given)


def _acknowledge(options: argparse.Namespace) -> int:
    span = parse_duration(options.span) if options.span is not None else None
    if span is not None and not span:
        raise BadInput("--for must be longer than 0s; without --for, the alert is acknowledged for good")
    with acting(options) as actor:
        client, name = actor.operator.ledger.client, options.acknowledge
        try:
            done = actor.node.do(handle(client, name, actor.operator.by, options.reason, span))
        except NotOnRecord:  # `--once` also shows what no watcher has recorded yet
            found = _judged(actor.node, told(options).settings)
            shown = gathered(found)
            meant = [one for one in (*found, *shown) if one.id in (name, f"{name}/")][:1]
            if not meant:
                posted = actor.node.do(Alerts(client).standing()).posted
                standing = [one.alert for one in posted if one.alert.cleared is None]
                raise no_such_alert(name, [*standing, *shown]) from None
            actor.node.do(Alerts(client).settle(meant, lambda _alert: False))
            done = actor.node.do(handle(client, name, actor.operator.by, options.reason, span))
    what = f"snoozed for {short(span)}" if span else "acknowledged"
    show(options, done, f"{name} is {what} by {actor.operator.by}")
    return 0


# --- once -------------------------------------------------------------------------------------------------------------


def _judged(node: Node, settings: Settings) -> list[Alert]:
    """What is wrong at this moment, whether or not a watcher has recorded it."""
    doubt = node.do(clock_doubt(node.ledger))
    if doubt is not None:
        return [clock(doubt, node.ledger.know.now())]
    return judge(node.do(survey(WatcherState(), node.store.traits)), WatchMemory(), settings)[0]


def _once(options: argparse.Namespace, given: AlertTargets) -> int:
    with looking(options) as node:
        found = _judged(node, given.settings)
        posted = node.do(Alerts(node.ledger.client).standing())
    seen_to = {one.alert.id: one.alert for one in posted.posted if is_seen_to(one.alert, posted.now)}
    journal = own_journal(choose(options.store)).all()
    findings = gathered([*found, *first_of_each(unsaid(journal, SystemClock().wall()))])
    text = _table(findings, seen_to) if findings else nothing("nothing is wrong", options)
    show(options, {"alerts": [raised_document(one) for one in findings]}, text)
    return 1 if any(reaches(one.severity, options.threshold) for one in findings) else 0


def _table(findings: Sequence[Alert], seen_to: Mapping[str, Alert]) -> str:
    """In full: what to do about it is at the end of a line. `seen_to`: those that a person works on."""
    rows: list[list[Text]] = [
        [toned(one.severity), one.id.removesuffix("/"), spell(one.since), _handled(one, seen_to) + _said(one)]
        for one in findings
    ]
    page = table(["severity", "what", "since", "why"], rows, screen()._replace(width=None))
    new = next((one.id.removesuffix("/") for one in findings if one.id not in seen_to), "")
    hint = f"`cronce watch --acknowledge {quote(safe(new))}` says that you work on it" if new else ""
    single = any(one.kind == AlertKind.MISSED for one in findings)
    seen = "a single look sees the last one or two slots of a job: earlier ones may be missing, too" if single else ""
    return "\n".join(filter(None, (page, seen, hint)))


def _handled(one: Alert, seen_to: Mapping[str, Alert]) -> str:
    handled = seen_to[one.id].handled if one.id in seen_to else None
    return f"{handled_by(handled)}: " if handled else ""


def _said(one: Alert) -> str:
    return f"{one.text} {one.remedy}".strip()


# --- on and on --------------------------------------------------------------------------------------------------------


def _watch(options: argparse.Namespace, given: AlertTargets) -> int:
    shown: dict[tuple[str, str], Alert] = {}
    on, stopped, ends = screen(), threading.Event(), on_signals(STOP_SIGNALS, lambda _number, _frame: stopped.set())
    place = choose(options.store).url  # named, so that the application does not print the default store once more
    with Cronce(place) as cron, monitored(cron, given, log=False) as monitor, ends:
        with looking(options) as node:  # a store that is not there, or cannot be used, is refused as ever
            if not options.json:
                wrong = [
                    one for one in gathered(_judged(node, given.settings)) if reaches(one.severity, options.threshold)
                ]
                _say(_start(cron.place, len(given.destinations), len(wrong)))
        while not stopped.wait(PEEK):
            now = [one for one in (*monitor.standing, *monitor.own) if reaches(one.severity, options.threshold)]
            for state, alert in _news(shown, now):
                document = {"state": state, **raised_document(alert)}
                _say(json.dumps(document) if options.json else pasteable(_line(state, alert, on)))
    return 0


def _start(place: str, destinations: int, wrong: int) -> str:
    """The first line: nothing more may come for days."""
    sent = f"sent to {counted(destinations, 'destination')}" if destinations else "sent nowhere without --alert URL"
    state = f"{counted(wrong, 'alert')} now" if wrong else "nothing is wrong now"
    return f"cronce watch: watching {place} until Ctrl-C; alerts are printed here and {sent}; {state}"


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
    word = toned(alert.severity) if state == "raised" else ColouredText("over", "good")
    now = SystemClock().wall()
    lasted = "" if state == "raised" else f", after {short(max(now - alert.since, timedelta(0)))}"
    said = _said(alert) if state == "raised" else alert.text
    return f"{spell(now)} {paint(word, on)} {safe(alert.id).removesuffix('/')}{lasted}: {paint(said, on)}"


def _say(line: str) -> None:
    if sys.stdout is not None:
        print(line, flush=True)
