"""cronce store: what a person decides about a store, on purpose."""

import argparse
from typing import Final

from cronce.cli import add_actions
from cronce.errors import BadInput
from cronce.model import Epoch, Origin
from cronce.stores import mask, module_of
from cronce.stores.default import choose

ACTIONS: Final = {
    "init": "begin a store on purpose: it is empty because it is new, not because it forgot",
    "adopt": "use a copied, restored or network store from now on; slots up to now that it does not know stay closed",
    "sql": "print the SQL that makes the tables, for a database where another than cronce makes them",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for one in add_actions(parser, ACTIONS).values():
        one.add_argument("url", nargs="?", metavar="URL", help="the store (default: $CRONCE_URL, then the config)")
        one.add_argument("--store", metavar="URL", help="the same, as everywhere else")


def run(options: argparse.Namespace) -> int:
    url = choose(options.url or options.store).url
    function = getattr(module_of(url), {"sql": "ddl"}.get(options.action, options.action), None)
    if function is None:
        raise BadInput(f"{mask(url)}: {_why_not(options.action)}")
    result = function(url)
    if options.action == "sql":
        print(result)
    else:
        print(f"{mask(url)}: {_told(options.action, result)}")
    return 0


def _told(action: str, epoch: Epoch) -> str:
    born = f"{epoch.born:%Y-%m-%d %H:%M:%S} UTC"
    if action == "adopt":
        return f"a new life since {born}; slots up to then that it does not know stay closed"
    if epoch.origin is Origin.MADE:
        return f"begun on {born}"
    return f"it holds something since {born}, when it was found empty or restored, and stays as it is"


def _why_not(action: str) -> str:
    match action:
        case "sql":
            return "no SQL makes this store; `cronce store sql` is for postgresql://, mysql:// and sqlite://"
        case "adopt":
            return "a copy of this kind of store cannot be told from the original, so there is nothing to adopt"
        case _:
            return "this kind of store cannot be begun on purpose"
