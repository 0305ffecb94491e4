"""The figures of the docs: what stands between `<!-- proof: NAME -->` and `<!-- /proof -->` comes from docs/proof.json.

A figure whose part has no result is not shown: the text says so instead.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from cronce.testing import effects_table
from cronce.testing.explorer import __main__ as explorer
from cronce.testing.explorer.configs import ALL_CONFIGS
from cronce.testing.explorer.walk import ExplorerResult
from tests.faults.billing import matrix
from tests.faults.fault_table import __main__ as fault_table
from tests.faults.fault_table.play import Counted as Slots
from tests.faults.neighbours import __main__ as neighbours
from tests.faults.neighbours.book import Counted
from tests.proof.parts import PARTS
from tests.proof.record import ROOT, Figures, Record, Result
from tests.proof.run import spent

MARKED = re.compile(r"(?P<begin><!-- proof: (?P<name>[a-z-]+) -->)(?P<text>.*?)(?P<end><!-- /proof -->)", re.DOTALL)


class Unknown(LookupError):
    """A page names a region that is not listed here."""


# --- regions ---


def showed(name: str) -> tuple[str, Callable[[Figures], str]]:
    """A part in one line, as in the table of all parts."""
    return next((part.name, part.showed) for part in PARTS if part.name == name)


def mutants(figures: Figures) -> str:
    return f"{len(figures['mutants'])}"


def effects(figures: Figures) -> str:
    return effects_table.table(figures["effects"], figures["seeds"])


def explored(figures: Figures) -> str:
    found = {config["name"]: config for config in figures["configurations"]}
    configs = tuple(config for config in ALL_CONFIGS if config.name in found)
    counts = [found[config.name] for config in configs]
    results = [ExplorerResult(count["states"], count["transitions"], (), count["seconds"]) for count in counts]
    return "\n".join([*explorer.TABLE_HEAD, *explorer.rows(configs, results)])


def before_and_after(figures: Figures) -> str:
    rows = {
        name: neighbours.Row({word: Counted(**counts) for word, counts in setup.items()})
        for name, setup in figures.items()
    }
    return neighbours.table(rows).rstrip()


def fault_by_fault(figures: Figures) -> str:
    names = ("fault", "way", "store")
    plays = [(dict(play), (play["fault"], play["way"], play["store"])) for play in figures["plays"]]
    return fault_table.table(
        {row: Slots(**{name: count for name, count in play.items() if name not in names}) for play, row in plays}
    )


VARIANTS = {"key": "by key", "transaction": "joined transaction", "redis-lock": "plain Redis lock"}


def billing(figures: Figures) -> str:
    plays = [play for play in figures["plays"] if play["store"] == "postgresql" or play["variant"] == "redis-lock"]
    plays.sort(key=lambda play: ([*VARIANTS].index(play["variant"]), play["seed"]))
    head = "| | seed | killed | paused | replies dropped | hung up | requests | **charges** | too many | missing |"
    return "\n".join([head, "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|", *map(_billed, plays)])


def _billed(play: Mapping[str, Any]) -> str:
    asked = (play["answers_dropped"], play["requests"]) if play["variant"] != "transaction" else ("", "")
    cells = [
        VARIANTS[play["variant"]], play["seed"], play["kills"], play["pauses"], play["replies_dropped"], *asked,
        f"**{play['charges']:,}**", play["duplicates"], play["missing"],
    ]  # fmt: skip
    return f"| {' | '.join(f'{cell:,}' if isinstance(cell, int) else cell for cell in cells)} |"


def billing_summary(figures: Figures) -> str:
    plays = figures["plays"]
    charges = {name: _charges(plays, variant=name) for name in VARIANTS}
    invoices = plays[0]["invoices"]
    others = ", ".join(
        f"{_charges(plays, store=scheme)} in {store}" for store, scheme in (("SQLite", "sqlite"), ("Valkey", "redis"))
    )
    lock = sorted(play["charges"] for play in plays if play["variant"] == "redis-lock")
    most = median(lock)
    return (
        f"Charges for {invoices} invoices, in each of {len(lock)} runs: **{charges['key']}** by key,"
        f" **{charges['transaction']}** in a joined transaction, **{charges['redis-lock']}** under the plain lock"
        f" (the median is {most:g}, {most - invoices:g} too many). By key, with cronce's records elsewhere: {others}."
    )


def _charges(plays: list[Mapping[str, Any]], **like: str) -> str:
    """How many charges each run made that is like this; one number, if all made the same."""
    like = {"variant": "key", **like}
    if like["variant"] == "key":
        like = {"store": "postgresql", **like}
    charges = sorted(play["charges"] for play in plays if like.items() <= play.items())
    return f"{charges[0]}" if len({*charges}) == 1 else f"{charges[0]} to {charges[-1]}"


def nights(figures: Figures) -> str:
    return matrix.table(figures["plays"], ("way", "receiver"))


def tortured(figures: Figures) -> str:
    plays: dict[str, list[Mapping[str, Any]]] = {}
    for play in figures["plays"]:
        plays.setdefault(play["store"], []).append(play)
    head = [
        "store", "minutes", "faults", "slots", "ran", "lost, skipped or failed", "unknown", "taken over",
        "extra", "overlapping", "stale accepted", "missed",
    ]  # fmt: skip
    lines = [_cells(head), _cells(["---", *["--:"] * (len(head) - 1)])]
    return "\n".join([*lines, *(_cells(_tortured(store, each)) for store, each in sorted(plays.items()))])


def _tortured(store: str, plays: list[Mapping[str, Any]]) -> Iterator[str]:
    faults = sum((Counter(play["faults"]) for play in plays), Counter[str]())
    total = sum((Counter(play["verdict"]) for play in plays), Counter[str]())
    yield store
    not_run = total["lost"] + total["skipped"] + total["failed"]
    counts = [len(plays), faults.total(), total["slots"], total["runs"], not_run, total["unknown"]]
    yield from (f"{count:,}" for count in [*counts, total["taken_over"]])
    yield from (f"**{total[column]:,}**" for column in ("extra", "overlapping", "stale_accepted", "missed"))


def _cells(cells: Iterator[str] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"


REGIONS: dict[str, tuple[str, Callable[[Figures], str]]] = {
    "mutants": ("mutants", mutants),
    "mutants-caught": showed("mutants"),
    "simulator": showed("simulator"),
    "effects": ("simulator", effects),
    "explorer": ("explorer", explored),
    "neighbours": ("neighbours", before_and_after),
    "fault-table": ("fault-table", fault_by_fault),
    "billing": ("billing", billing),
    "billing-summary": ("billing", billing_summary),
    "billing-nights": ("billing-nights", nights),
    "billing-nights-summary": showed("billing-nights"),
    "torture-durable": ("torture-durable", tortured),
    "torture-forgetful": ("torture-forgetful", tortured),
    "torture-schedulers": ("torture-schedulers", tortured),
}
"""What a page can show: the part it comes from, and how it is written."""

DURATION = "duration-"
"""`duration-NAME` is how long a part took."""

ALL_PARTS = "parts"


def parts_table(record: Record) -> str:
    results, failures = record.results(), record.failures()
    lines = [
        _cells(["part", "what it runs", "what it showed", "date", "commit", "duration", "load", "verdict"]),
        "|---" * 8 + "|",
    ]
    for part in PARTS:
        result, failed = results.get(part.name), failures.get(part.name)
        showed = part.showed(result.figures) if result else ""
        lines.append(_cells([f"`{part.name}`", part.about, showed, *_dated(result), _verdict(result, failed)]))
    return "\n".join(lines)


def _dated(result: Result | None) -> tuple[str, str, str, str]:
    if not result:
        return "", "", "", ""
    load = "" if result.load is None else f"{result.load:.0f}"
    return result.date[:10], str(result.source), spent(result.seconds), load


def _verdict(result: Result | None, failed: Mapping[str, Any] | None) -> str:
    last = f"failed on {failed['date'][:10]} at {failed['commit']}" if failed else ""
    return f"passed; later {last}" if result and failed else last or ("passed" if result else "no result yet")


def region(name: str, record: Record) -> str:
    """What stands between the marks of this name."""
    if name == ALL_PARTS:
        return parts_table(record)
    results = record.results()
    if name.startswith(DURATION):
        part = name.removeprefix(DURATION)
        return spent(results[part].seconds) if part in results else _missing(part)
    if name not in REGIONS:
        raise Unknown(f"there is no region {name!r}; there are: {', '.join([*REGIONS, ALL_PARTS, f'{DURATION}PART'])}")
    part, write_region = REGIONS[name]
    return write_region(results[part].figures) if part in results else _missing(part)


def _missing(part: str) -> str:
    return f"(no result on record: `make proof PART={part}`)"


# --- pages ---


def rewritten(page: str, record: Record) -> str:
    """The page with its regions written anew. Marks that stand on lines of their own keep them."""

    def write_region(found: re.Match[str]) -> str:
        space = "\n" if found["text"].startswith("\n") else ""
        return f"{found['begin']}{space}{region(found['name'], record)}{space}{found['end']}"

    return MARKED.sub(write_region, page)


def pages(root: Path = ROOT) -> list[Path]:
    return [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]


def outdated(record: Record, root: Path = ROOT) -> dict[Path, str]:
    """The pages that differ from the record, and what they should be."""
    texts = {page: page.read_text("utf-8") for page in pages(root)}
    news = {page: rewritten(text, record) for page, text in texts.items()}
    return {page: new for page, new in news.items() if new != texts[page]}


def write(record: Record, root: Path = ROOT) -> list[Path]:
    changed = outdated(record, root)
    for page, text in changed.items():
        page.write_text(text, "utf-8")
    return list(changed)
