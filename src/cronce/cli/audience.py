"""Who looks on at the demo: a terminal, where one table is drawn in place, a file, which gets a line for each slot when
it is settled, or nobody."""

import os
from collections.abc import Sequence
from textwrap import wrap
from typing import Final, Protocol, TextIO

from cronce.cli.table import Screen, Text, Tone, Toned, paint, screen
from cronce.demo.picture import Mark, mark, settled, time_of
from cronce.demo.side import NAMES, Side
from cronce.demo.stage import Stage

INTRO: Final = """\
Three processes call the same job every second. One will be killed in the middle of a run, and one paused. On the left \
cronce guards the job; on the right nobody does. Times are UTC; · means refused: another has that slot.\
"""

TONES: Final[dict[Mark, Tone]] = {
    Mark.RAN: "good",
    Mark.TOOK_OVER: "good",
    Mark.RAN_AGAIN: "bad",
    Mark.RAN_LATE: "bad",
    Mark.KILLED: "bad",
    Mark.PAUSED: "odd",
    Mark.STOPPED: "odd",
    Mark.RUNNING: "busy",
    Mark.REFUSED: "dim",
}
FIRST: Final = 10
COLUMN: Final = 11
GAP: Final = 2
"""The widths of the columns, and of the gap between the two sides."""


class Audience(Protocol):
    """Who looks on: a terminal, a file, or nobody."""

    def open(self) -> None: ...
    def show(self, stage: Stage) -> None: ...
    def close(self, stage: Stage) -> None: ...


def audience_at(out: TextIO, *, quiet: bool) -> Audience:
    if quiet:
        return Nobody()
    return Terminal(out) if out.isatty() and os.environ.get("TERM") != "dumb" else File(out)


class Nobody:
    def open(self) -> None: ...
    def show(self, stage: Stage) -> None: ...
    def close(self, stage: Stage) -> None: ...


class File:
    """A line for each slot when it is settled, and for each thing that happens; nothing is drawn twice."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._on = out, screen(out)
        self._slots: set[str] = set()
        self._notes = 0

    def open(self) -> None:
        self._print([*filled(INTRO, self._on), "", *_header(self._on)])

    def show(self, stage: Stage) -> None:
        self._print([f"  {note}" for note in stage.notes[self._notes :]])
        self._notes = len(stage.notes)
        with_guard, without = stage.guarded.account, stage.unguarded.account
        self._rows(stage, [slot.key for slot in stage.slots if settled(with_guard, without, slot.key, NAMES)])

    def close(self, stage: Stage) -> None:
        self._rows(stage, [slot.key for slot in stage.slots])

    def _rows(self, stage: Stage, slots: Sequence[str]) -> None:
        self._print([_row(stage.sides, slot, self._on) for slot in slots if slot not in self._slots])
        self._slots.update(slots)

    def _print(self, lines: Sequence[str]) -> None:
        if lines:
            print("\n".join(lines), file=self._out, flush=True)


class Terminal:
    """One table that is drawn in place, with what happens below it."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._drawn: list[str] = []

    def open(self) -> None:
        print(*filled(INTRO, screen(self._out)), "", sep="\n", file=self._out)

    def show(self, stage: Stage) -> None:
        """No more rows than the terminal has room for: what has scrolled away cannot be drawn again."""
        try:
            room = os.get_terminal_size(self._out.fileno()).lines
        except OSError:
            room = 24
        self._draw(stage, max(room - 1, 10))

    def close(self, stage: Stage) -> None:
        self._draw(stage, None)

    def _draw(self, stage: Stage, room: int | None) -> None:
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


def _notes(stage: Stage, on: Screen) -> list[str]:
    texts = [line for note in stage.notes for line in filled(note, on)]
    return ["", *(paint(Toned(text, "odd"), on) for text in texts)] if texts else []


def _header(on: Screen) -> list[str]:
    sides = f"{'':{FIRST}}{'guarded by cronce':<{len(NAMES) * _room(on) + GAP}}without"
    return [sides, _line([Toned(text, "dim") for text in ("slot", *NAMES, *NAMES)], on)]


def _row(sides: Sequence[Side], slot: str, on: Screen) -> str:
    marks = [mark(side.account, slot, who) for side in sides for who in NAMES]
    return _line([time_of(slot), *(Toned(text, TONES.get(text)) for text in marks)], on)


def _line(cells: Sequence[Text], on: Screen) -> str:
    """Cells in columns that do not move when a longer word comes."""
    room = _room(on)
    widths = [FIRST, *[room] * (len(NAMES) - 1), room + GAP, *[room] * len(NAMES)]
    return "".join(_cell(cell, width, on) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _room(on: Screen) -> int:
    """The width of a process's column: less on a narrow terminal, where its words are cut."""
    return COLUMN if on.width is None else max(min(COLUMN, (on.width - FIRST - GAP) // (2 * len(NAMES))), 3)


def _cell(cell: Text, width: int, on: Screen) -> str:
    text, tone = (cell, None) if isinstance(cell, str) else cell
    text = text[: width - 1]
    return paint(Toned(text, tone), on) + " " * (width - len(text))


def filled(text: str, on: Screen) -> list[str]:
    """Lines of prose, no wider than the terminal and never too wide to read."""
    return wrap(text, min((on.width or 80) - 1, 79))
