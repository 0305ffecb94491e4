"""The command: explore the configurations, print a line for each, and a shortest counterexample where there is one."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Final, TextIO

from cronce.testing.explorer.configs import ALL_CONFIGS, SMALL_CONFIGS, Config
from cronce.testing.explorer.walk import ExplorerResult, explore

TABLE_HEAD: Final = (
    "| configuration | claimants | lease | besides claims, starts, ends and releases | states | transitions |",
    "|---|---|---|---|---:|---:|",
)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    configs = SMALL_CONFIGS if options.small else ALL_CONFIGS
    screen = sys.stderr if options.json else sys.stdout
    print(f"{'configuration':<24}{'states':>12}{'transitions':>14}{'seconds':>10}", file=screen)
    results = list(_explored(configs, screen))
    print(line("all", total(results)), file=screen)
    if options.json:
        print(json.dumps(document(configs, results)))
    return 1 if any(result.violations for result in results) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m cronce.testing.explorer", description=__doc__)
    parser.add_argument("--small", action="store_true", help="only the configurations of the test suite")
    parser.add_argument("--json", action="store_true", help="print one JSON document; the lines go to standard error")
    return parser


def _explored(configs: Sequence[Config], screen: TextIO) -> Iterator[ExplorerResult]:
    for config in configs:
        result = explore(config)
        print(line(config.name, result), *counterexample(result), sep="\n", file=screen, flush=True)
        yield result


def line(name: str, result: ExplorerResult) -> str:
    return f"{name:<24}{result.states:>12,}{result.transitions:>14,}{result.seconds:>10.1f}"


def counterexample(result: ExplorerResult) -> Iterator[str]:
    for violation in result.violations:
        yield f"  broken: {violation.promise}"
        yield from (f"  {number:>4}  {step}" for number, step in enumerate(violation.trace, start=1))


def total(results: Sequence[ExplorerResult]) -> ExplorerResult:
    states, transitions, violations, seconds = zip(*results, strict=True)
    return ExplorerResult(sum(states), sum(transitions), sum(violations, ()), sum(seconds))


# --- the counts for programs, and for the docs ---


def document(configs: Sequence[Config], results: Sequence[ExplorerResult]) -> dict[str, object]:
    counts = (
        {
            "name": config.name,
            "states": result.states,
            "transitions": result.transitions,
            "seconds": round(result.seconds, 1),
            "broken": [violation.promise for violation in result.violations],
        }
        for config, result in zip(configs, results, strict=True)
    )
    return {"configurations": list(counts)}


def rows(configs: Sequence[Config], results: Sequence[ExplorerResult]) -> list[str]:
    """The configurations and their counts as a table of the docs; with the sum, if it is of all."""
    found = [_row(*pair) for pair in zip(configs, results, strict=True)]
    sums = total(results)
    return [*found, f"| **all** | | | | {sums.states:,} | {sums.transitions:,} |"] if configs == ALL_CONFIGS else found


def _row(config: Config, result: ExplorerResult) -> str:
    terms = ", ".join(config.terms)
    return f"| {config.name} | {terms} | {config.lease} | {config.story} | {result.states:,} | {result.transitions:,} |"


if __name__ == "__main__":
    sys.exit(main())
