"""What a person reads at a terminal: tables, colours, prose, a bar and a question.

Tables are plain aligned columns; cut to the terminal's width, and coloured, only on a terminal. What a store holds was
written by jobs and hosts, so no text of theirs reaches a terminal with its control characters.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Final, NamedTuple, TextIO

from cronce.cli import pasteable
from cronce.errors import CronceError
from cronce.telling.words import Tone, safe, tone

_CODES: Final[dict[Tone, str]] = {"good": "32", "bad": "31", "odd": "33", "busy": "36", "dim": "2"}
_LEAST: Final = 8
"""No column is cut to fewer characters than this, however narrow the terminal."""

_BAR: Final = 30
"""Characters of a bar."""


class Screen(NamedTuple):
    """Where text goes: how wide it is (None: no terminal, nothing is cut) and whether it takes colours."""

    width: int | None = None
    colours: bool = False


class ColouredText(NamedTuple):
    """A text and the colour of its meaning."""

    text: str
    tone: Tone | None


Text = str | ColouredText


def toned(word: str) -> ColouredText:
    """A state, an outcome or a severity, by what it means."""
    return ColouredText(word, tone(word))


def screen(out: TextIO | None = None, environ: Mapping[str, str] = os.environ) -> Screen:
    out = out or sys.stdout
    if out is None or not out.isatty():  # a caller may have closed it
        return Screen()
    try:
        width = os.get_terminal_size(out.fileno()).columns or None
    except OSError:
        width = None
    return Screen(width, colours=not environ.get("NO_COLOR") and environ.get("TERM") != "dumb")


def table(headers: Sequence[str], rows: Sequence[Sequence[Text]], on: Screen) -> str:
    """Rows under their headers. Where they do not fit, the widest cells are cut, and end in an ellipsis."""
    plain = [[_toned(text) for text in row] for row in ([ColouredText(header, "dim") for header in headers], *rows)]
    widths = [max(len(cell.text) for cell in column) for column in zip(*plain, strict=True)]
    widths = _fitted(widths, on.width)
    return "\n".join(_line(row, widths, on) for row in plain)


def paint(text: Text, on: Screen) -> str:
    """A text as it is shown: without control characters, and coloured where colours are welcome."""
    plain, tone = _toned(text)
    return f"\x1b[{_CODES[tone]}m{plain}\x1b[0m" if tone and plain and on.colours else plain


def _toned(text: Text) -> ColouredText:
    return ColouredText(safe(text), None) if isinstance(text, str) else ColouredText(safe(text.text), text.tone)


def _fitted(widths: list[int], room: int | None) -> list[int]:
    """The widths, less what is too much of them, taken from whichever is widest; from the first, which says what a row
    is about, only when the others cannot give more."""
    fitted = list(widths)
    excess = 0 if room is None else sum(widths) + 2 * (len(widths) - 1) - room
    for _ in range(excess):
        widest = max(range(len(fitted)), key=lambda place: (place > 0 and fitted[place] > _LEAST, fitted[place]))
        if fitted[widest] <= _LEAST:
            break
        fitted[widest] -= 1
    return fitted


def _line(row: Sequence[ColouredText], widths: Sequence[int], on: Screen) -> str:
    """One line without blanks at its end, so that it can be copied."""
    last = max((place for place, cell in enumerate(row) if cell.text), default=0)
    cells = []
    for place, (cell, width) in enumerate(zip(row[: last + 1], widths, strict=False)):
        text = cell.text if len(cell.text) <= width else f"{cell.text[: width - 1]}…"
        gap = " " * (width - len(text)) if place < last else ""
        cells.append(paint(ColouredText(text, cell.tone), on) + gap)
    return "  ".join(cells)


def filled(text: str, on: Screen) -> list[str]:
    """Lines of prose, no wider than the terminal and never too wide to read."""
    return wrap(text, min((on.width or 80) - 1, 79))


def show(options: argparse.Namespace, document: Mapping[str, object], text: str, *, escape: bool = True) -> None:
    """One JSON document for a program, with letters beyond ASCII escaped or not; or the text for a person."""
    if sys.stdout is None:
        raise CronceError("standard output is closed, so the answer cannot be printed")
    print(json.dumps(document, ensure_ascii=escape) if options.json else pasteable(text))


def bar(what: str, done: int, whole: int) -> None:
    """On a terminal, draw how far it has come, over the line that was there; nothing anywhere else."""
    if not sys.stderr.isatty() or not whole:
        return
    drawn, end = _BAR * done // whole, "\n" if done >= whole else ""
    line = f"\r{what:>10} [{'█' * drawn}{'·' * (_BAR - drawn)}] {done:,}/{whole:,}"
    print(line, end=end, file=sys.stderr, flush=True)


def ask(question: str) -> str:
    """The answer, in small letters. Ctrl-D means that nothing is to be done."""
    try:
        return input(question).strip().lower()
    except EOFError:
        print()
        raise CronceError("there was no answer, and nothing was changed") from None
