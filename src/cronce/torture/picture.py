"""A torture as a picture: time from left to right, a row for each process, a bar for each run of a body, and behind
them what was done to whom. Below, each slot as the store has it on record. SVG, alone or in a page; light and dark.
"""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from math import ceil, floor
from typing import Final

from cronce.model import Slot
from cronce.torture.fault_actions import InjectedFault
from cronce.torture.harness import SKEWS, TortureResult
from cronce.torture.plan import Kind
from cronce.torture.verdict import TortureVerdict
from cronce.torture.worker import TortureTask
from cronce.value import NamedTuple

LEFT_MARGIN: Final = 96
RIGHT: Final = 24
TOP: Final = 84
LANE: Final = 14
ROW: Final = 10
"""Pixels: of a lane of bars, and between two processes."""

PICTURE_WIDTH: Final = 1150
NARROW: Final = 12.0
"""Pixels for all seconds together, and the least for one of them: wide enough for the lines above and below."""

LETTER: Final = 6.2
LABEL_PIXELS: Final = 40
"""Pixels of a letter, and between two labels of the time."""

STYLE: Final = """
svg { font: 11px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif }
.page { fill: #ffffff } text { fill: #24292f } .dim { fill: #6e7781 } .title { font-size: 15px; font-weight: 600 }
.bad-text { fill: #c62828 } .good-text { fill: #1a7f37 }
.grid { stroke: #d8dee4 } .row { fill: #f6f8fa }
.succeeded { fill: #2da44e } .again { fill: #1f6feb } .overtaken { fill: #e3a008 } .ended { fill: #8c959f }
.lost { fill: #cf222e } .failed { fill: #953800 } .skipped { fill: #afb8c1 } .unknown { fill: #8250df }
.missed { fill: #ff00aa }
.kill { fill: #cf222e } .pause { fill: #bf8700 } .cut { fill: #0969da } .outage { fill: #57606a }
.drop { fill: #8250df } .delay { fill: #1b7c83 } .lock { fill: #bf3989 } .restart { fill: #116329 }
.empty { fill: #e16f24 } .roll { fill: #0e8a7d } .drain { fill: #6639ba } .blackout { fill: #82071e }
.deploy { fill: #1f6feb } .rollback { fill: #9a6700 }
.deed { fill-opacity: .2 }
@media (prefers-color-scheme: dark) {
  .page { fill: #0d1117 } text { fill: #e6edf3 } .dim { fill: #8b949e } .grid { stroke: #30363d }
  .row { fill: #161b22 } .bad-text { fill: #ff7b72 } .good-text { fill: #3fb950 }
  .succeeded { fill: #3fb950 } .again { fill: #58a6ff } .skipped { fill: #484f58 } .failed { fill: #db6d28 }
  .outage { fill: #8b949e } .restart { fill: #3fb950 } .deed { fill-opacity: .35 }
}
"""

FAULT_LEGEND: Final[dict[Kind, str]] = {
    "kill": "killed, until it is back",
    "pause": "stopped",
    "drop": "replies lost",
    "delay": "latency",
    "cut": "cut off",
    "outage": "all cut off",
    "lock": "file locked",
    "restart": "store restarted",
    "empty": "store emptied",
    "roll": "asked to end, until it is back",
    "drain": "one colour drained",
    "blackout": "all killed",
    "deploy": "newer version",
    "rollback": "rolled back",
}
RUN_LEGEND: Final = {
    "succeeded": "ran",
    "again": "ran after a takeover",
    "overtaken": "taken over, or stopped in time",
    "ended": "did not end",
}
LEGENDS: Final = 4
SLOT_LEGEND: Final = ("succeeded", "lost", "failed", "skipped", "unknown", "missed")


class Bar(NamedTuple):
    """A run of a body: by whom, of which slot, from when to when, and what became of it."""

    who: str
    slot: str
    began: float
    ended: float
    kind: str


class PictureFrame(NamedTuple):
    """Where things stand."""

    result: TortureResult
    names: tuple[str, ...]
    start: int
    end: int
    """From which second to which, counted from the first slot: where a store's clock is read by the second, the first
    runs seem to begin before it."""

    @property
    def row(self) -> int:
        return LANE * len(self.result.tasks) + ROW

    @property
    def bottom(self) -> int:
        return TOP + self.row * len(self.names)

    @property
    def width(self) -> float:
        return LEFT_MARGIN + self.second * (self.end - self.start) + RIGHT

    @property
    def second(self) -> float:
        """Pixels of a second."""
        return max(PICTURE_WIDTH / (self.end - self.start), NARROW)

    @property
    def height(self) -> int:
        return self.bottom + 44 + 18 * len(self.result.tasks) + 15 * LEGENDS - 1

    def x(self, boot: float) -> float:
        return self.at(boot - self.result.first)

    def y(self, who: str) -> int:
        return TOP + self.row * self.names.index(who)

    def at(self, second: float) -> float:
        return round(LEFT_MARGIN + (second - self.start) * self.second, 1)


