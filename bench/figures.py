"""python -m bench.figures: one page of figures with plots, from what the benchmarks saved. `make bench` runs them all.

A bar is a figure of ours, of a peer, or of the raw limit: the least that the same server or interpreter needs for the
same promise. All of a chart come from one run.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from math import ceil, floor, log10
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

ROOT: Final = Path(__file__).parents[1]
SAVED: Final = ROOT / ".venv" / "bench"
KEPT: Final = ROOT / "docs" / "figures.json"
PAGE: Final = ROOT / "docs" / "explain" / "figures.md"
PICTURES: Final = ROOT / "docs" / "pictures"

Side = Literal["ours", "peer", "raw"]
COLOURS: Final[dict[Side, str]] = {"ours": "#2da44e", "peer": "#8c959f", "raw": "#54aeff"}
PEER: Final = {"bench": "bare", "scheduler": "peer"}
"""What the other side is called in each file."""


class Bar(NamedTuple):
    label: str
    source: Literal["bench", "scheduler"]
    name: str
    side: Side
    rate: bool = False
    """What was measured is a cost: show how many a second."""


class Chart(NamedTuple):
    name: str
    title: str
    unit: str
    bars: tuple[Bar, ...]
    scale: float = 1.0


def _claims(store: str, name: str, raw: str) -> tuple[Bar, ...]:
    return (
        Bar(f"{store}, claim and finish, one by one", "bench", f"{name}.single", "ours", rate=True),
        Bar(f"{store}, {raw}", "bench", f"{name}.single", "raw", rate=True),
    )


def _batch(store: str, name: str, raw: str) -> tuple[Bar, ...]:
    return (
        Bar(f"{store}, 1,000 claims in a call", "bench", f"{name}.batch-single", "ours", rate=True),
        Bar(f"{store}, {raw}", "bench", f"{name}.batch-single", "raw", rate=True),
    )


CHARTS: Final = (
    Chart(
        "claims", "Claims a second, one client", "a second",
        (
            *_claims("SQLite", "claims", "INSERT and UPDATE"), *_claims("PostgreSQL", "postgres", "INSERT and UPDATE"),
            *_claims("Valkey", "valkey", "redis-py Lock"),
            *_batch("PostgreSQL", "postgres", "one INSERT of as many"),
            *_batch("Valkey", "valkey", "HSETNX in a script"),
        ),
    ),
    Chart(
        "slot-to-start", "From the slot to the start, 1,000 jobs due in one second", "ms",
        (
            Bar("cronce on PostgreSQL, p50", "scheduler", "p50 slot to body of 1,000", "ours"),
            Bar("cronce on PostgreSQL, p99", "scheduler", "p99 slot to body of 1,000", "ours"),
            Bar("APScheduler, memory, p50", "scheduler", "p50, APScheduler, memory", "peer"),
            Bar("APScheduler, memory, p99", "scheduler", "p99, APScheduler, memory", "peer"),
            Bar("APScheduler, PostgreSQL, p50", "scheduler", "p50, APScheduler, postgresql", "peer"),
            Bar("APScheduler, PostgreSQL, p99", "scheduler", "p99, APScheduler, postgresql", "peer"),
        ), 1e3,
    ),
    Chart(
        "losing", "What it costs to lose a slot, in a batch of 1,000", "µs",
        (
            Bar("PostgreSQL, lose", "bench", "postgres.lose-single", "ours"),
            Bar("PostgreSQL, win", "bench", "postgres.lose-single", "raw"),
            Bar("Valkey, lose", "bench", "valkey.lose-single", "ours"),
            Bar("Valkey, win", "bench", "valkey.lose-single", "raw"),
        ), 1e6,
    ),
    Chart(
        "processes", "Store calls a second: one job due each second, more and more schedulers", "a second",
        tuple(
            Bar(f"{number} processes", "scheduler", f"store calls a second, {number} processes", "ours")
            for number in (1, 2, 4, 8, 16, 32, 64)
        ),
    ),
    Chart(
        "processes-late", "From the slot to the start, by the number of schedulers", "ms",
        tuple(
            Bar(f"{number} processes", "scheduler", f"slot to body, {number} processes", "ours")
            for number in (1, 2, 4, 8, 16, 32, 64)
        ), 1e3,
    ),
    Chart(
        "start", "A scheduler's restart, by the number of jobs that are not due", "s",
        (
            Bar("cronce, 10,000 jobs", "scheduler", "restart, 10,000 jobs", "ours"),
            Bar("cronce, 100,000 jobs", "scheduler", "restart, 100,000 jobs", "ours"),
            Bar("APScheduler, memory, 10,000", "scheduler", "restart, APScheduler, memory", "peer"),
            Bar("APScheduler, PostgreSQL, 10,000", "scheduler", "restart, APScheduler, PostgreSQL", "peer"),
            Bar("Celery beat, 10,000", "scheduler", "restart, Celery beat", "peer"),
            Bar("RedBeat, 10,000", "scheduler", "restart, RedBeat", "peer"),
        ),
    ),
    Chart(
        "memory", "Memory of a scheduler", "MB",
        (
            Bar("cronce, 10,000 jobs", "scheduler", "resident memory, 10,000 jobs", "ours"),
            Bar("cronce, 100,000 jobs", "scheduler", "resident memory, 100,000 jobs", "ours"),
            Bar("APScheduler, memory, 10,000", "scheduler", "resident memory, APScheduler, memory", "peer"),
            Bar("APScheduler, PostgreSQL, 10,000", "scheduler", "resident memory, APScheduler, PostgreSQL", "peer"),
            Bar("Celery beat, 10,000", "scheduler", "resident memory, Celery beat", "peer"),
            Bar("RedBeat, 10,000", "scheduler", "resident memory, RedBeat", "peer"),
        ),
    ),
    Chart(
        "idle", "A scheduler with nothing to do", "% of a core, calls a second",
        (
            Bar("CPU, 10,000 jobs", "scheduler", "idle CPU, 10,000 jobs", "ours"),
            Bar("CPU, 100,000 jobs", "scheduler", "idle CPU, 100,000 jobs", "ours"),
            Bar("store calls, 10,000 jobs", "scheduler", "idle store calls, 10,000 jobs", "ours"),
            Bar("store calls, 100,000 jobs", "scheduler", "idle store calls, 100,000 jobs", "ours"),
        ),
    ),
    Chart(
        "exec", "A whole `cronce exec job -- true`", "ms",
        (
            Bar("cronce exec on SQLite", "bench", "startup.exec", "ours"),
            Bar("python, importing sqlite3, json, datetime", "bench", "startup.exec", "raw"),
        ), 1e3,
    ),
)  # fmt: skip

Figures = Mapping[str, float]
"""By chart and label."""


# --- from what was saved ----------------------------------------------------------------------------------------------


def collected() -> dict[str, float]:
    """The figures of all charts that were measured."""
    files = {source: _saved(source) for source in PEER}
    found = {}
    for chart in CHARTS:
        for bar in chart.bars:
            entry = files[bar.source].get(bar.name, {})
            amount = entry.get("ours" if bar.side == "ours" else PEER[bar.source])
            if amount:
                found[f"{chart.name}: {bar.label}"] = 1 / amount if bar.rate else amount * chart.scale
    return found


def _saved(source: str) -> dict[str, dict[str, Any]]:
    file = SAVED / f"{source}.json"
    if not file.exists():
        return {}
    read = json.loads(file.read_text())
    return {entry["name"]: entry for entry in (read["benchmarks"] if isinstance(read, dict) else read)}


# --- the plots --------------------------------------------------------------------------------------------------------

WIDTH, LEFT, ROW, TOP = 860, 330, 24, 40
STYLE: Final = (
    "text{font:13px system-ui,sans-serif;fill:#1f2328}.t{font-weight:600}.d{fill:#59636e}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.d{fill:#9198a1}}"
)


def drawn(chart: Chart, figures: Figures) -> str:
    """A bar for each figure, on a logarithmic scale where they lie far apart."""
    bars = [
        (bar, figures[f"{chart.name}: {bar.label}"]) for bar in chart.bars if f"{chart.name}: {bar.label}" in figures
    ]
    amounts = [amount for _, amount in bars]
    tens = max(amounts) / min(amounts) > 30
    low = 10 ** floor(log10(min(amounts))) if tens else 0.0
    height = TOP + ROW * len(bars) + 16

    def length(amount: float) -> float:
        whole = (log10(amount / low) / max(log10(max(amounts) / low), 1)) if tens else amount / max(amounts)
        return max(whole * (WIDTH - LEFT - 110), 2)

    rows = []
    for number, (bar, amount) in enumerate(bars):
        y = TOP + ROW * number
        rows += [
            f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(bar.label)}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{length(amount):.0f}" height="{ROW - 6}" fill="{COLOURS[bar.side]}"/>',
            f'<text x="{LEFT + length(amount) + 6:.0f}" y="{y + 14}" class="d">{spelled(amount)}</text>',
        ]
    scale = f"{chart.unit}, logarithmic" if tens else chart.unit
    head = f'<text x="8" y="20" class="t">{escape(chart.title)}</text>'
    unit = f'<text x="{WIDTH - 8}" y="20" text-anchor="end" class="d">{escape(scale)}</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img"'
        f' aria-label="{escape(chart.title)}">\n<style>{STYLE}</style>\n'
        + "\n".join([head, unit, *rows])
        + "\n</svg>\n"
    )


def spelled(amount: float) -> str:
    digits = max(0, 2 - ceil(log10(amount))) if amount < 100 else 0
    return f"{amount:,.{min(digits, 4)}f}"


# --- the page ---------------------------------------------------------------------------------------------------------

HEAD = """# Figures

