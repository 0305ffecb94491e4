"""A session with the store that the command line means: to look, which never makes a store, or to act, and who acts."""

import argparse
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from cronce.cli import JSON_ARGUMENT, Arguments, say
from cronce.cli.terminal import Text, screen, show, table
from cronce.clock import SystemClock
from cronce.errors import BadInput, CronceError, NotOnRecord, StoreReadOnly
from cronce.runtime.flow import Flow
from cronce.runtime.node import Node
from cronce.runtime.operations import LapsedUnwatched, Operator, who
from cronce.runtime.queries import NoSuchJob
from cronce.stores import mask, open_store, scheme_of
from cronce.stores.default import Chosen, choose, open_chosen
from cronce.telling.words import read_json, safe

T = TypeVar("T")

STORE_AND_JSON: Final = {"--store URL": "where slots are kept (default: $CRONCE_URL, then the config)", **JSON_ARGUMENT}
BY_ARGUMENT: Final = {"--by NAME": "who acts, for the record (default: user@host)"}
ACT_ARGUMENTS: Final[Arguments] = {"--reason TEXT": ("", "why, for the record"), **BY_ARGUMENT}
OTHER_STORE_HINT: Final = "to use another store, set CRONCE_URL or --store"


@contextmanager
def looking(options: argparse.Namespace, *, make: bool = False) -> Iterator[Node]:
    """A node at the store that is meant; one that does not exist is refused, or made."""
    chosen = choose(options.store)
    if not make:
        refuse_nothing(chosen)
    with closing(open_chosen(chosen) if make else open_store(chosen.url)) as store:
        if make and not store.traits.shared:
            raise BadInput(f"{mask(chosen.url)} exists only in this process; name a file that other processes can open")
        try:
            yield Node(store, SystemClock(), lambda: store, lambda _event: None)
        except NoSuchJob as error:
            raise NotOnRecord(f"{error}: {mask(chosen.url)}; {OTHER_STORE_HINT}") from None


def nothing(text: str, options: argparse.Namespace) -> str:
    """An empty answer, and where it is from: another store may be meant."""
    return f"{text} in {mask(choose(options.store).url)}; {OTHER_STORE_HINT}"


def show_table(
    options: argparse.Namespace,
    document: Mapping[str, object],
    headers: Sequence[str],
    rows: Sequence[Sequence[Text]],
    none: str,
) -> None:
    """What was found as one JSON document, or as a table; `none` says that it is empty."""
    show(options, document, table(headers, rows, screen()) if rows else nothing(none, options))


def missing(chosen: Chosen) -> str:
    """The SQLite file that is not there, or is empty: to open it would be to make it. Nothing, if there is a store."""
    if scheme_of(chosen.url) != "sqlite":
        return ""
    from cronce.stores.sqlite import locate  # noqa: PLC0415  who has another store need not load SQLite

    path, _timeout = locate(chosen.url)
    try:
        return "" if path.exists() and path.stat().st_size else str(path)
    except OSError as error:
        raise StoreReadOnly(f"{path} cannot be read by this user ({error.strerror})") from None


def without_folder(path: str) -> str:
    """That no store can be at this path, since its directory does not exist; nothing, if that exists."""
    folder = Path(path).parent
    return "" if folder.is_dir() else f"there is no store at {path}: the directory {folder} does not exist"


def refuse_nothing(chosen: Chosen) -> None:
    if path := missing(chosen):
        if not chosen.is_default and (nowhere := without_folder(path)):
            raise CronceError(f"{nowhere}; {OTHER_STORE_HINT}")
        where = f" on this machine; it would be kept in {path}" if chosen.is_default else f": there is no file {path}"
        raise CronceError(f"nothing has run yet{where}; {OTHER_STORE_HINT}")


# --- acting -----------------------------------------------------------------------------------------------------------


class Actor(NamedTuple):
    """Who acts, and the store."""

    node: Node
    operator: Operator


@contextmanager
def acting(options: argparse.Namespace, *, make: bool = False) -> Iterator[Actor]:
    """Acting, with `make` also on a store that is not there yet."""
    with looking(options, make=make) as node:
        yield Actor(node, Operator(node.ledger, who() if options.by is None else options.by))


CLOCK_LOOK_EVERY: Final = 0.5
"""Seconds between two looks at the store's clock."""


def act(actor: Actor, verb: str, flow: Callable[[Operator], Flow[T]]) -> T:
    """Do it. While a process whose lease expired may still be alive, first watch the store's clock: for one lease, if
    that clock runs evenly."""
    patience = None
    while True:
        try:
            return actor.node.do(flow(actor.operator))
        except LapsedUnwatched as unwatched:
            now = actor.node.clock.boot()
            if patience is None:
                say(verb, safe(str(unwatched)))
                patience = now + 2 * unwatched.lease.total_seconds()
            if now > patience:
                raise CronceError(
                    f"{unwatched}, and it did not run steadily; `cronce doctor` checks the clocks"
                ) from None
        time.sleep(CLOCK_LOOK_EVERY)


def read_words(option: str, text: str) -> list[str]:
    """A command that is given as one text."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadInput(f"{option} {text!r:.60} cannot be read as words: {error}") from None
    if not words:
        raise BadInput(f"{option} is empty; give a program and its arguments")
    return words


def read_option(option: str, text: str) -> Any:
    """What is given as JSON."""
    try:
        return read_json(text)
    except ValueError as error:
        raise BadInput(f"{option} must be JSON, and {text[:60]!r} is not: {error}") from None
