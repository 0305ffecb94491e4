"""python -m tests.proof: run the parts of the proof that have no result for what is checked out."""

import argparse
import sys
from collections.abc import Sequence

from tests.proof import pages
from tests.proof.parts import PARTS, Part
from tests.proof.record import Record
from tests.proof.run import Runner, spent


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.proof", description=__doc__)
    add = parser.add_argument
    add("parts", nargs="*", metavar="PART", help="only these (default: all)")
    add("--fresh", action="store_true", help="repeat parts that passed before on the same source")
    add("--list", action="store_true", help="list the parts and their last results, run nothing")
    add("--docs", action="store_true", help="write the figures of the docs from docs/proof.json, run nothing")
    return parser.parse_args()


def chosen(names: Sequence[str]) -> list[Part]:
    known = {part.name: part for part in PARTS}
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"there is no part {', '.join(unknown)}; there are: {', '.join(known)}")
    return [known[name] for name in names] or list(PARTS)


def main() -> int:
    options, record = arguments(), Record()
    parts = chosen(options.parts)
    if options.list:
        print(pages.parts_table(record))
        return 0
    if options.docs:
        print("\n".join(f"{page}: written" for page in pages.write(record)) or "all pages are up to date")
        return 0
    try:
        outcomes = Runner(record).run(parts, fresh=options.fresh)
    except KeyboardInterrupt:
        print("\nInterrupted. Finished parts are saved; make proof continues with the rest.")
        return 130
    finally:
        pages.write(record)
    failed = [outcome.part.name for outcome in outcomes if outcome.verdict == "failed"]
    whole = spent(sum(outcome.seconds for outcome in outcomes))
    print(f"{len(outcomes) - len(failed)} of {len(outcomes)} parts passed, {whole} in all")
    if failed:
        print(f'failed: {", ".join(failed)}; again: make proof PART="{" ".join(failed)}"')
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