def framed(result: TortureResult) -> PictureFrame:
    names = tuple(f"w{number + 1}" for number in range(result.settings.processes))
    deeds = (time for deed in result.deeds for time in (deed.began, deed.ended))
    times = [time - result.first for time in (*(float(line.when) for line in result.lines), *deeds)]
    return PictureFrame(result, names, floor(min([0.0, *times])), ceil(max([len(result.slots), *times])))


def svg(result: TortureResult) -> str:
    frame = framed(result)
    page = _rect(0, 0, frame.width, frame.height, "page")
    parts = [page, *_head(frame), *_grid(frame), *_deeds(frame), *_bars(frame), *_slots(frame), *_legend(frame)]
    size = f'width="{frame.width:.0f}" height="{frame.height}" viewBox="0 0 {frame.width:.0f} {frame.height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{STYLE}</style>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def html(result: TortureResult) -> str:
    page = "body { margin: 0; background: #fff } @media (prefers-color-scheme: dark) { body { background: #0d1117 } }"
    title = f"cronce torture, seed {result.settings.seed}"
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>\n'
        f"<style>{page}</style>\n{svg(result)}</html>\n"
    )


def counted(verdict: TortureVerdict) -> str:
    """A verdict in words: what became of the slots, which adds up, and then what happened beside."""
    names = {"runs": "ran", **{name: name for name in ("skipped", "failed", "lost", "unknown", "missed")}}
    slots = ", ".join(f"{getattr(verdict, name)} {word}" for name, word in names.items())
    twice = f" ({verdict.twice} counted twice)" if verdict.twice else ""
    return (
        f"{verdict.slots} slots: {slots}{twice}; extra {verdict.extra}, overlapping {verdict.overlapping},"
        f" stale accepted {verdict.stale_accepted}, taken over {verdict.taken_over}"
    )


# --- parts ----------------------------------------------------------------------------------------------------------


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'


def _rect(x: float, y: float, width: float, height: float, kind: str, title: str = "") -> str:  # noqa: PLR0917
    box = f'<rect x="{x:g}" y="{y:g}" width="{max(width, 1):.1f}" height="{height:g}" class="{kind}"'
    return f"{box}><title>{escape(title)}</title></rect>" if title else f"{box}/>"


def _head(frame: PictureFrame) -> Iterator[str]:
    result = frame.result
    yield _text(8, 24, f"cronce torture, seed {result.settings.seed}", "title")
    for number, verdict in enumerate(result.verdicts):
        tone = "good-text" if verdict.passed(forgot=result.forgot) else "bad-text"
        yield _text(8, 42 + 15 * number, f"on_lost={verdict.on_lost}: {counted(verdict)}", tone)