Written by `make bench` from runs on {date}, at commit {commit}, on a machine with {cores} cores and a load of
{load}; Python {python}. **Seconds depend on the machine: compare the bars of one chart.** Green is cronce, grey another
tool, blue the least that the same server or interpreter needs for the same promise. Limits on these ratios are checked
by `make bench`, which fails when one is missed.
"""
BEYOND = """
**Beyond 64 processes** is arithmetic. From {few} to {many} processes the calls grew by {each:.2f} a second for each
process, and one process alone asked {alone:.1f} a second. So N schedulers ask about {alone:.1f} + {each:.2f} × (N − 1):
{thousand:,.0f} a second for 1,000 of them. One client alone claims and finishes {single:,.0f} slots a second here.
"""


BUSY = """
**This run was on a busy machine** (load {load}, {cores} cores): what waits for a core, such as the way from the slot to
the start, is many times what an idle machine shows. Repeat it there before you believe more than the ratios.
"""


def page(document: Mapping[str, Any]) -> Iterator[str]:
    figures, missing = document["figures"], list[str]()
    yield HEAD.format(**document)
    if document["load"] > 2 * document["cores"]:
        yield BUSY.format(**document)
    for chart in CHARTS:
        shown = [bar for bar in chart.bars if f"{chart.name}: {bar.label}" in figures]
        if not shown:
            missing.append(chart.title)
            continue
        yield f"\n## {chart.title}\n\n![{chart.title}](../pictures/figures-{chart.name}.svg)\n\n"
        yield f"| | {chart.unit} |\n|---|--:|\n"
        yield from (f"| {bar.label} | {spelled(figures[f'{chart.name}: {bar.label}'])} |\n" for bar in shown)
        if chart.name == "processes":
            yield beyond(figures)
    if missing:
        yield "\n## Not measured in this run\n\n" + "".join(f"- {title}\n" for title in missing)


def beyond(figures: Figures) -> str:
    calls = {
        int(key.split(": ")[1].split()[0]): amount for key, amount in figures.items() if key.startswith("processes: ")
    }
    few, many = min(calls), max(calls)
    if many == few:
        return ""
    each = (calls[many] - calls[few]) / (many - few)
    thousand = calls[few] + each * (1_000 - few)
    single = figures.get("claims: PostgreSQL, claim and finish, one by one", 0.0)
    return BEYOND.format(few=few, many=many, each=each, alone=calls[few], thousand=thousand, single=single)


def write(document: Mapping[str, Any]) -> None:
    PAGE.write_text("".join(page(document)), encoding="utf-8")
    for chart in CHARTS:
        if any(f"{chart.name}: {bar.label}" in document["figures"] for bar in chart.bars):
            (PICTURES / f"figures-{chart.name}.svg").write_text(drawn(chart, document["figures"]), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.figures", description=__doc__)
    parser.add_argument("--docs", action="store_true", help="write the page again from the figures that are kept")
    if not parser.parse_args(argv).docs:
        git = ["git", "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
        document = {
            "date": datetime.now(UTC).date().isoformat(), "commit": commit, "cores": os.cpu_count(),
            "load": round(os.getloadavg()[1]), "python": sys.version.split()[0], "figures": collected(),
        }  # fmt: skip
        KEPT.write_text(json.dumps(document, indent=1) + "\n")
    write(json.loads(KEPT.read_text()))


if __name__ == "__main__":
    main()
