"""cronce run: run the jobs of an application, in as many processes as you like."""

import argparse
import logging
import os
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn, get_args

from cronce.cli.alerting import add_alerts, monitored, told
from cronce.cli.foreman import Foreman, Watch, unwatched
from cronce.cli.words import let_go
from cronce.errors import BadInput
from cronce.monitor.logs import install
from cronce.monitor.tracing import trace_if_configured
from cronce.runtime.app import Cronce
from cronce.runtime.application import load
from cronce.runtime.log import LOGGER
from cronce.runtime.scheduling.post import Role
from cronce.runtime.scheduling.scheduler import Orders, Scheduler, see_through
from cronce.schedule import parse_duration

if TYPE_CHECKING:
    from cronce.cli.usher import Usher

TEXT: Final = """\
Run the jobs of an application: cronce run app:cron, for `cron = Cronce(…)` in app.py. Start it wherever and as often as
you like: each slot runs once, and the work spreads over the processes that are there.

TERM or Ctrl-C ends it: it claims no more, and lets what runs come to an end. What still runs near the end of --grace is
stopped: closed as failed, or under on_lost="rerun" taken over by another process at once. A second signal stops it now.

exit codes: 0 all that ran is on record; 1 something could not be recorded, or stopped; 2 the call makes no sense; 75
the store cannot be reached; 78 the store needs a person."""

EXAMPLES: Final = """
examples:
  cronce run app:cron
  cronce run shop.jobs:cron -n 3 --workers 20
  cronce run app:cron --role schedule     finds what is due, and leaves it to others …
  cronce run app:cron --role work         … that run it
  cronce run app:cron --label colour=blue
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = TEXT, EXAMPLES
    add = parser.add_argument
    add("app", metavar="MODULE:OBJECT", help="where the Cronce is: app:cron, shop.jobs:cron")
    add("-n", type=int, default=1, metavar="N", dest="number", help="so many processes; one that dies is replaced")
    add("--role", choices=get_args(Role), default="both", help="find what is due, run it, or both (the default)")
    add("--workers", type=int, default=10, metavar="N", help="bodies that run at once, in each process (default: 10)")
    add("--grace", default="30s", metavar="SPAN", help="from TERM to the end, at most (default: 30s)")
    add("--label", action="append", default=[], metavar="NAME=VALUE", help="for `cronce drain --label`; repeatable")
    add("--allow", action="append", default=[], metavar="PATTERN", help="what jobs in the store may run; repeatable")
    add("--health", metavar="ADDR", help="answer /healthz, /readyz and /metrics: 8080 (loopback only), 0.0.0.0:8080")
    add("--ui", metavar="ADDR", help="show the page there: 8080 (loopback only); elsewhere it needs a token")
    add(
        "--ui-token-file",
        metavar="FILE",
        help="a file with the token that lets one act on the page (or $CRONCE_UI_TOKEN)",
    )
    add("--ui-name", action="append", default=[], metavar="HOST", help="a name that the page goes by; repeatable")
    add("--store", metavar="URL", help="another store than the application names")
    add("--log-json", action="store_true", help="log one JSON object a line")
    add("-v", "--verbose", action="store_true", help="log every claim")
    add_alerts(parser)


def run(options: argparse.Namespace) -> int:
    try:
        return _run(options)
    finally:
        let_go()


def _run(options: argparse.Namespace) -> int:
    labels(options.label)  # before anything is started
    told(options)
    grace = parse_duration(options.grace).total_seconds()
    if options.number == 1 and os.getpid() != 1 and options.health is None and options.ui is None:
        return _work(options, Orders(), unwatched)
    return Foreman(options.number, grace, partial(_work, options), options.health, _usher(options)).run()


def _usher(options: argparse.Namespace) -> "Usher | None":
    if options.ui is None:
        return None
    from cronce.cli.usher import Usher  # noqa: PLC0415  most do not show it

    return Usher(options)


def _work(options: argparse.Namespace, orders: Orders, watch: Watch) -> int:
    cron = load(options.app)
    if options.store is not None:
        cron.use(options.store)
    _log(verbose=options.verbose, as_json=options.log_json)
    trace_if_configured(cron)
    begin = watch(cron)
    with orders, cron, monitored(cron, told(options)):
        scheduler = cron.start(
            role=options.role,
            workers=options.workers,
            grace=options.grace,
            labels=labels(options.label),
            allow=options.allow,
        )
        _refuse_private(cron, scheduler, options)
        begin(scheduler)
        _say(f"cronce run: {_described(cron, scheduler, options)}\n")
        recorded = see_through(scheduler, orders)
    return 0 if recorded else _leave()


def _refuse_private(cron: Cronce, scheduler: Scheduler, options: argparse.Namespace) -> None:
    if scheduler.traits.shared:
        return
    if options.number > 1:
        raise BadInput(
            f"{cron.place} ends with its process, so each of {options.number} would run everything; name another"
        )
    if options.ui is not None:
        raise BadInput(f"{cron.place} ends with its process, so the page of --ui would not see it; name another")


def _described(cron: Cronce, scheduler: Scheduler, options: argparse.Namespace) -> str:
    jobs = "1 job" if len(cron.works) == 1 else f"{len(cron.works)} jobs"
    if not cron.works and not options.allow:
        jobs += " (import the modules that declare them)"
    return f"{options.app} on {cron.place}, {jobs}, role {options.role}, as {scheduler.holder}"


def _say(line: str) -> None:
    """In one write: other processes of -n say theirs on the same screen. Nobody need take it."""
    if sys.stdout is not None:
        with suppress(OSError):
            sys.stdout.write(line)
            sys.stdout.flush()


def _log(*, verbose: bool, as_json: bool) -> None:
    """To stderr, unless the application has said otherwise."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    if as_json:
        install(json=True)
    LOGGER.setLevel(logging.DEBUG if verbose else logging.INFO)


def _leave() -> NoReturn:
    """A body still runs, or the store hangs: nobody may have to wait for their threads."""
    let_go()
    os._exit(1)


def labels(given: list[str]) -> dict[str, str]:
    pairs = {name: value for name, equals, value in (one.partition("=") for one in given) if equals}
    if len(pairs) < len(given):
        raise BadInput(f"a label is NAME=VALUE, each name once: --label colour=blue, and not {', '.join(given)}")
    return pairs
