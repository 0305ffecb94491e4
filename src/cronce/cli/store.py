"""cronce store: what a person decides about a store, on purpose."""

import argparse

from cronce.errors import BadInput
from cronce.stores import mask
from cronce.stores.sqlite import adopt, locate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    text = "use a copied, restored or network file from now on; slots up to now that it does not know stay closed"
    actions.add_parser("adopt", help=text, description=text).add_argument("url", help="sqlite:///PATH")


def run(options: argparse.Namespace) -> int:
    if not options.url.startswith("sqlite:"):
        raise BadInput(f"{mask(options.url)}: only an SQLite file is adopted; write sqlite:///PATH")
    path, _patience = locate(options.url)
    if not path.exists():
        raise BadInput(f"there is no file {path}; nothing was adopted")
    epoch = adopt(path)
    print(f"adopted {path}: a new life since {epoch.born:%Y-%m-%d %H:%M:%S} UTC; slots up to then stay closed")
    return 0
