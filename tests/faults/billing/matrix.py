"""Every way to charge once, on every store, at receivers that know keys and that do not, and every recipe of the docs:
one play each, and one table of all. What was played is kept, so that a run that was broken off goes on."""

import json
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, get_args

from cronce.value import NamedTuple
from tests.faults.billing.harness import Billing, Settings
from tests.faults.billing.recipes import RECIPES
from tests.faults.billing.servers import Store, places
from tests.faults.billing.verdict import Verdict
from tests.faults.billing.worker import NIGHTS
from tests.proof.record import Source, source
from tests.servers.postgres import Postgres

STORES: Final[tuple[Store, ...]] = get_args(Store)


class Size(NamedTuple):
    """Of one play."""

    things: int = 80
    kills: int = 6
    pauses: int = 2
    drops: int = 1
    lease: int = 2


class Combination(NamedTuple):
    way: str
    receiver: str
    store: Store

    def __str__(self) -> str:
        return ", ".join(self)


def combinations(stores: Sequence[Store] = STORES) -> dict[Combination, str]:
    """All there are, and the variant of the harness that plays each."""
    found: dict[Combination, str] = {}
    for variant in NIGHTS:
        recipe = RECIPES.get(variant)
        way, _, receiver = variant.partition("/")
        for store in stores:
            found[Combination(way, recipe.receiver if recipe else receiver, store)] = variant
    return found


class Kept:
    """What was played, in a file of lines: of the same commit, with no change beside it, and of the same size."""

    def __init__(self, path: Path | None, size: Size, now: Source | None = None) -> None:
        self._path, self._lock = path, threading.Lock()
        now = now or source()
        self._mark = None if now.dirty else [now.commit, [*size]]
        self.verdicts: dict[Combination, Verdict] = {}
        for line in path.read_text("utf-8").splitlines() if path and path.exists() else ():
            entry = json.loads(line)
            if self._mark is not None and entry["mark"] == self._mark:
                self.verdicts[Combination(*entry["combination"])] = Verdict(**entry["verdict"])

    def keep(self, combination: Combination, verdict: Verdict) -> None:
        self.verdicts[combination] = verdict
        if self._path is not None:
            entry = {"mark": self._mark, "combination": [*combination], "verdict": verdict._asdict()}
            with self._lock, self._path.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(entry)}\n")


def play(wanted: Mapping[Combination, str], size: Size, seed: int, kept: Kept, at_once: int) -> dict[Combination, str]:
    """Play what is not kept, some of them at the same time, since they mostly wait. Those that broke off, and why."""
    broken: dict[Combination, str] = {}
    with ExitStack() as stack:
        left = {one: variant for one, variant in wanted.items() if one not in kept.verdicts}
        server = stack.enter_context(Postgres()) if left else None

        def one(combination: Combination) -> None:
            folder = Path(tempfile.mkdtemp(prefix="billing-"))
            variant = wanted[combination]
            try:
                with places(variant, combination.store, folder, server) as (store, shop):
                    settings = Settings(variant, store, shop, *size, seed + [*wanted].index(combination))
                    kept.keep(combination, Billing(settings, folder).run())
                told = told_of(kept.verdicts[combination])
            except Exception as error:  # whatever it was: the others are played
                told = broken[combination] = f"broke off: {type(error).__name__}: {error} (see {folder})"
            print(f"{combination}: {told}", file=sys.stderr, flush=True)

        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(one, left))
    return broken


def told_of(verdict: Verdict) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in verdict._asdict().items())


# --- what is shown --------------------------------------------------------------------------------------------------

HEAD: Final = (
    "way", "receiver", "store", "things", "kills", "pauses", "reruns", "charged once", "not charged, in doubt",
    "neither", "doubts resolved", "charged once after that",
)  # fmt: skip


def figures(verdicts: Mapping[Combination, Verdict]) -> list[dict[str, Any]]:
    return [{**one._asdict(), **verdict._asdict(), "store": one.store} for one, verdict in verdicts.items()]


def row(play: Mapping[str, Any]) -> list[Any]:
    once = play["charges"] - play["duplicates"] if not play["duplicates"] else f"{play['duplicates']} too many"
    counted = (
        "invoices", "kills", "pauses", "reruns", "charged_once", "waiting", "unexplained", "in_doubt",
    )  # fmt: skip
    return [play["way"], play["receiver"], play["store"], *(play[name] for name in counted), once]


def table(plays: Iterable[Mapping[str, Any]]) -> str:
    """As Markdown, with a line for all of them."""
    rows = [row(play) for play in plays]
    total = [
        "all",
        "",
        "",
        *(sum(number for number in column if isinstance(number, int)) for column in [*zip(*rows, strict=True)][3:]),
    ]
    lines = [[*HEAD], ["---"] * 3 + ["--:"] * (len(HEAD) - 3), *rows, total]
    return "\n".join(
        f"| {' | '.join(f'{cell:,}' if isinstance(cell, int) else cell for cell in line)} |" for line in lines
    )
