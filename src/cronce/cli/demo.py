"""cronce demo: three processes, one killed in the middle of a run and one paused, with the guard and without it.

One table shows which process had which slot: on a terminal while it happens, in a file at the end.
"""

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Final, TextIO

from cronce.cli import on_signals, refuse_outside
from cronce.cli.terminal import ColouredText, Screen, Text, filled, paint, screen, show
from cronce.clock import SystemClock
from cronce.demo.harness import PROCESS_NAMES, DemoHarness, DemoSide
from cronce.demo.picture import SlotMark, mark, time_of
from cronce.demo.verdict import DemoVerdict
from cronce.errors import BadInput
from cronce.telling.words import Tone

FEWEST: Final = 8
MAX_SLOTS: Final = 300

INTRO: Final = """\
Three processes call the same job every second. One will be killed in the middle of a run, and one paused. On the left \
cronce guards the job; on the right there is no guard. Times are UTC; · means refused: another process has that slot.\
"""

TONE_OF_MARK: Final[dict[SlotMark, Tone]] = {
    SlotMark.RAN: "good",
    SlotMark.TOOK_OVER: "good",
    SlotMark.RAN_AGAIN: "bad",
    SlotMark.RAN_LATE: "bad",
    SlotMark.KILLED: "bad",
    SlotMark.PAUSED: "odd",
    SlotMark.STOPPED: "odd",
    SlotMark.RUNNING: "busy",
    SlotMark.REFUSED: "dim",
}
FIRST: Final = 10
DEMO_COLUMN: Final = 11
SIDE_GAP: Final = 2
"""The widths of the columns, and of the gap between the two sides."""

DEMO_DESCRIPTION: Final = """\
Three processes call one job every second, on one SQLite file. One of them is killed in the middle of a run, one is
paused there for longer than its lease. Three others do the same without cronce. At the end the ledger
files that the job functions wrote are counted.

exit codes: 0 every slot ran once with the guard, and some ran more than once without it; 1 otherwise."""

NEXT: Final = """\
To guard a job of yours, write in every crontab that shares the store:

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

  cronce run app:cron

In the demo another process takes over a slot whose process was killed. For that
add --on-lost rerun, or in Python on_lost="rerun". The default, skip, closes the
slot as lost, since its work may be half done."""


def add_demo_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--seconds", type=int, default=14, metavar="N", help=f"how many slots, at least {FEWEST} (default 14)")
    add("--save", type=Path, metavar="DIR", help="keep the store and the ledger files in this directory")
    add("--json", action="store_true", help="print one JSON document")


def run_demo(options: argparse.Namespace) -> int:
    refuse_outside("--seconds", options.seconds, MAX_SLOTS, FEWEST)
    table = DemoTable(StringIO() if options.json else sys.stdout)
    with ended_like_ctrl_c(), folder(options.save) as place:
        table.open()
        stage = DemoHarness(place, options.seconds, SystemClock(), table.show)
        guarded, unguarded = stage.play()
        table.close(stage)
    kept = ["", f"The store and the ledger files are in {options.save}."] if options.save else []
    document = {"guarded": _document(guarded, stage.guarded), "unguarded": _document(unguarded, stage.unguarded)}
    show(options, document, "\n".join([*_words(guarded, unguarded, screen()), *kept]))
    return 0 if _passed(guarded, unguarded) else 1


# --- the verdict ----------------------------------------------------------------------------------------------------


def _passed(guarded: DemoVerdict, unguarded: DemoVerdict) -> bool:
    once = guarded.runs == guarded.slots and not (guarded.extra or guarded.missed or guarded.lost)
    return once and unguarded.extra > 0


def _document(verdict: DemoVerdict, side: DemoSide) -> dict[str, int]:
    return {**verdict._asdict(), "killed": len(side.account.killed), "paused": len(side.account.paused)}


def _words(guarded: DemoVerdict, unguarded: DemoVerdict, on: Screen) -> list[str]:
    lines = ["", _counted("guarded:", guarded, on), _counted("without:", unguarded, on), ""]
    if not _passed(guarded, unguarded):
        return [*lines, *filled("The result is wrong. Run the demo again with --save DIR, and send us the files.", on)]
    sentence = "Every slot ran once, though one process was killed in the middle of a run and another was paused."
    prevented = f"cronce prevented {unguarded.extra} duplicate runs."
    return [*lines, *filled(f"{sentence} {prevented}", on), "", NEXT]


