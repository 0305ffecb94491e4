"""cronce doctor: is this store, seen from this machine, one that keeps cronce's promises?"""

import argparse
import json
from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import Final

from cronce.cli.looking import add_store
from cronce.cli.table import Screen, Toned, paint, screen
from cronce.clock import SystemClock
from cronce.errors import BadInput, StoreError, StoreUnavailable
from cronce.runtime.doctor import examine
from cronce.stores import mask
from cronce.stores.checks import Check, CheckVerdict
from cronce.stores.default import choose

EXAMPLES = """
It makes the store where there is none, as the first job would, writes a few cells to prove that a slot is claimed once,
and removes them.

exit codes: 0 all is well, or there are warnings only; 1 there is an error; 2 the URL cannot be used, or its driver is
not installed; 75 the store cannot be reached.

examples:
  cronce doctor
  cronce doctor postgresql://cronce@db/cronce
  cronce doctor --store postgresql://cronce@db/cronce
"""

MARKS: Final[dict[CheckVerdict, Toned]] = {
    "ok": Toned("✓", "good"),
    "warn": Toned("!", "odd"),
    "error": Toned("✗", "bad"),
}
WORST: Final[tuple[CheckVerdict, ...]] = ("error", "warn", "ok")
COLUMN: Final = 14


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", nargs="?", metavar="URL", help="the store (default: $CRONCE_URL, then the config)")
    add_store(parser)
    parser.epilog = EXAMPLES


def run(options: argparse.Namespace) -> int:
    url = _named(options)
    seen: list[Check] = []
    on = screen()
    code = 0
    try:
        for check in examine(url, SystemClock()):
            seen.append(check)
            if not options.json:
                print("\n".join(lines(check, on)), flush=True)
    except StoreUnavailable:  # the last check says so
        code = 75
    except BadInput:
        code = 2
    verdict = worst(seen)
    print(json.dumps(_document(url, verdict, seen)) if options.json else f"\n{summary(seen)}")
    return code or (1 if verdict == "error" else 0)


def _named(options: argparse.Namespace) -> str | None:
    if options.url is not None and options.store is not None:
        raise BadInput("the store is named twice; give URL, or --store URL")
    url: str | None = options.store if options.url is None else options.url
    return url


def worst(seen: Iterable[Check]) -> CheckVerdict:
    verdicts = {check.verdict for check in seen}
    return next(verdict for verdict in WORST if verdict in verdicts)


def lines(check: Check, on: Screen) -> Iterator[str]:
    """The mark, the name and what it says; below it, indented, what to do about it."""
    indent = " " * (COLUMN + 2)
    said = _wrapped(check.says, on)
    yield f"{paint(MARKS[check.verdict], on)} {check.name:<{COLUMN}}{said[0]}"
    yield from (f"{indent}{line}" for line in said[1:])
    yield from (f"{indent}{paint(Toned(line, 'dim'), on)}" for line in _wrapped(check.remedy, on) if line)


def _wrapped(text: str, on: Screen) -> list[str]:
    plain = paint(text, on)
    return wrap(plain, max(on.width - COLUMN - 3, 20)) if on.width and plain else [plain]


def summary(seen: Iterable[Check]) -> str:
    verdicts = [check.verdict for check in seen]
    counted = [(verdicts.count("error"), "error"), (verdicts.count("warn"), "warning")]
    said = ", ".join(f"{count} {word}{'s' * (count > 1)}" for count, word in counted if count)
    return said or "all is well"


def _document(url: str | None, verdict: CheckVerdict, seen: Iterable[Check]) -> dict[str, object]:
    return {"url": _masked(url), "verdict": verdict, "checks": [check._asdict() for check in seen]}


def _masked(url: str | None) -> str | None:
    try:
        return mask(choose(url).url)
    except StoreError:  # none is named that could be used; a check says why
        return None
