"""cronce ui: show the page."""

import argparse
import logging
import os
import sys
from typing import Final, NoReturn

from cronce.cli.address import listening, read_address, url_of
from cronce.cli.alerting import add_alerts, monitored, told
from cronce.cli.looking import refuse_nothing
from cronce.cli.usher import VARIABLE, require, terms
from cronce.errors import BadInput, StoreUnavailable
from cronce.runtime.app import Cronce
from cronce.stores.default import choose

TEXT: Final = f"""\
Show the page: what runs, what ran, what needs a person, and why. It reads the store, and needs no application.

Without a token it only shows. With one (--token-file, or ${VARIABLE}) whoever logs in may pause, resume, trigger,
rerun, cancel and resolve, and each act is on record with who did it. It listens on this machine alone, unless it is
told otherwise, by --listen or by a --name of other machines': then it needs the token for everything, and HTTPS in
front of it.

TERM or Ctrl-C ends it."""

EXAMPLES: Final = """
examples:
  cronce ui
  cronce ui --listen 8081 --token-file ~/.cronce-token
  cronce ui --listen 0.0.0.0:8080 --token-file /run/secrets/token --name cron.example.org
  cronce audit . --json > audit.json; cronce ui --report audit.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = TEXT, EXAMPLES
    add = parser.add_argument
    add("--listen", default="8080", metavar="ADDR", help="8080 (loopback only, the default), 0.0.0.0:8080, [::]:8080")
    add("--token-file", metavar="FILE", help=f"a file with the token that lets one act (or ${VARIABLE})")
    add("--name", action="append", default=[], metavar="HOST", help="a name that it goes by; repeatable")
    add("--report", metavar="FILE", help="what `cronce audit --json` printed, to be shown, too")
    add("--store", metavar="URL", help="where slots are kept (default: $CRONCE_URL, then the config)")
    add_alerts(parser)


def run(options: argparse.Namespace) -> int:
    require()
    host, port = read_address(options.listen, "--listen")
    given, alerted = terms(host, options.token_file, options.report, options.name, "--listen"), told(options)
    with listening(host, port, "--listen") as listener:
        cron = Cronce(options.store)
        app = given.application(cron)
        from cronce.web.server import serve  # noqa: PLC0415  what it needs is known to be there by now

        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
        refuse_nothing(choose(options.store))
        with monitored(cron, alerted):
            _reach(cron)
            may = "only shows" if given.token is None else "the token lets one act"
            print(f"cronce ui: {url_of(listener)} shows {cron.place}; {may}", flush=True)
            serve(app, listener)
        _leave()


def _reach(cron: Cronce) -> None:
    """A store that cannot be used is refused; one that is away may come back."""
    try:
        store = cron.at_work().desk.store
    except StoreUnavailable as error:
        print(f"cronce ui: {error}; the page says so until it answers", file=sys.stderr)
        return
    if not store.traits.shared:
        raise BadInput(f"{cron.place} ends with its process, and there is nothing in it to see; name another store")


def _leave() -> NoReturn:
    """Whoever still waits for an answer of the store is not waited for."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    os._exit(0)
