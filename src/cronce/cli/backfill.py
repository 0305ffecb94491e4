"""cronce backfill: run the slots of a stretch of time that never succeeded."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence

from cronce.cli.acting import Actor, Waited, acting, add_act, succeeded, wait_for
from cronce.cli.progress import bar
from cronce.errors import BadInput
from cronce.model import Slot
from cronce.runtime.hand.backfill import MOST, Stretch, ask, parts, survey
from cronce.telling.documents import run_document
from cronce.telling.words import safe

SHOWN = 5
LEFT = "what was asked for stays due; the same command goes on, and with --cancel calls it off"
EXAMPLES = """
Each slot from --from until before --to gets one run by hand, however often this is said, unless it has succeeded or is
open. Its effects go by the slot's key. Ctrl-C leaves what was asked for to be run: the same command goes on watching,
--cancel calls it off. A day begins at midnight in the job's time zone.

examples:
  cronce backfill billing --from 2026-03-01 --to 2026-03-08 --dry-run
  cronce backfill billing --from 2026-03-01T00:00:00Z --to 2026-03-01T06:00:00Z
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="which job")
    parser.add_argument(
        "--from", dest="start", required=True, metavar="WHEN", help="slots from that instant, or day, on"
    )
    parser.add_argument("--to", dest="end", required=True, metavar="WHEN", help="slots before it")
    parser.add_argument("--most", type=int, default=MOST, metavar="N", help=f"slots at most (default {MOST:,})")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--dry-run", action="store_true", help="only say what would be run")
    how.add_argument("--no-wait", action="store_true", help="do not wait for the runs to end")
    how.add_argument("--cancel", action="store_true", help="call off what an earlier backfill asked for")
    add_act(parser, reason=False)
    parser.epilog = EXAMPLES


def run(options: argparse.Namespace) -> int:
    if options.most < 1:
        raise BadInput(f"--most is 1 or more, and this is {options.most}")
    with acting(options) as actor:
        stretch = actor.desk.do(survey(actor.hand, options.job, options.start, options.end, options.most))
        if not options.json:
            print(_found(options.job, stretch), flush=True)
        try:
            asked, waited = _act(actor, stretch, options)
        except KeyboardInterrupt:
            print(f"\ncronce backfill: {LEFT}", file=sys.stderr)
            return 130
    if options.json:
        print(json.dumps(_document(options.job, stretch, asked, waited)))
    elif waited is not None:
        print("\n".join(map(safe, _told(waited, stretch))))
    return 1 if waited is not None and (waited.code or stretch.ended) else 0


def _act(actor: Actor, stretch: Stretch, options: argparse.Namespace) -> tuple[list[Slot], Waited | None]:
    """The runs that were asked for, and what became of all that were, if that was waited for."""
    if options.dry_run:
        return [], None
    if options.cancel:
        _call_off(actor, stretch.asked)
        return [], None
    asked = _ask(actor, stretch.wanted)
    return asked, None if options.no_wait else _wait(actor, [*stretch.asked, *asked])


def _ask(actor: Actor, wanted: Sequence[Slot]) -> list[Slot]:
    asked: list[Slot] = []
    for part in parts(wanted):
        asked += actor.desk.do(ask(actor.hand, part))
        bar("asking", len(asked), len(wanted))
    return asked


def _call_off(actor: Actor, slots: Sequence[Slot]) -> None:
    for place, slot in enumerate(slots, 1):
        actor.desk.do(actor.hand.cancel(slot))
        bar("cancelling", place, len(slots))


def _wait(actor: Actor, slots: Sequence[Slot]) -> Waited:
    return wait_for(actor, slots, lambda _found, over: bar("running", over, len(slots)))


def _counts(stretch: Stretch) -> dict[str, int]:
    return {
        "wanted": len(stretch.wanted),
        "succeeded": stretch.succeeded,
        "open": stretch.busy,
        "ended": len(stretch.ended),
    }


def _found(job: str, stretch: Stretch) -> str:
    slots = sum(_counts(stretch).values())
    return (
        f"{job}: {slots:,} slots, of which {stretch.succeeded:,} succeeded, {stretch.busy:,} are open and"
        f" {len(stretch.ended):,} were backfilled before in vain; {len(stretch.wanted):,} are left to run"
    )


def _told(waited: Waited, stretch: Stretch) -> list[str]:
    outcomes = Counter(one.shown for one in waited.over)
    lines = [", ".join(f"{count:,} {outcome}" for outcome, count in sorted(outcomes.items()))] if outcomes else []
    if waited.obstacle:
        lines.append(f"{waited.left:,} are due, and not waited for: {waited.obstacle}")
    in_vain = [*stretch.ended, *(one for one in waited.over if not succeeded(one))]
    lines += [f"  {one.slot.key} {one.shown}; `cronce rerun {one.slot.key}` runs it again" for one in in_vain[:SHOWN]]
    return [*lines, f"  and {len(in_vain) - SHOWN:,} more"] if len(in_vain) > SHOWN else lines or ["nothing to do"]


def _document(job: str, stretch: Stretch, asked: Sequence[Slot], waited: Waited | None) -> dict[str, object]:
    runs = [run_document(one) for one in waited.over] if waited else None
    return {
        "job": job,
        "slots": _counts(stretch),
        "asked": [slot.key for slot in asked],
        "runs": runs,
        "obstacle": waited.obstacle or None if waited else None,
    }
