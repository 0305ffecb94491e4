"""What stores promise, as the table in the docs: made from their traits, so that it cannot say anything else."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from cronce.model import Traits

PROMISES: Final = (
    ("linearizable", "a write that won is seen by every later read"),
    ("durable", "a write that won survives a crash of the store"),
    ("survives_failover", "and the loss of its machine"),
    ("groups", "several cells land together or not at all"),
    ("notifies", "can wake a waiting process"),
    ("shared", "a second connection to the same URL sees the same cells"),
    ("in_memory", "every cell costs memory, so fewer are kept by default"),
    ("history", "keeps every slot and effect, not only a job's last slots"),
    ("tally", "finds out by itself that it was put back to an earlier state"),
    ("one_clock", "one clock dates all leases"),
    ("skew", "two reads of its clock disagree by at most"),
    ("step", "its clock is exact to"),
)


def promise_table(stores: Sequence[Traits]) -> str:
    """A Markdown table: a promise in each row, a store in each column."""
    rows = [[f"{words} (`{name}`)", *(_say(getattr(traits, name)) for traits in stores)] for name, words in PROMISES]
    rows.append(["**so a slot is claimed once**", *(_say(traits.linearizable and traits.durable) for traits in stores)])
    head = [["", *(f"`{traits.name}`" for traits in stores)], ["---"] * (len(stores) + 1)]
    return "".join(f"| {' | '.join(row)} |\n" for row in [*head, *rows])


def _say(value: bool | timedelta) -> str:
    if isinstance(value, timedelta):
        return f"{value / timedelta(milliseconds=1):g} ms"
    return "yes" if value else "no"
