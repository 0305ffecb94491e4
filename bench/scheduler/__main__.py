"""`python -m bench.scheduler [CASE…]`: the cases one after the other, a table, and exit 1 if a limit is missed."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.harness import Unavailable
from bench.scheduler.burst import Size as Burst
from bench.scheduler.burst import all_due, same_second
from bench.scheduler.calm import Size as Calm
from bench.scheduler.calm import calm
from bench.scheduler.cost import cost
from bench.scheduler.crowd import Size as Crowd
from bench.scheduler.crowd import crowd
from bench.scheduler.processes import Size as Processes
from bench.scheduler.processes import processes
from bench.scheduler.report import Line, table
from bench.scheduler.standing import Size as Standing
from bench.scheduler.standing import standing
from bench.scheduler.takeover import Size as Takeover
from bench.scheduler.takeover import takeover


class Case(NamedTuple):
    run: Callable[[Any], Iterator[Line]]
    full: Any
    small: Any
    """A size that shows only that everything works."""


TURNS = {"memory": 0.2, "postgresql": 0.4, "default grace": 0.7}
CASES = {
    "same-second": Case(same_second, Burst(1000, 8, 15, TURNS), Burst(20, 1, 2, TURNS)),
    "all-due": Case(
        all_due,
        Burst(10_000, 3, 60, {"postgresql": 0.25, "beat": 0.85}),
        Burst(50, 1, 8, {"postgresql": 0.1, "beat": 0.3}),
    ),
    "cost": Case(cost, Burst(10_000, 3, 60, {"memory": 0.5}), Burst(50, 1, 8, {"memory": 0.5})),
    "standing": Case(standing, Standing(10_000, 100_000, 20), Standing(20, 30, 1)),
    "calm": Case(calm, Calm(120), Calm(2)),
    "crowd": Case(crowd, Crowd(1, 30, 2), Crowd(1, 2, 1)),
    "processes": Case(processes, Processes((1, 2, 4, 8, 16, 32, 64), 10), Processes((1, 2), 2)),
    "takeover": Case(takeover, Takeover(5), Takeover(1)),
}


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    lines: list[Line] = []
    for name in options.cases or CASES:
        for line in _lines(CASES[name], small=options.small):
            lines.append(line)
            if options.save:  # what was measured is kept, also if what comes next fails
                options.save.write_text(json.dumps([line.document for line in lines]))
    print(table(lines))
    return int(not all(line.ok for line in lines))


def _lines(case: Case, *, small: bool) -> Iterator[Line]:
    try:
        yield from case.run(case.small if small else case.full)
    except Unavailable as missing:
        yield Line(f"NOT MEASURED: {missing}")


def _case(name: str) -> str:
    if name not in CASES:
        raise argparse.ArgumentTypeError(f"no case {name!r}; there are: {', '.join(CASES)}")
    return name


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.scheduler", description="The scheduler beside its peers.")
    parser.add_argument("cases", nargs="*", type=_case, metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the figures there as JSON")
    parser.add_argument("--small", action="store_true", help="sizes that show only that everything works")
    return parser


if __name__ == "__main__":
    sys.exit(main())
