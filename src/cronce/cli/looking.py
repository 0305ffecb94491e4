"""Looking at a store from the command line. Looking never makes one."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from cronce.cli.table import Tone
from cronce.errors import CronceError, StoreReadOnly
from cronce.stores import mask, open_store, scheme_of
from cronce.stores.default import Chosen, choose

if TYPE_CHECKING:
    from cronce.stores.base import Store


ELSEWHERE: Final = "set CRONCE_URL or --store if another store is meant"


def add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", metavar="URL", help="where slots are kept (default: $CRONCE_URL, then the config)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


@contextmanager
def looking(options: argparse.Namespace) -> Iterator["Store"]:
    """The store that is meant, if there is one."""
    chosen = choose(options.store)
    refuse_nothing(chosen)
    store = open_store(chosen.url)
    try:
        yield store
    finally:
        store.close()


def nothing(text: str, options: argparse.Namespace) -> str:
    """An empty answer, and where it is from: another store may be meant."""
    return f"{text} in {mask(choose(options.store).url)}; {ELSEWHERE}"


def refuse_nothing(chosen: Chosen) -> None:
    """To open an SQLite file is to make it, so it has to be there before."""
    if scheme_of(chosen.url) != "sqlite":
        return
    from cronce.stores.sqlite import locate  # noqa: PLC0415  who has another store need not load SQLite

    path, _timeout = locate(chosen.url)
    try:
        if path.exists() and path.stat().st_size:
            return
    except OSError as error:
        raise StoreReadOnly(f"{path} cannot be looked at by this user ({error.strerror})") from None
    if chosen.is_default:
        raise CronceError(f"nothing has run yet on this machine; it would be kept in {path}; {ELSEWHERE}")
    raise CronceError(f"nothing has run yet: there is no file {path}; {ELSEWHERE}")


def tone(word: str) -> Tone | None:
    """What a state or an outcome means for whoever looks."""
    match word:
        case "succeeded":
            return "good"
        case "failed" | "lost" | "unknown" | "lapsed" | "unreadable":
            return "bad"
        case "running" | "held":
            return "busy"
        case "due" | "waiting" | "retrying" | "resting" | "paused":
            return "odd"
        case "skipped" | "free":
            return "dim"
        case _:
            return None
