"""The command: explore the configurations, print a line for each, and a shortest counterexample where there is one."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from cronce.testing.explorer.configs import ALL, SMALL, Config
from cronce.testing.explorer.walk import Result, explore

DOCS: Final = Path("docs/explain/explorer.md")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    configs = SMALL if options.small else ALL
    print(f"{'configuration':<24}{'states':>12}{'transitions':>14}{'seconds':>10}")
    results = list(_explored(configs))
    print(line("all", total(results)))
    wrong = _compare(options, rows(configs, results)) if options.check_docs or options.write_docs else []
    for complaint in wrong:
        print(complaint)
    return 1 if wrong or any(result.violations for result in results) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m cronce.testing.explorer", description=__doc__)
    parser.add_argument("--small", action="store_true", help="only the configurations of the test suite")
    parser.add_argument("--check-docs", action="store_true", help="compare the counts with those in the docs")
    parser.add_argument("--write-docs", action="store_true", help="write the counts into the docs")
    parser.add_argument("--docs", type=Path, default=DOCS, metavar="FILE", help=f"the page with the counts ({DOCS})")
    return parser


def _explored(configs: Sequence[Config]) -> Iterator[Result]:
    for config in configs:
        result = explore(config)
        print(line(config.name, result), *counterexample(result), sep="\n", flush=True)
        yield result


def line(name: str, result: Result) -> str:
    return f"{name:<24}{result.states:>12,}{result.transitions:>14,}{result.seconds:>10.1f}"


def counterexample(result: Result) -> Iterator[str]:
    for violation in result.violations:
        yield f"  broken: {violation.promise}"
        yield from (f"  {number:>4}  {step}" for number, step in enumerate(violation.trace, start=1))


def total(results: Sequence[Result]) -> Result:
    states, transitions, violations, seconds = zip(*results, strict=True)
    return Result(sum(states), sum(transitions), sum(violations, ()), sum(seconds))


# --- the counts in the docs ---


def rows(configs: Sequence[Config], results: Sequence[Result]) -> list[str]:
    """The configurations and their counts as they stand in the docs; with the sum, if it is of all."""
    found = [_row(*pair) for pair in zip(configs, results, strict=True)]
    sums = total(results)
    return [*found, f"| **all** | | | | {sums.states:,} | {sums.transitions:,} |"] if configs == ALL else found


def _row(config: Config, result: Result) -> str:
    terms = ", ".join(config.terms)
    return f"| {config.name} | {terms} | {config.lease} | {config.story} | {result.states:,} | {result.transitions:,} |"


def missing(page: str, expected: Sequence[str]) -> list[str]:
    return [row for row in expected if row not in page.splitlines()]


def rewritten(page: str, expected: Sequence[str]) -> str:
    """The page with each row in the place of the one that begins like it."""
    news = {row.split("|")[1]: row for row in expected}
    lines = (news.get(line.split("|")[1], line) if line.startswith("|") else line for line in page.splitlines())
    return "\n".join(lines) + "\n"


def _compare(options: argparse.Namespace, expected: Sequence[str]) -> list[str]:
    page = options.docs.read_text("utf-8")
    if options.write_docs:
        page = rewritten(page, expected)
        options.docs.write_text(page, "utf-8")
    return [f"{options.docs} should say: {row}" for row in missing(page, expected)]


if __name__ == "__main__":
    sys.exit(main())
