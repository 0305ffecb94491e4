"""What the ledger files prove: how many slots ran, how many runs were too many, and which slots did not run. Pure.

The slots are those that were decided on beforehand, not those that happen to be in the file. What the store has on
record explains starts (a takeover is one) and absences (a slot may be lost); it never makes a run.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from cronce.protocol.record import Outcome
from cronce.testing.ledger_file import LedgerLine, by_slot
from cronce.value import NamedTuple


class DemoRecord(NamedTuple):
    """What the store says of a slot: how often it was granted, and how it closed."""

    grants: int
    outcome: Outcome | None = None


NO_RECORDS: Final[Mapping[str, DemoRecord]] = MappingProxyType({})


class DemoVerdict(NamedTuple):
    slots: int
    runs: int
    """Slots with a completed body, of the highest fence only."""
    extra: int
    """Starts beyond one per slot that no takeover explains, and second completions that a receiver would accept."""
    missed: int
    """Slots neither run nor on record."""
    lost: int
    taken_over: int


class _Count(NamedTuple):
    """The same, of one slot."""

    ran: bool
    extra: int
    taken_over: int


def judge(
    slots: Sequence[str], lines: Iterable[LedgerLine], records: Mapping[str, DemoRecord] = NO_RECORDS
) -> DemoVerdict:
    """The verdict on a ledger file, in the order it was written. Without a guard there are no records."""
    told_of, astray = by_slot(slots, lines)
    counts = {slot: _count(told, records.get(slot, DemoRecord(1)).grants) for slot, told in told_of.items()}
    return DemoVerdict(
        len(slots),
        sum(count.ran for count in counts.values()),
        sum(count.extra for count in counts.values()) + astray,
        sum(not count.ran and slot not in records for slot, count in counts.items()),
        sum(slot in records and records[slot].outcome is Outcome.LOST for slot in told_of),
        sum(count.taken_over for count in counts.values()),
    )


def _count(lines: Sequence[LedgerLine], grants: int) -> _Count:
    explained, unexplained = _starts(lines, grants)
    accepted = [line for line in _accepted(lines) if line.run not in unexplained]
    extra = len(unexplained) + max(len(accepted) - 1, 0)
    return _Count(_ran(lines), extra, max(len(explained) - 1, 0))


def _starts(lines: Iterable[LedgerLine], grants: int) -> tuple[set[str], list[tuple[str, str, str]]]:
    """The fences whose first start a grant explains, and the runs of all other starts."""
    explained: set[str] = set()
    unexplained = []
    for line in lines:
        if line.what != "start":
            continue
        if line.fence in explained or len(explained) >= grants:
            unexplained.append(line.run)
        else:
            explained.add(line.fence)
    return explained, unexplained


def _accepted(lines: Iterable[LedgerLine]) -> Iterable[LedgerLine]:
    """The completions that a receiver accepts which refuses a lower fence than the highest it has seen."""
    highest = ""
    for line in lines:
        if line.fence >= highest:
            highest = line.fence
            if line.what == "done":
                yield line


def _ran(lines: Sequence[LedgerLine]) -> bool:
    highest = max((line.fence for line in lines), default="")
    return any(line.what == "done" and line.fence == highest for line in lines)