def _counted(side: str, verdict: DemoVerdict, on: Screen) -> str:
    """A run that another took over is one run: what its first process had begun is not counted as another."""
    extra = ColouredText(f"{verdict.extra} too many", "bad" if verdict.extra else "good")
    lost = f", {verdict.lost} lost" if verdict.lost else ""
    taken_over = f"; {verdict.taken_over} taken over" if verdict.taken_over else ""
    runs = f"{verdict.runs + verdict.extra} runs: {paint(extra, on)}, {verdict.missed} missed"
    return f"{side} {verdict.slots} slots, {runs}{lost}{taken_over}"


# --- the table --------------------------------------------------------------------------------------------------------


class DemoTable:
    """One table, with what happens below it: drawn in place on a terminal, and in a file once, at the end."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._in_place = out, out.isatty() and os.environ.get("TERM") != "dumb"
        self._drawn: list[str] = []

    def open(self) -> None:
        print(*filled(INTRO, screen(self._out)), "", sep="\n", file=self._out, flush=True)

    def show(self, stage: DemoHarness) -> None:
        """No more rows than the terminal has room for: what has scrolled away cannot be drawn again."""
        if not self._in_place:
            return
        try:
            room = os.get_terminal_size(self._out.fileno()).lines
        except OSError:
            room = 24
        self._draw(stage, max(room - 1, 10))

    def close(self, stage: DemoHarness) -> None:
        self._draw(stage, None)

    def _draw(self, stage: DemoHarness, room: int | None) -> None:
        on = screen(self._out)
        begun = [slot.key for slot in stage.slots if any(side.account.of(slot.key) for side in stage.sides)]
        header, notes = _header(on), _notes(stage, on)
        left = len(begun) if room is None else max(room - len(header) - len(notes), 1)
        lines = [*header, *(_row(stage.sides, slot, on) for slot in begun[-left:]), *notes]
        if lines != self._drawn:
            up = f"\x1b[{len(self._drawn)}A\x1b[J" if self._drawn else ""
            self._out.write(up + "\n".join(lines) + "\n")
            self._out.flush()
            self._drawn = lines


def _notes(stage: DemoHarness, on: Screen) -> list[str]:
    texts = [line for note in stage.notes for line in filled(note, on)]
    return ["", *(paint(ColouredText(text, "odd"), on) for text in texts)] if texts else []


def _header(on: Screen) -> list[str]:
    sides = f"{'':{FIRST}}{'guarded by cronce':<{len(PROCESS_NAMES) * _room(on) + SIDE_GAP}}without"
    return [sides, _line([ColouredText(text, "dim") for text in ("slot", *PROCESS_NAMES, *PROCESS_NAMES)], on)]


def _row(sides: Sequence[DemoSide], slot: str, on: Screen) -> str:
    marks = [mark(side.account, slot, who) for side in sides for who in PROCESS_NAMES]
    return _line([time_of(slot), *(ColouredText(text, TONE_OF_MARK.get(text)) for text in marks)], on)


def _line(cells: Sequence[Text], on: Screen) -> str:
    """Cells in columns that do not move when a longer word comes."""
    room = _room(on)
    widths = [FIRST, *[room] * (len(PROCESS_NAMES) - 1), room + SIDE_GAP, *[room] * len(PROCESS_NAMES)]
    return "".join(_cell(cell, width, on) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _room(on: Screen) -> int:
    """The width of a process's column: less on a narrow terminal, where its words are cut."""
    return (
        DEMO_COLUMN
        if on.width is None
        else max(min(DEMO_COLUMN, (on.width - FIRST - SIDE_GAP) // (2 * len(PROCESS_NAMES))), 3)
    )


def _cell(cell: Text, width: int, on: Screen) -> str:
    text, tone = (cell, None) if isinstance(cell, str) else cell
    text = text[: width - 1]
    return paint(ColouredText(text, tone), on) + " " * (width - len(text))


# --- for torture, too: a folder for the files, and an end that leaves nothing behind ----------------------------------


@contextmanager
def folder(saved: Path | None) -> Iterator[Path]:
    """The directory for the files: a temporary one, unless a person wants to keep them."""
    if saved is None:
        with tempfile.TemporaryDirectory(prefix="cronce-") as made:
            yield Path(made)
        return
    try:
        saved.mkdir(parents=True, exist_ok=True)
        used = any(saved.iterdir())
    except OSError as error:
        raise BadInput(f"--save {saved}: {error.strerror}") from None
    if used:
        raise BadInput(f"--save {saved}: this directory is not empty; name a new one")
    yield saved.resolve()


@contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """TERM and a closed terminal end the block as Ctrl-C does, so that no process and no file is left behind."""
    ours = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    with on_signals(ours, signal.default_int_handler):
        yield
