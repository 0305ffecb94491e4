"""`python -m bench [NAME…]`: find the benchmarks, measure them, print a table or JSON, exit 1 if a limit is missed."""

import argparse
import importlib
import json
import pkgutil
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import bench
from bench.harness import MIN_CYCLES, Benchmark, Meter, Result, Unavailable, Within, measure

Outcome = Result | Unavailable
SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
HEADER = ("benchmark", "ours", "bare", "figure", "quartiles", "of medians", "limit", "verdict")


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    known = discover(bench)
    try:
        chosen = select(known, options.names)
    except KeyError as unknown:
        return _usage(f"no benchmark {unknown}; there are: {', '.join(known) or 'none'}")
    outcomes = {name: _outcome(name, known[name], options) for name in chosen}
    document = _document(known, outcomes, options)
    if options.save:
        options.save.write_text(document)
    print(document if options.json else _table(known, outcomes))
    return int(any(isinstance(outcome, Result) and not outcome.ok for outcome in outcomes.values()))


def discover(package: ModuleType) -> dict[str, Benchmark]:
    """`module.name` for each entry in the list BENCHMARKS of each module in the package."""
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    modules = {name: importlib.import_module(f"{package.__name__}.{name}") for name in names if name != "__main__"}
    return {
        f"{name}.{benchmark.name}": benchmark
        for name, module in modules.items()
        for benchmark in getattr(module, "BENCHMARKS", [])
    }


def select(known: Iterable[str], asked: Sequence[str]) -> list[str]:
    """Those asked for, each by its full name or by its module; all of them when nothing is asked."""
    names = list(known)
    chosen = {want: [name for name in names if name == want or name.startswith(f"{want}.")] for want in asked}
    for want, found in chosen.items():
        if not found:
            raise KeyError(want)
    return names if not asked else [name for name in names if any(name in found for found in chosen.values())]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="What cronce costs next to the bare thing.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a benchmark, or a module with all of its benchmarks")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the JSON document there, too")
    parser.add_argument("--cycles", type=_cycles, default=MIN_CYCLES, help="cycles of each benchmark (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="decides who goes first in each cycle (%(default)s)")
    return parser


def _cycles(text: str) -> int:
    if (cycles := int(text)) < MIN_CYCLES:
        raise argparse.ArgumentTypeError(f"at least {MIN_CYCLES}, for a median to stand on")
    return cycles


def _usage(message: str) -> int:
    print(message, file=sys.stderr)
    return 2


def _outcome(name: str, benchmark: Benchmark, options: argparse.Namespace) -> Outcome:
    try:
        return measure(benchmark, options.cycles, options.seed, _progress(name, options.cycles))
    except Unavailable as missing:
        return missing
    finally:
        _erase()


def _progress(name: str, cycles: int) -> Callable[[int], object]:
    """A line that counts on a terminal, and silence elsewhere."""
    if not sys.stderr.isatty():
        return lambda _: None
    return lambda cycle: print(f"\r{name}  {cycle}/{cycles}\033[K", end="", file=sys.stderr, flush=True)


def _erase() -> None:
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def _table(known: Mapping[str, Benchmark], outcomes: Mapping[str, Outcome]) -> str:
    if not outcomes:
        return "no benchmarks yet"
    rows = [HEADER, *(_row(name, known[name], outcome) for name, outcome in outcomes.items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, "", *_notes(known, outcomes)])


def _row(name: str, benchmark: Benchmark, outcome: Outcome) -> tuple[str, ...]:
    if isinstance(outcome, Unavailable):
        return name, "", "", "", "", "", _limit(benchmark), "NOT MEASURED"
    meter = benchmark.meter
    costs = [cost(median(side), meter) if side else "" for side in (outcome.ours, outcome.bare)]
    low, high = (_figure(benchmark, quartile) for quartile in outcome.quartiles)
    figures = _figure(benchmark, outcome.figure), f"{low} – {high}", _figure(benchmark, outcome.of_medians)
    return name, *costs, *figures, _limit(benchmark), _verdict(outcome)


def _verdict(result: Result) -> str:
    return ("ok" if result.ok else "MISSED") + ("" if result.steady else ", unsteady")


def _limit(benchmark: Benchmark) -> str:
    limit = benchmark.limit
    return f"≤ {cost(limit.bound, benchmark.meter)}" if isinstance(limit, Within) else str(limit)


def _figure(benchmark: Benchmark, figure: float) -> str:
    return cost(figure, benchmark.meter) if isinstance(benchmark.limit, Within) else f"{figure:.2f}"


def cost(amount: float, meter: Meter) -> str:
    """An amount to three digits; seconds in the unit that suits them."""
    if meter.unit != "s":
        return f"{amount:.3g} {meter.unit}"
    scale, unit = next((scale for scale in SCALES if amount >= scale[0]), SCALES[-1])
    digits = amount / scale
    return f"{digits:.0f} {unit}" if digits >= 100 else f"{digits:.3g} {unit}"


def _notes(known: Mapping[str, Benchmark], outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    yield "Costs are medians per operation. The figure, the median over the cycles' own figures, is what is judged."
    for name, outcome in outcomes.items():
        yield f"{name} ({known[name].meter.name}): {known[name].note}"
        if isinstance(outcome, Unavailable):
            yield f"    NOT MEASURED: {outcome}"


def _document(known: Mapping[str, Benchmark], outcomes: Mapping[str, Outcome], options: argparse.Namespace) -> str:
    entries = [_entry(name, known[name], outcome) for name, outcome in outcomes.items()]
    machine = {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
    settings = {"cycles": options.cycles, "seed": options.seed, **machine}
    ok = all(entry["ok"] is not False for entry in entries)
    return json.dumps({"ok": ok, **settings, "benchmarks": entries}, ensure_ascii=False)


def _entry(name: str, benchmark: Benchmark, outcome: Outcome) -> dict[str, Any]:
    entry = {"name": name, "limit": _limit(benchmark), "bound": benchmark.limit.bound}
    entry |= {"meter": benchmark.meter.name, "note": benchmark.note}
    if isinstance(outcome, Unavailable):
        return {**entry, "ok": None, "not_measured": str(outcome)}
    return {
        **entry,
        "ok": outcome.ok,
        "steady": outcome.steady,
        "figure": outcome.figure,
        "of_medians": outcome.of_medians,
        "quartiles": outcome.quartiles,
        "ours": median(outcome.ours),
        "bare": median(outcome.bare) if outcome.bare else None,
    }


if __name__ == "__main__":
    sys.exit(main())
