"""The command line: one small function per verb, each in a file of its own, imported only when it is called.

Exit codes: 0 it is as it should be, 1 it is not (the text says what), 2 the call makes no sense, 75 the store
cannot be reached, 78 the store needs a person.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from cronce import __version__
from cronce.errors import BadInput, CronceError, StoreUnavailable, StoreUnusable

VERBS: Final = {
    "simulate": "play the protocol under crashes, pauses, lost replies and bad clocks, and count broken promises",
    "store": "adopt a store that was copied or restored",
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser, verbs = _parser()
    given = list(sys.argv[1:] if arguments is None else arguments)
    verb = next((word for word in given if not word.startswith("-")), None)
    if verb in VERBS:
        import_module(f"cronce.cli.{verb}").add_arguments(verbs[verb])
    options = parser.parse_args(given)
    if options.verb is None:
        parser.print_help()
        return 2
    try:
        code: int = import_module(f"cronce.cli.{options.verb}").run(options)
        return code
    except CronceError as error:
        print(f"cronce {options.verb}: {error}", file=sys.stderr)
        return _code(error)
    except KeyboardInterrupt:
        print(f"cronce {options.verb}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _code(error: CronceError) -> int:
    match error:
        case BadInput():
            return 2
        case StoreUnavailable():
            return 75
        case StoreUnusable():
            return 78
        case _:
            return 1


def _parser() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    parser = argparse.ArgumentParser(
        prog="cronce", description="cron, once: each slot of a schedule runs once across any number of machines."
    )
    parser.add_argument("--version", action="version", version=f"cronce {__version__}")
    commands = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    return parser, {verb: commands.add_parser(verb, help=text, description=text) for verb, text in VERBS.items()}
