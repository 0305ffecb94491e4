"""What a torture proves: the ledger file that the bodies wrote, held against what the store has on record. Pure.

Two sides, since neither is to be believed alone. A slot that the store calls succeeded and no body completed is missed;
a body that started twice is extra, unless the store has on record that the first was taken over.

*Times* are the boot clock's, which all processes of a machine share. A body reads it, makes sure that it is still
trusted, and then writes: so a line says "at that moment I was allowed to act", however much later it was written by a
process that was stopped in between.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, Literal

from cronce.model import Instant
from cronce.policy import OnLost
from cronce.protocol.record import LAPSED, Outcome
from cronce.testing.ledger_file import LedgerLine, by_slot
from cronce.value import NamedTuple

EXCUSES: Final[Mapping[OnLost, tuple[Outcome, ...]]] = {
    "skip": (Outcome.LOST, Outcome.FAILED, Outcome.SKIPPED, Outcome.UNKNOWN, Outcome.TOO_OLD),
    "rerun": (Outcome.UNKNOWN,),
}
"""How a slot may close that no body completed: on record, and for a reason. Under rerun there is none but that the
store forgot."""


class TortureRecord(NamedTuple):
    """What the store says of a slot: how it closed, if it did, under which fence, and which runs before that ended so
    that another could begin."""

    outcome: Outcome | None = None
    fence: str = ""
    ended: frozenset[str] = frozenset()
    passed_over: bool = False
    """With others, in one record for all of them."""

    def joined(self, older: "TortureRecord") -> "TortureRecord":
        """With what an earlier reading said, which the store may have forgotten since."""
        return self._replace(ended=self.ended | older.ended)


SLOTS_UNTIL_IDLE: Final = 10
"""Of so many slots some must run: a guard that refuses everything keeps every promise but the first."""


class PurgedSpan(NamedTuple):
    """A time of which slots without a record are on record together: after `since` (None: for ever), up to `upto`. The
    store no longer knows of them; or they were passed over, for a reason."""

    since: Instant | None
    upto: Instant
    outcome: Outcome = Outcome.UNKNOWN

    def covers(self, at: Instant) -> bool:
        return (self.since is None or self.since < at) and at <= self.upto


class TortureVerdict(NamedTuple):
    """Counts of slots, or of starts where it says so."""

    slots: int = 0
    runs: int = 0
    """With a completed body, of the highest fence only."""
    extra: int = 0
    """Starts beyond one for each slot that no takeover on record explains, and second ends that the store accepted."""
    missed: int = 0
    """Neither run nor on record for a reason; or never closed."""
    lost: int = 0
    unknown: int = 0
    overlapping: int = 0
    """Starts while another was allowed to act, on the same slot or, where overlap is excluded, on the same job."""
    stale_accepted: int = 0
    """Ends that the store accepted from a run that had been taken over."""
    on_lost: OnLost | Literal["both"] = "skip"
    taken_over: int = 0
    """Starts after a takeover that is on record."""
    skipped: int = 0
    failed: int = 0

    @property
    def twice(self) -> int:
        """Slots that are counted twice, since both sides are: one ran by the ledger, and is lost, unknown or open by
        the record; another is missed, and on record for a reason that does not count under rerun."""
        each = self.runs + self.skipped + self.failed + self.lost + self.unknown + self.missed
        return each - self.slots

    def passed(self, *, forgot: bool) -> bool:
        """Whether every promise was kept; `forgot`: the store lost what it knew, and says so."""
        broken = self.extra or self.missed or self.overlapping or self.stale_accepted
        unexplained = self.unknown and not forgot
        idle = self.slots >= SLOTS_UNTIL_IDLE and not self.runs
        return not (broken or unexplained or idle or (self.on_lost == "rerun" and self.lost))


def judge(
    slots: Mapping[str, Instant],
    lines: Iterable[LedgerLine],
    records: Mapping[str, TortureRecord],
    gaps: Sequence[PurgedSpan],
    on_lost: OnLost,
    *,
    exclusive: bool,
    wanted: bool = True,
) -> TortureVerdict:
    """The verdict on one job. `exclusive`: no two of its slots may run at once. `wanted`: none is ever too late."""
    told_of, astray = by_slot(slots, lines)
    excuses = EXCUSES[on_lost] if wanted else (*EXCUSES[on_lost], Outcome.SKIPPED)
    one_by_one = [
        _of_slot(told, _on_record(records.get(key), [gap for gap in gaps if gap.covers(slots[key])]), on_lost, excuses)
        for key, told in told_of.items()
    ]
    scopes = [[line for told in told_of.values() for line in told]] if exclusive else list(told_of.values())
    whole = added(one_by_one, on_lost)
    return whole._replace(extra=whole.extra + astray, overlapping=sum(map(_overlapping, scopes)))


def added(verdicts: Sequence[TortureVerdict], on_lost: OnLost | Literal["both"]) -> TortureVerdict:
    """All of them in one."""
    sums = {name: sum(getattr(one, name) for one in verdicts) for name in TortureVerdict._fields if name != "on_lost"}
    return TortureVerdict(on_lost=on_lost, **sums)


# --- one slot -------------------------------------------------------------------------------------------------------


def _on_record(record: TortureRecord | None, gaps: Sequence[PurgedSpan]) -> TortureRecord:
    """A slot that has a record goes by it, unless the store forgot what became of it."""
    known = [gap.outcome for gap in gaps if record is None or gap.outcome is Outcome.UNKNOWN]
    record = record or TortureRecord()
    return record if record.outcome or not known else record._replace(outcome=known[0], passed_over=True)


def _of_slot(
    lines: Sequence[LedgerLine], record: TortureRecord, on_lost: OnLost, excuses: Sequence[Outcome]
) -> TortureVerdict:
    outcome = record.outcome
    starts = sorted(line.fence for line in lines if line.what == "start")
    accepted = {line.fence for line in lines if line.what == "accepted"}
    ran = any(line.what == "done" and line.fence == starts[-1] for line in lines if starts)
    ended = record.ended
    if outcome is Outcome.TOO_OLD:  # the store keeps no word of takeovers any more: whose end it accepted had none
        ended |= set(starts) - accepted
    unexplained = [
        newer for older, newer in pairwise(starts) if not (on_lost == "rerun" and older in ended and older < newer)
    ]
    return TortureVerdict(
        slots=1,
        runs=ran,
        extra=len(unexplained) + max(len(accepted.difference(unexplained)) - 1, 0),
        missed=outcome is None or not (ran or record.passed_over or outcome in excuses),
        lost=outcome is Outcome.LOST,
        unknown=outcome is Outcome.UNKNOWN,
        stale_accepted=sum(fence < max((record.fence, *starts)) for fence in accepted),
        on_lost=on_lost,
        taken_over=max(len(starts) - 1, 0) - len(unexplained),
        skipped=outcome is Outcome.SKIPPED or (outcome is Outcome.TOO_OLD and not ran),
        failed=outcome is Outcome.FAILED,
    )


def lets_another_run(end: str) -> bool:
    """Whether a run that ended so may be followed by another of the same slot: it lapsed, or was stopped in time."""
    return end == LAPSED or end.startswith("failed")


def _overlapping(lines: Iterable[LedgerLine]) -> int:
    """How many runs began while another, of those that began before, went on acting."""
    acts: dict[tuple[str, str, str], list[float]] = {}
    for line in lines:
        if line.what in ("start", "step", "done"):
            acts.setdefault(line.run, []).append(float(line.when))
    spans = sorted((min(times), max(times)) for times in acts.values())
    overlapping, busy_until = 0, float("-inf")
    for began, last in spans:
        overlapping += began < busy_until
        busy_until = max(busy_until, last)
    return overlapping
