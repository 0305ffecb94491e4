"""Many claims and ends at once: those that are alike are stamped (`protocol.shapes`), without a question for each.

Stamped items are the first try of the loop, in columns: their writes go with the first swap, together with those of
questions. An item that does not pass the comparisons, loses or gets no answer becomes a question, and continues as one.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NoReturn, cast

from cronce.model import Cell, Slot, Verdict, Write
from cronce.protocol.commands import Answer, Claim, Finish, Release
from cronce.protocol.lease import NO_SAMPLE, Sample
from cronce.protocol.record import Record
from cronce.protocol.terms import Wants, written
from cronce.protocol.view import KnownJob, View

if TYPE_CHECKING:
    from cronce.protocol.shapes import ClaimShape, EndShape
    from cronce.runtime.ledger import Grant
    from cronce.runtime.loop import KnownJobs, Question

Granted = Callable[[Slot, tuple[Cell, ...], Record, Sample, int], "Grant"]
"""Makes a grant from its cells and record, when they were read, and in which life of the store."""


Ended = tuple["Grant", Finish | Release, bool]
"""A grant, how it ended, and whether other processes wait for that."""

_CELL: Final = attrgetter("cell")

Lost = tuple["Question", Sequence[Write], Sequence[Verdict]]


def _none(*_item: object) -> NoReturn:
    raise AssertionError("an empty batch has no items")


class Batch:
    """One exchange. `said` and `claimed` are in the order of the request: each is the result, or the question it
    became. The writes of stamped items go with the first swap of the loop, once, together with those of questions."""

    def __init__(
        self,
        ended: Sequence[Ended] = (),
        wanted: Sequence[Wants] = (),
        unconfirmed: Sequence[Write] = (),
        *,
        ask_end: "Callable[[Ended], Question]" = _none,
        ask_claim: "Callable[[Wants], Question]" = _none,
        granted: Granted = _none,
    ) -> None:
        self.unconfirmed = unconfirmed
        self.writes: Sequence[Write] = ()
        self.runs: Mapping[str, bool] = {}
        """What the writes are about: whether it is answered."""
        self.taken: Collection[str] = ()
        """Turns that they take or free."""
        self.wakes = False
        self.seen: tuple[int, int] | None = None
        """The epoch by which they were made."""
        self._ended, self._wanted = ended, wanted
        self._ask_end, self._ask_claim, self._granted = ask_end, ask_claim, granted
        self._ends: list[tuple[int, EndShape, list[Write]]] = []
        self._claims: list[tuple[int, ClaimShape, list[Write]]] = []
        self.said: list[Answer | Question | None] = [None] * len(ended)
        self.claimed: list[Grant | Question | None] = [None] * len(wanted)
        self._sample = NO_SAMPLE
        self._won: set[int] = set()

    def __len__(self) -> int:
        """How many group numbers its writes use, from 0 on: no other write of the swap may have one of these."""
        return len(self._ended) + len(self._wanted)

    def sent(self) -> None:
        """There is no second time."""
        self.writes = self.unconfirmed = self.taken = ()
        self.wakes, self.seen = False, None

    # --- stamping ---

    def unread(self) -> "list[Question]":
        """Slots known to be on record are read first; a claim never creates a run that a person requests."""
        wanted = enumerate(self._wanted)
        return [self._left_claim(place) for place, want in wanted if want.known or want.slot.request]

    def stamp(self, around: View, known: "KnownJobs") -> "list[Question]":
        """By what holds for all of them now; the questions of those that are not stamped."""
        taken: set[str] = set()
        left = self._stamp_ends(around, taken) + self._stamp_claims(around, known, taken)
        self.taken, self.seen = taken, around.epoch.seen
        stamped = [writes for _, _, writes in (*self._ends, *self._claims)]
        self.runs = dict.fromkeys([writes[0].key for writes in stamped], False)
        self.writes = [write for writes in stamped for write in writes]
        return left

    def _stamp_ends(self, around: View, taken: set[str]) -> "list[Question]":
        from cronce.protocol.shapes import end_shape, kind_of  # noqa: PLC0415  `exec` has one claim, and no batch

        shapes: dict[Hashable, EndShape | None] = {}
        left: list[Question] = []
        for place, one in enumerate(self._ended):
            if self.said[place] is not None:
                continue
            grant, word, wakes = one
            record, cells, writes, shape = grant.record, grant.cells, None, None
            for turn in cells[1:]:
                taken.add(turn.key)
            if isinstance(word, Finish) and grant.birth == around.epoch.birth:
                key = (kind_of(record), *word[1:])
                shape = shapes.get(key)
                if shape is None and key not in shapes:
                    shape = shapes[key] = end_shape(self._ask_end(one).view.within(around, None), word)
                writes = shape.stamp(grant.fence, record, cells, place) if shape else None
            if shape is None or writes is None:
                left.append(self._left_end(place))
                continue
            self._ends.append((place, shape, writes))
            self.wakes = self.wakes or wakes
        return left

    def _stamp_claims(self, around: View, known: "KnownJobs", taken: set[str]) -> "list[Question]":
        shapes: dict[Hashable, ClaimShape | None] = {}
        left: list[Question] = []
        number = len(self._ended)
        for place, want in enumerate(self._wanted):
            if self.claimed[place] is not None:
                continue
            key, job = written(want.terms), known.get(want.slot.job)
            shape = shapes.get(key)
            if shape is None and key not in shapes:
                shape = shapes[key] = self._claim_shape(want, around, job)
            writes = shape and shape.stamp(want, job, taken, number + place)
            if shape is None or writes is None:
                left.append(self._left_claim(place))
                continue
            self._claims.append((place, shape, writes))
            if shape.turns:
                taken.add(writes[1].key)
        return left

    def _claim_shape(self, want: Wants, around: View, known: KnownJob | None) -> "ClaimShape | None":
        from cronce.protocol.shapes import claim_shape  # noqa: PLC0415

        question = self._ask_claim(want)
        return claim_shape(question.view.within(around, known), cast(Claim, question.command))

    def _left_end(self, place: int) -> "Question":
        question = self.said[place] = self._ask_end(self._ended[place])
        return question

    def _left_claim(self, place: int) -> "Question":
        question = self.claimed[place] = self._ask_claim(self._wanted[place])
        return question

    # --- replies ---

    def unanswered(self) -> "list[Question]":
        """The questions of all that have no answer yet: they were not sent, or no answer came."""
        ends = [self._left_end(place) for place, answer in enumerate(self.said) if answer is None]
        return ends + [self._left_claim(place) for place, answer in enumerate(self.claimed) if answer is None]

    def heard(self, verdicts: Sequence[Verdict], sample: Sample, life: int) -> list[Lost]:
        """Handle the results. Returns questions for those that lost."""
        lost: list[Lost] = []
        if not self.writes:
            return lost
        at, self._sample = 0, sample
        for place, end, writes in self._ends:
            found = verdicts[at : at + len(writes)]
            at += len(writes)
            if found[0].refused or found[-1].refused:  # a run, and its turn if it has one
                lost.append((self._left_end(place), writes, found))
            else:
                self.said[place] = end.form.answer
        for place, claim, writes in self._claims:
            found = verdicts[at : at + len(writes)]
            at += len(writes)
            if found[0].refused or found[-1].refused:
                lost.append((self._left_claim(place), writes, found))
            else:
                want, cells = self._wanted[place], tuple(map(_CELL, found))
                record = claim.form.recorded(want.nonce, cells[1].key if len(cells) > 1 else "")
                self._won.add(place)
                self.claimed[place] = self._granted(want.slot, cells, record, sample, life)
        self.runs = dict.fromkeys(self.runs, True)
        return lost

    def told(self, is_wanted: Callable[[Answer], bool]) -> Iterator[tuple[Answer, View]]:
        """The writes that won at the first try, and are to be reported."""
        forms = [one[1].form for one in self._ends] + [one[1].form for one in self._claims]
        if not any(is_wanted(form.answer) for form in {id(form): form for form in forms}.values()):
            return
        for place, end, _ in self._ends:
            if self.said[place] is end.form.answer:
                grant = self._ended[place][0]
                yield end.form.answer, View(grant.cells[0], end.form.change.record, self._sample, grant.slot)
        for place, claim, _ in self._claims:
            if place in self._won:
                granted = cast("Grant", self.claimed[place])
                yield claim.form.answer, View(granted.cells[0], granted.record, self._sample, granted.slot)