def _grid(frame: PictureFrame) -> Iterator[str]:
    for number, name in enumerate(frame.names):
        y = frame.y(name)
        yield _rect(LEFT_MARGIN, y + ROW / 2 - 2, frame.width - LEFT_MARGIN - RIGHT, frame.row - ROW + 4, "row")
        middle = y + frame.row / 2 + 4
        yield _text(8, middle, name)
        yield _text(LEFT_MARGIN - 10, middle, f"{SKEWS[number % len(SKEWS)]:+g} s", "dim", "end")
    every = 1 if frame.second >= LABEL_PIXELS else 5
    for second in range(-(-frame.start // every) * every, frame.end + 1, every):
        x = frame.at(second)
        yield f'<line x1="{x}" x2="{x}" y1="{TOP}" y2="{frame.bottom}" class="grid"/>'
        yield _text(x, TOP - 4, f"{second} s", "dim", "middle")


def _deeds(frame: PictureFrame) -> Iterator[str]:
    for deed in frame.result.deeds:
        y, height = _place(frame, deed)
        x, end = frame.x(deed.began), frame.x(deed.ended)
        text = f"{FAULT_LEGEND[deed.kind]}, {deed.ended - deed.began:.1f} s"
        yield _rect(x, y, end - x, height, f"deed {deed.kind}", text)
        yield _rect(x, y, 2, height, deed.kind, text)


def _place(frame: PictureFrame, deed: InjectedFault) -> tuple[int, int]:
    if deed.who not in frame.names:
        return TOP, frame.bottom - TOP
    return frame.y(deed.who) + 1, frame.row - 2


def _bars(frame: PictureFrame) -> Iterator[str]:
    for number, task in enumerate(frame.result.tasks):
        for bar in bars(frame.result, task):
            y = frame.y(bar.who) + ROW / 2 + LANE * number + 1
            x = frame.x(bar.began)
            yield _rect(
                x, y, frame.x(bar.ended) - x, LANE - 3, bar.kind, f"{bar.slot} by {bar.who}: {RUN_LEGEND[bar.kind]}"
            )


def bars(result: TortureResult, task: TortureTask) -> Iterator[Bar]:
    """The runs of a job, in the order they began."""
    times: dict[tuple[str, str, str], list[float]] = {}
    said: dict[tuple[str, str, str], set[str]] = {}
    for line in result.lines:
        if line.slot.startswith(f"{task.job}@") and line.what not in ("accepted", "stale"):
            times.setdefault(line.run, []).append(float(line.when))
            said.setdefault(line.run, set()).add(line.what)
    fences: dict[str, list[str]] = {}
    for slot, _, fence in said:
        fences.setdefault(slot, []).append(fence)
    for (slot, who, fence), when in times.items():
        what = said[slot, who, fence]
        kind = _kind(what, first=fence == min(fences[slot]), last=fence == max(fences[slot]))
        yield Bar(who, slot, min(when), _end(result.deeds, who, max(when), kind), kind)


def _kind(what: set[str], *, first: bool, last: bool) -> str:
    if not last or "stopped" in what:
        return "overtaken"
    if "done" not in what:
        return "ended"
    return "succeeded" if first else "again"


def _end(deeds: Iterable[InjectedFault], who: str, last: float, kind: str) -> float:
    """A process that was killed worked until then."""
    killed = [deed.began for deed in deeds if deed.kind == "kill" and deed.who == who and deed.began >= last]
    return min(killed) if killed and kind in ("ended", "overtaken") and min(killed) - last < 1 else last


def _slots(frame: PictureFrame) -> Iterator[str]:
    result = frame.result
    for number, task in enumerate(result.tasks):
        y = frame.bottom + 26 + 18 * number
        yield _text(8, y + 10, f"record: {task.title}")
        for place, at in enumerate(task.instants(result.slots)):
            key = Slot(task.job, at).key
            kind = outcome(result, key)
            yield _rect(frame.at(place) + 0.5, y, frame.second - 1, 13, kind, f"{key}: {kind}")


def outcome(result: TortureResult, key: str) -> str:
    """How a slot closed, by the record; without one it is unknown if the store forgot, else missed."""
    record = result.records.get(key)
    if record is not None and record.outcome is not None:
        return str(record.outcome)
    return "unknown" if result.forgot else "missed"


def _legend(frame: PictureFrame) -> Iterator[str]:
    seen = {deed.kind for deed in frame.result.deeds}
    deeds = [(f"deed {kind}", text) for kind, text in FAULT_LEGEND.items() if kind in seen]
    slots = [(kind, kind) for kind in SLOT_LEGEND]
    top = frame.height - 15 * LEGENDS + 1
    for number, (label, items) in enumerate((("runs", [*RUN_LEGEND.items()]), ("slots", slots), ("faults", deeds))):
        x, y = float(LEFT_MARGIN), top + 15 * number
        yield _text(8, y + 9, label, "dim")
        for kind, text in items:
            yield _rect(x, y, 12, 10, kind)
            yield _text(x + 17, y + 9, text, "dim")
            x += 17 + LETTER * len(text) + 18
    yield _text(8, top + 54, "rows", "dim")
    yield _text(LEFT_MARGIN, top + 54, _rows(frame.result.tasks), "dim")


def _rows(tasks: Sequence[TortureTask]) -> str:
    titles = ", ".join(task.own for task in tasks)
    several = f"the bars from above: {titles}" if tasks[0].own else "the upper bar is skip, the lower rerun"
    lanes = f"; {several}" if len(tasks) > 1 else ""
    return f"one row for each process, with the error of its clock: +5 s is five seconds ahead of the store's{lanes}"
