"""What a case found: lines with figures, the limits they keep, and whether every slot ran once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from bench.__main__ import cost
from bench.harness import Limit, Meter, Result, Within

SECONDS = Meter("wall", lambda: 0.0)
HEADER = ("figure", "ours", "peer", "judged", "quartiles", "limit", "verdict")


@dataclass(frozen=True, slots=True)
class Line:
    """One figure, cycle by cycle. Without a limit it stands beside the others, as a peer's own."""

    name: str
    ours: Sequence[float] = ()
    peer: Sequence[float] = ()
    limit: Limit | None = None
    unit: str = "s"

    @property
    def ok(self) -> bool:
        return self.limit is None or self.result.ok

    @property
    def result(self) -> Result:
        assert self.limit is not None
        return Result(self.limit, self.ours, self.peer)

    @property
    def document(self) -> dict[str, object]:
        sides = {"ours": self.ours, "peer": self.peer}
        medians = {side: median(figures) for side, figures in sides.items() if figures}
        return {"name": self.name, **medians, "unit": self.unit, "ok": self.ok}

    @property
    def cells(self) -> tuple[str, ...]:
        sides = [self._spelled(median(side)) if side else "" for side in (self.ours, self.peer)]
        if self.limit is None:
            return self.name, *sides, "", "", "", ""
        figures = sorted(self.result.figures)
        spread = f"{self._figure(figures[len(figures) // 4])} – {self._figure(figures[-1 - len(figures) // 4])}"
        limit = f"≤ {self._spelled(self.limit.bound)}" if isinstance(self.limit, Within) else str(self.limit)
        verdict = "ok" if self.ok else "MISSED"
        return self.name, *sides, self._figure(self.result.figure), spread, limit, verdict

    def _figure(self, figure: float) -> str:
        return self._spelled(figure) if isinstance(self.limit, Within) else f"{figure:.2f}"

    def _spelled(self, amount: float) -> str:
        return cost(amount, SECONDS) if self.unit == "s" else f"{amount:,.{1 if amount < 100 else 0}f} {self.unit}"


def table(lines: Iterable[Line]) -> str:
    rows = [HEADER, *(line.cells for line in lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
