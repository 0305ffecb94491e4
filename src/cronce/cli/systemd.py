"""cronce systemd: a service and a timer for a guarded command. What they say is `integrations.deploy.systemd`'s."""

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from cronce.cli import exec as exec_verb
from cronce.cli.kept import place
from cronce.cli.machine import program, refuse_windows
from cronce.clock import SystemClock
from cronce.errors import BadInput
from cronce.integrations.deploy.systemd import Units, units
from cronce.schedule import Cron, parse_duration
from cronce.stores import mask
from cronce.telling.words import safe

TEXT: Final = """\
Print a service and a timer that are safe on many hosts: enable them on every one, and each slot runs once.

  cronce systemd order-sync --schedule '*/15 * * * *' --directory /etc/systemd/system -- /opt/shop/sync.sh
  systemctl daemon-reload && systemctl enable --now cronce-order-sync.timer

The options of `cronce exec` are taken, and stand in the service. Where slots will be kept is said on stderr."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the job's name, the same on every machine")
    _add_options(parser)
    parser.usage = "cronce systemd NAME --schedule SCHEDULE [options] -- COMMAND [argument ...]"
    parser.description = TEXT
    parser.add_argument("--user", default="", metavar="USER", help="who runs it (default: root)")
    parser.add_argument("--directory", metavar="DIR", help="write both files there instead of printing them")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _add_options(parser: argparse.ArgumentParser) -> None:
    """Those of `cronce exec` that a timer has a use for."""
    exec_verb.add_policies(parser)
    exec_verb.add_manners(parser)


def run(options: argparse.Namespace) -> int:
    refuse_windows("systemd")
    _refuse(options)
    job = exec_verb.declared(options)
    if not isinstance(job.schedule, Cron):
        raise BadInput(f"{options.schedule!r} is no cron expression, and systemd's calendar knows nothing like it")
    words = [*program(), "exec", job.name, *exec_verb.said(options, _add_options), "--", *options.command]
    made = units(
        options.name, job.schedule, words, parse_duration(options.grace),
        since=SystemClock().wall(), user=options.user,
    )  # fmt: skip
    _show(made, options)
    if not options.store and not options.json:
        print(safe(place(options.user or "root", {}, "systemd")), file=sys.stderr)
    return 0


def _refuse(options: argparse.Namespace) -> None:
    if not options.command:
        raise BadInput("what shall be run? Put it behind two dashes: cronce systemd NAME --schedule … -- COMMAND")
    if options.schedule is None:
        raise BadInput("when? Give --schedule '*/15 * * * *'")
    if not options.command[0].startswith("/"):
        raise BadInput(
            f"systemd starts its services in /, with a PATH of its own: write the full path of {options.command[0]}"
        )
    if options.store and mask(options.store) != options.store:
        raise BadInput("everybody may read a unit, and this URL holds a password; put it into /etc/cronce.toml")


def _show(made: Units, options: argparse.Namespace) -> None:
    files = {f"{made.name}.service": made.service, f"{made.name}.timer": made.timer}
    if options.json:
        print(json.dumps({"units": files}))
    elif options.directory:
        for path in _write(Path(options.directory), files):
            print(f"{path}: written")
        print(f"systemctl daemon-reload && systemctl enable --now {made.name}.timer")
    else:
        print("\n".join(f"# --- {name} ---\n{text}" for name, text in files.items()), end="")


def _write(folder: Path, files: dict[str, str]) -> list[Path]:
    try:
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{error.filename} cannot be written ({error.strerror})") from None
    return [folder / name for name in files]
