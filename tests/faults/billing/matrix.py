"""Every way to charge once, on every store, at receivers that know keys and that do not, and every recipe of the docs:
one play each, and one table of all. What was played is kept, so that a run that was broken off goes on."""

import json
import sys
import tempfile
import threading
from collections import Counter
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
from tests.faults.billing.worker import NIGHTS, WRONG
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

    def is_shown(self, verdict: Verdict) -> bool:
        """Whether the play shows what it should: the wrong way charges twice, all others never do."""
        if self.way == WRONG:
            return verdict.duplicates > 0 and verdict.missing == 0
        return verdict.once_each and verdict.charged_once + verdict.waiting == verdict.once_after == verdict.invoices


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
                    if combination.receiver == "SQLite":  # nobody sees who is at work there: more kills go astray
                        settings = settings._replace(kills=2 * size.kills)
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
    "things", "kills", "pauses", "reruns", "charged once", "not charged, in doubt", "neither", "doubts resolved",
    "then charged once", "charges too many",
)  # fmt: skip
COUNTED: Final = (
    "invoices", "kills", "pauses", "reruns", "charged_once", "waiting", "unexplained", "in_doubt", "once_after",
    "duplicates",
)  # fmt: skip


def figures(verdicts: Mapping[Combination, Verdict]) -> list[dict[str, Any]]:
    return [{**one._asdict(), **verdict._asdict(), "store": one.store} for one, verdict in verdicts.items()]


def totals(plays: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Of all ways but the wrong one."""
    return added(play for play in plays if play["way"] != WRONG)


def added(plays: Iterable[Mapping[str, Any]]) -> Counter[str]:
    total = Counter[str]()
    for play in plays:
        total.update({name: play[name] for name in COUNTED})
    return total


def table(plays: Sequence[Mapping[str, Any]], names: Sequence[str] = ("way", "receiver", "store")) -> str:
    """As Markdown, one line for all that have the same names, and one for all but the wrong way."""
    rows: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for play in plays:
        rows.setdefault(tuple(play[name] for name in names), []).append(play)
    lines = [
        [*names, *HEAD],
        [*["---"] * len(names), *["--:"] * len(HEAD)],
        *([*row, *_cells(added(group))] for row, group in rows.items()),
        ["all but the wrong one", *[""] * (len(names) - 1), *_cells(totals(plays))],
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(counts: Counter[str]) -> list[str]:
    return [f"{counts[name]:,}" for name in COUNTED]


def told_in_all(plays: Sequence[Mapping[str, Any]]) -> str:
    """In one line."""
    total = totals(plays)
    wrong = added(play for play in plays if play["way"] == WRONG)
    return (
        f"{len([play for play in plays if play['way'] != WRONG])} plays, {total['invoices']:,} things,"
        f" {total['kills']:,} kills, {total['pauses']:,} pauses, {total['reruns']:,} reruns: {total['charged_once']:,}"
        f" charged once, {total['waiting']:,} not charged and in doubt, {total['unexplained']:,} neither;"
        f" {total['in_doubt']:,} doubts resolved, then {total['once_after']:,} charged once,"
        f" {total['duplicates']:,} charges too many ({wrong['duplicates']:,} where the charge belonged to the slot)"
    )
