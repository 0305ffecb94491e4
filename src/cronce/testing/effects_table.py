"""What became of effects in many simulated histories, as a table: on the screen, and in the docs."""

from collections.abc import Mapping
from typing import Final

from cronce.testing.receivers import EFFECT_COUNTS, EffectGuard, Figures

Effects = Mapping[str, Mapping[str, int]]
"""By the way in which they were made, then by column."""

HOW: Final = {
    EffectGuard.KEY: '`once(…, unsure="retry")`',
    EffectGuard.STEP: "`once(…)`",
    EffectGuard.THING: "`run.on(…).once(…)`, in every slot of two jobs",
    EffectGuard.MESSAGE: "`@cron.idempotent(…)`",
    EffectGuard.JOINED: "`run.transaction(…)`",
    EffectGuard.FENCE: "`run.fence`, of which the other side refuses a lower one",
    EffectGuard.NOTHING: "a plain call",
}
ZERO: Final = {
    EffectGuard.KEY: ("repeats", "lost"),
    EffectGuard.STEP: ("repeats", "lost"),
    EffectGuard.THING: ("repeats", "lost"),
    EffectGuard.MESSAGE: ("repeats",),
    EffectGuard.JOINED: ("repeats", "lost", "in_doubt"),
    EffectGuard.FENCE: ("out_of_order",),
    EffectGuard.NOTHING: (),
}
"""What is promised: these are nought, and bold in the table."""


def by_way(figures: Figures) -> dict[str, dict[str, int]]:
    return {str(way): {column: figures[way, column] for column in EFFECT_COUNTS} for way in EffectGuard}


def table(effects: Effects, seeds: int) -> str:
    """As Markdown."""
    head = ["an effect", "by", *(column.replace("_", " ") for column in EFFECT_COUNTS)]
    rows = [[str(way), HOW[way], *(_figure(way, column, effects) for column in EFFECT_COUNTS)] for way in EffectGuard]
    lines = (f"| {' | '.join(cells)} |" for cells in (head, ["---", "---", *["---:"] * len(EFFECT_COUNTS)], *rows))
    return "\n".join([f"In {seeds:,} histories of `cronce torture simulate`:", "", *lines])


def _figure(way: EffectGuard, column: str, effects: Effects) -> str:
    figure = f"{effects[way][column]:,}"
    return f"**{figure}**" if column in ZERO[way] else figure


def printed(effects: Effects) -> list[str]:
    """For a terminal."""
    head = "".join(f"{column.replace('_', ' '):>14}" for column in EFFECT_COUNTS)
    rows = ("".join(f"{effects[way][column]:>14,}" for column in EFFECT_COUNTS) + f"  {way}" for way in EffectGuard)
    return [head, *rows]
