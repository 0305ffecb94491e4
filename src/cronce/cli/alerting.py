"""Where alerts and pings go, for `run`, `ui` and `watch`: by the command line, the environment or the config.

Each of them (webhooks, commands, the URL for pings) is taken from the first place that names it, as the store is.
"""

import argparse
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from cronce.errors import BadInput
from cronce.monitor.destinations import Command, Destination, Webhook
from cronce.monitor.model import SEVERITIES
from cronce.monitor.monitor import Monitor
from cronce.monitor.pings import Pinger, check_ping
from cronce.monitor.settings import Settings, check_settings
from cronce.runtime.app import Cronce
from cronce.schedule import parse_duration
from cronce.stores.default import alerts_table
from cronce.value import NamedTuple

ALERT: Final = "CRONCE_ALERT"
PING: Final = "CRONCE_PING"
KNOWN: Final = ("webhook", "command", "ping", "threshold", *Settings._fields)
NUMBERS: Final = ("schedulers", "flapping")

LAST_PINGS: Final = 5.0
"""Seconds that are left for pings at the end."""


class Told(NamedTuple):
    """Who is told what: checked."""

    destinations: tuple[Destination, ...]
    ping: str | None
    settings: Settings


def add_alerts(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--alert", action="append", default=[], metavar="URL", help=f"POST alerts there; repeatable (or ${ALERT})")
    add("--alert-command", action="append", default=[], metavar="WORDS", help="run this for each alert; repeatable")
    add("--ping", metavar="URL", help=f"ping it when a run starts, succeeds, fails; {{job}} is its job (or ${PING})")


def told(
    options: argparse.Namespace, environ: Mapping[str, str] = os.environ, *, root: str | os.PathLike[str] = "/"
) -> Told:
    path, table = alerts_table(environ, root=root)
    try:
        config = _checked(table)
    except BadInput as error:
        raise BadInput(f"{path}, [alerts]: {error}") from None
    threshold = config.get("threshold", "warning")
    urls = options.alert or environ.get(ALERT, "").split() or config["webhook"]
    commands = [_words(text) for text in options.alert_command] or config["command"]
    ping = options.ping or environ.get(PING) or config.get("ping")
    destinations: list[Destination] = [Webhook(url, threshold) for url in urls]
    destinations += [Command(_startable(words), threshold) for words in commands]
    return Told(tuple(destinations), ping and check_ping(ping), _settings(options, config))


@contextmanager
def monitored(cron: Cronce, given: Told, *, log: bool = True) -> Iterator[Monitor]:
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


def add_settings(parser: argparse.ArgumentParser) -> None:
    """What is wrong, and from when on. Whoever leads judges by its own, so that most put them into the config."""
    usual, add = Settings(), parser.add_argument
    add("--schedulers", type=int, metavar="N", help="there should be so many schedulers at most")
    add("--late", metavar="SPAN", help="a slot is late when it starts so long after its instant (default: 60s)")
    add("--skew", metavar="SPAN", help="a clock may be off by so much (default: 1s)")
    add("--no-progress", metavar="SPAN", help="a run should come further within so long (default: 15m)")
    add("--flapping", type=int, metavar="N", help=f"a leadership that ends so often flaps (default: {usual.flapping})")
    add("--superseded", metavar="SPAN", help="an old version of a job may live on for so long (default: 10m)")


def _settings(options: argparse.Namespace, config: Mapping[str, Any]) -> Settings:
    said = {name: getattr(options, name, None) for name in Settings._fields}
    chosen = {name: config.get(name) if given is None else given for name, given in said.items()}
    made: dict[str, Any] = {
        name: value if name in NUMBERS else parse_duration(value) for name, value in chosen.items() if value is not None
    }
    return check_settings(Settings(**made))


# --- the config -------------------------------------------------------------------------------------------------------


def _checked(table: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(table.keys() - set(KNOWN))
    if unknown:
        raise BadInput(f"{', '.join(unknown)} is not known; there are {', '.join(KNOWN)}")
    hooks, command, ping = table.get("webhook", []), table.get("command", []), table.get("ping", "")
    hooks = [hooks] if isinstance(hooks, str) else hooks
    if not _are_texts(hooks):
        raise BadInput('webhook is a URL, or a list of them: webhook = "https://…"')
    if not _are_texts(command):
        raise BadInput('command is a list of words: command = ["./page.sh", "on-call"]')
    if not isinstance(ping, str):
        raise BadInput('ping is a URL: ping = "https://…/{job}"')
    if table.get("threshold", "warning") not in SEVERITIES:
        raise BadInput(f"threshold is one of {', '.join(SEVERITIES)}")
    return {**table, "webhook": hooks, "command": [command] if command else []}


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadInput(f"--alert-command {text!r:.60} cannot be read as words: {error}") from None
    if not words:
        raise BadInput("--alert-command is empty; give a program, and what it is given")
    return words


def _startable(words: list[str]) -> list[str]:
    """Whoever is to be called at night is looked for now."""
    if words[0] and shutil.which(words[0]) is None:
        where = "is no program that can be started" if os.sep in words[0] else "is not on the PATH"
        raise BadInput(f"an alert's command is a program and what it is given, and {words[0]!r:.60} {where}")
    return words
