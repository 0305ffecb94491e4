"""cronce simulate: the protocol under crashes, pauses, lost replies and bad clocks."""

import argparse
import json
import os
from collections.abc import Sequence
from contextlib import nullcontext

from cronce.cli.progress import bar
from cronce.errors import BadInput
from cronce.testing.chaos import FAULTS, SITUATIONS, play_out, stage
from cronce.testing.effects_table import by_way, printed
from cronce.testing.mutants import MUTANTS, mutated
from cronce.testing.referee import Violation
from cronce.testing.simulate import Simulation, simulate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, default=400, help="how many histories to play (default 400)")
    parser.add_argument(
        "--no-mutants",
        action="store_true",
        help="leave out the wrong versions that must be caught; they are played until caught, a minute or two",
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)")
    parser.add_argument("--seed", type=int, help="replay one history and show what happened in it")
    parser.add_argument("--mutant", default="", help="with --seed: replay it with this safeguard missing")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    if options.seeds < 1 or options.workers < 1:
        raise BadInput("--seeds and --workers are at least 1")
    if options.mutant and options.mutant not in MUTANTS:
        raise BadInput(f"there is no mutant {options.mutant!r}; there are:\n  " + "\n  ".join(MUTANTS))
    if options.mutant and options.seed is None:
        raise BadInput("--mutant goes with --seed: which history shall be replayed without that safeguard?")
    if options.seed is not None and options.json:
        raise BadInput("--json does not go with --seed: a replay is a text")
    if options.seed is not None:
        return _replay(options.seed, options.mutant)
    result = simulate(options.seeds, mutants=not options.no_mutants, workers=options.workers, progress=bar)
    print(json.dumps(_document(result)) if options.json else _report(result))
    return 1 if result.played.violations or result.survivors else 0


def _replay(seed: int, mutant: str) -> int:
    """Play one seed again and print its history."""
    with mutated(mutant) if mutant else nullcontext():
        scene = stage(seed)
        scene.world.tracing = True
        try:
            play_out(scene)
            verdict, code = "no promise was broken", 0
        except Violation as violation:
            verdict, code = f"broken: {violation}", 1
    print("\n".join([*scene.world.trace, verdict]))
    return code


def _document(result: Simulation) -> dict[str, object]:
    played = result.played
    return {
        "seeds": played.seeds,
        "violations": len(played.violations),
        "mutants": result.mutants,
        "failed": [{"seed": seed, "promise": promise} for seed, promise in sorted(played.violations.items())],
        "faults": dict(sorted(played.faults.items())),
        "calls": played.calls,
        "starts": played.starts,
        "effects": by_way(played.effects),
    }


def _counts(result: Simulation, kinds: Sequence[str]) -> list[str]:
    seen = [(result.played.faults[kind], kind) for kind in kinds if result.played.faults[kind]]
    return [f"  {count:>10,}  {kind}" for count, kind in sorted(seen, reverse=True)]


def _report(result: Simulation) -> str:
    played = result.played
    lines = [
        f"{played.seeds:,} histories, {played.calls:,} store calls, {played.starts:,} bodies started",
        "what went wrong in them, on purpose:",
        *_counts(result, FAULTS),
        "and what they were about:",
        *_counts(result, SITUATIONS),
    ]
    lines += ["what became of effects, by how they were guarded:", *printed(by_way(played.effects))]
    if result.unseen:
        lines.append(f"never happened in so few histories: {', '.join(result.unseen)}")
    if result.mutants:
        lines.append("safeguards taken away, and how many histories it took to notice:")
        lines += [f"  {needed or 'NOT CAUGHT':>10}  {name}" for name, needed in result.mutants.items()]
    lines.append(f"promises broken: {len(played.violations)}")
    for seed, promise in sorted(played.violations.items()):
        lines.append(f"  {promise}\n    replay: cronce simulate --seed {seed}")
    return "\n".join(lines)
