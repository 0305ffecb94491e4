"""`python -m tests.audit.corpus FOLDER [--half seen|unseen] [--per-rule]`: the score, and what is wrong."""

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from cronce_audit.engine import audit, files
from cronce_audit.model import Finding, Severity
from tests.audit.corpus.score import Labelled, Objects, Score, labelled, objects, score

YEAR: Final = 2026
"""Whose changes of clocks count: a score must not change with the calendar."""
LEVELS: Final = {"warning and above": (Severity.WARNING, Severity.ERROR), "info": (Severity.INFO,)}


def findings(root: Path) -> Sequence[Finding]:
    return audit(root, list(files(root, ())), YEAR).findings


def audited(folder: Path, wanted: Sequence[Labelled]) -> Iterator[tuple[Labelled, Sequence[Finding], Objects]]:
    for one in wanted:
        root = folder / one.repo.replace("/", "+")
        if root.is_dir():
            yield one, findings(root), objects(root)
        else:
            print(f"{one.repo}: not in {folder}", file=sys.stderr)


def shown(found: Score, *, per_rule: bool) -> Iterator[str]:
    for level, severities in LEVELS.items():
        counts = found.at(*severities)
        known = counts.total() - counts["unlabelled"]
        share = f"{counts['right'] / known:.0%}" if known else "–"
        yield f"precision at {level}: {share} ({counts['right']} of {known}; {counts['unlabelled']} unlabelled)"
    share = f"{found.found / found.musts:.0%}" if found.musts else "–"
    lower = sum(one.lower for one in found.missed)
    yield f"recall: {share} ({found.found} of {found.musts}; {lower} of them only as info)"
    for verdict in ("wrong", "too loud", "unlabelled"):
        these = [one for one in found.told if one.verdict == verdict]
        yield from (f"{verdict}: {one}" for one in these)
    yield from (f"missed: {one}" for one in found.missed)
    if per_rule:
        by_rule: dict[str, Counter[str]] = defaultdict(Counter)
        for told in found.told:
            by_rule[told.finding.rule][told.verdict] += 1
        for rule, verdicts in sorted(by_rule.items()):
            yield f"{rule}: " + ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.audit.corpus")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--half", choices=("seen", "unseen"), default="seen")
    parser.add_argument("--per-rule", action="store_true")
    options = parser.parse_args(argv)
    found = score(audited(options.folder, labelled(options.half)))
    print("\n".join(shown(found, per_rule=options.per_rule)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
