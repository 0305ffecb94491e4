"""cronce demo: three processes, one killed in the middle of a run and one paused, with the guard and without it."""

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from cronce.cli.audience import audience_at, filled
from cronce.cli.play import ended_like_ctrl_c, folder
from cronce.cli.table import Screen, Toned, paint, screen
from cronce.clock import SystemClock
from cronce.demo.side import Side
from cronce.demo.stage import Stage
from cronce.demo.verdict import Verdict
from cronce.errors import BadInput

FEWEST: Final = 8
MOST: Final = 300

TEXT: Final = """\
Three processes call one job every second, on one SQLite file. One of them is killed in the middle of a run, one is
paused there for longer than its lease. Beside them the same three do the same without cronce. At the end the ledger
files that the bodies wrote are counted.

exit codes: 0 every slot ran once with the guard, and some ran more than once without it; 1 it is not so."""

NEXT: Final = """\
Now yours. In every crontab that shares the store:

  */15 * * * *  cronce exec order-sync --schedule '*/15 * * * *' -- ./sync.sh

or in Python, called by any number of triggers:

  from cronce import Cronce
  cron = Cronce()
  @cron.job("*/15 * * * *")
  def order_sync():
      print("once for each slot")
  order_sync()

or with cronce as the scheduler, started as often as you like: cron.run() as the
last line, or

  cronce run app:cron"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = TEXT
    parser.add_argument(
        "--seconds", type=int, default=14, metavar="N", help=f"how many slots, at least {FEWEST} (default 14)"
    )
    parser.add_argument("--save", type=Path, metavar="DIR", help="keep the store and the ledger files there")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    if not FEWEST <= options.seconds <= MOST:
        raise BadInput(f"--seconds is {FEWEST} to {MOST}, and this is {options.seconds}")
    audience = audience_at(sys.stdout, quiet=options.json)
    with ended_like_ctrl_c(), folder(options.save) as place:
        audience.open()
        stage = Stage(place, options.seconds, SystemClock(), audience.show)
        guarded, unguarded = stage.play()
        audience.close(stage)
    if options.json:
        print(
            json.dumps(
                {"guarded": _document(guarded, stage.guarded), "unguarded": _document(unguarded, stage.unguarded)}
            )
        )
    else:
        print("\n".join([*_words(guarded, unguarded, screen()), *_kept(options.save)]))
    return 0 if _passed(guarded, unguarded) else 1


# --- the verdict ----------------------------------------------------------------------------------------------------


def _passed(guarded: Verdict, unguarded: Verdict) -> bool:
    once = guarded.runs == guarded.slots and not (guarded.extra or guarded.missed or guarded.lost)
    return once and unguarded.extra > 0


def _document(verdict: Verdict, side: Side) -> dict[str, int]:
    return {**verdict._asdict(), "killed": len(side.account.killed), "paused": len(side.account.paused)}


def _words(guarded: Verdict, unguarded: Verdict, on: Screen) -> list[str]:
    lines = ["", _counted("guarded:", guarded, on), _counted("without:", unguarded, on), ""]
    if not _passed(guarded, unguarded):
        return [*lines, *filled("This is not as it should be. Run it with --save DIR, and send us the files.", on)]
    sentence = "Every slot ran once, though one process was killed in the middle of a run and another was paused."
    return [*lines, *filled(f"{sentence} Without the guard, {unguarded.extra} runs were too many.", on), "", NEXT]


def _counted(side: str, verdict: Verdict, on: Screen) -> str:
    extra = Toned(f"extra {verdict.extra}", "bad" if verdict.extra else "good")
    taken_over = f", {verdict.taken_over} taken over" if verdict.taken_over else ""
    counts = f"{verdict.slots} slots, {verdict.runs} runs, {paint(extra, on)}, missed {verdict.missed}"
    return f"{side} {counts}, lost {verdict.lost}{taken_over}"


def _kept(keep: Path | None) -> list[str]:
    return ["", f"The store and the ledger files are in {keep}."] if keep else []
