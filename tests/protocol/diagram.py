"""The protocol, drawn from the code: the decision table and the table of states in docs/explain/decision-table.md.

    python -m tests.protocol.diagram            prints them
    python -m tests.protocol.diagram --write    puts them in their place on the page

Nothing here is copied from the rules. Every kind of cell that can be read meets every command that can be given, and
`decide` answers. Where the answers in one cell of the table differ, the fewest conditions that tell them apart are
looked for, and named.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import chain, combinations, product
from pathlib import Path
from typing import Final, NamedTuple, get_args

from cronce.model import EPOCH, Cell, Epoch, Fence, Mark, Origin, Slot, job_cell, to_us
from cronce.protocol.commands import (
    Ask,
    Claim,
    Closed,
    Command,
    Decision,
    Finish,
    Queue,
    Release,
    Renew,
    Resolve,
    Settle,
    Skip,
)
from cronce.protocol.decide import decide
from cronce.protocol.gates import GATES
from cronce.protocol.lease import Sample
from cronce.protocol.record import RESOLVED, Job, Outcome, Past, Record, State
from cronce.protocol.table import TABLE, Row, row
from cronce.protocol.view import KnownJob, View

DIAGRAM_PAGE: Final = Path("docs/explain/decision-table.md")

# --- examples: cells that can be read, commands that can be given ---------------------------------------------------

_AT: Final = EPOCH + timedelta(days=1)
_LEASE: Final = timedelta(seconds=30)
_NOW: Final = _AT + timedelta(minutes=1)
_LATER: Final = _NOW + _LEASE
_OWN, _OTHER = Fence(1, 2), Fence(1, 1)

_SLOT: Final = Slot("billing", _AT)

_ABSENT: Final = Cell(_SLOT.cell, at=_AT)
_NEVER_GRANTED: Final = Cell(_SLOT.cell, 1, at=_AT, mark=Mark.OPEN, until=_NOW)
_OVER: Final = _NEVER_GRANTED._replace(fence=_OWN)
_LIVE: Final = _OVER._replace(until=_LATER)

_RAN: Final = Record(State.RUNNING, 1, "mine", "web-1", _LEASE, attempts=2)


def _read() -> Iterator[tuple[Cell, Record | None]]:
    yield _ABSENT, None
    for state in (State.DUE, State.WAITING):
        yield _NEVER_GRANTED, Record(state)
    for state, cell in product((State.DUE, State.WAITING, State.RETRYING), (_OVER, _LIVE)):
        yield cell, _RAN._replace(state=state, past=(Past(_OWN, "web-1", _AT, "ended"),))
    for state, cell in product((State.DUE, State.WAITING), (_NEVER_GRANTED, _OVER, _LIVE)):
        yield cell, _RAN._replace(state=state, past=(Past(_OWN, "web-1", _AT, "lost", _AT, retried=_AT),))
    again = _RAN._replace(on_lost="rerun")
    running = (_RAN, again, _RAN._replace(failures=1), _RAN._replace(ask="stop"), again._replace(ask="stop"))
    yield from product((_OVER, _LIVE), running)
    for outcome in Outcome:
        yield _OVER, _RAN._replace(state=State.CLOSED, outcome=outcome)
    looked = (Past(_OWN, "web-1", _AT, "lost", _AT),)
    yield _OVER, _RAN._replace(state=State.CLOSED, outcome=Outcome.SUCCEEDED, reason=f"{RESOLVED}by ada", past=looked)
    yield _OVER, _RAN._replace(state=State.CLOSED, outcome=Outcome.SUCCEEDED, keep=_LEASE)


def _said() -> Iterator[Command]:
    for nonce, start_by in product(("mine", "another"), (None, _AT)):
        yield Claim(nonce, "web-2", _LEASE, "skip", start_by=start_by)
    for fence in (_OWN, _OTHER):
        yield Renew(fence)
        yield from (Finish(fence, outcome) for outcome in (Outcome.SUCCEEDED, Outcome.FAILED))
        yield Release(fence)
    yield from (Queue(), Queue(waiting=True), Skip("why"), Settle(), Settle(_OWN, committed=True), Ask("why"))
    yield from (Resolve("done", "why"), Resolve("retry", "why"))


def _views() -> Iterator[View]:
    """A slot above the floor, one below it, and one that a store forgot."""
    for (cell, record), (floor, base) in product(_read(), ((EPOCH, 0), (_AT, 0), (_AT, 1))):
        epoch = Epoch(to_us(floor), base=base, origin=Origin.FOUND if base else Origin.MADE)
        known = KnownJob(Cell(job_cell(_SLOT.job), 1), Job(floor=floor), _NOW)
        sample, enough = Sample(0.0, 0.0, _NOW), lambda *_: _LEASE
        yield View(cell, record, sample, _SLOT, known=known, epoch=epoch, even=enough, heard=enough)


class Example(NamedTuple):
    view: View
    command: Command

    @property
    def cell(self) -> Cell:
        return self.view.run

    @property
    def record(self) -> Record | None:
        return self.view.record

    @property
    def row(self) -> Row:
        return row(*self)

    @property
    def decision(self) -> Decision:
        decision = decide(*self)
        assert isinstance(decision, Decision)
        return decision


def examples() -> list[Example]:
    return [Example(view, command) for view, command in product(_views(), list(_said()))]


# --- conditions of an answer, besides its row -------------------------------------------------------------------------


class Condition(NamedTuple):
    yes: str
    no: str
    holds: Callable[[Example], bool]


def _failed(example: Example) -> bool:
    return isinstance(example.command, Finish) and example.command.outcome is Outcome.FAILED


def _is_own_word(record: Record | None, command: Command) -> bool:
    if record is None or not isinstance(command, Finish):
        return False
    return command.outcome is (Outcome.FAILED if record.state is State.RETRYING else record.outcome)


def _is_already_so(record: Record | None, command: Command) -> bool:
    if record is None or not isinstance(command, Queue):
        return False
    return record.state is (State.WAITING if command.waiting else State.DUE)


def _is_retried(record: Record | None) -> bool:
    return record is not None and any(past.retried for past in record.past[-1:])


def _takes_back(record: Record | None, command: Command) -> bool:
    """Whether one resolve replaces another: retry after done, or done after retry."""
    if record is None or not isinstance(command, Resolve):
        return False
    return record.resolved if command.verdict == "retry" else _is_retried(record)


_IN_DOUBT: Final = (Outcome.FAILED, Outcome.LOST, Outcome.UNKNOWN)

ELSE: Final = "else"
CONDITIONS: Final = (
    Condition("lease live", "lease over", lambda one: one.cell.until == _LATER),
    Condition("under rerun", "under skip", lambda one: getattr(one.record, "on_lost", "") == "rerun"),
    Condition("too late to start", "in time", lambda one: getattr(one.command, "start_by", None) is not None),
    Condition(
        "by its own fence", "by another fence", lambda one: getattr(one.command, "fence", None) == one.cell.fence
    ),
    Condition("in the same word", "in another word", lambda one: _is_own_word(one.record, one.command)),
    Condition("failed with attempts left", ELSE, lambda one: _failed(one) and getattr(one.record, "failures", 1) == 0),
    Condition("to take back another's word", ELSE, lambda one: _takes_back(one.record, one.command)),
    Condition("retried by a person", "first start", lambda one: _is_retried(one.record)),
    Condition(
        "failed/lost/unknown, or to take back another's word",
        ELSE,
        lambda one: getattr(one.record, "outcome", None) in _IN_DOUBT or _takes_back(one.record, one.command),
    ),
    Condition("done", "retry", lambda one: getattr(one.command, "verdict", "") == "done"),
    Condition("its transaction committed", "not committed", lambda one: getattr(one.command, "committed", False)),
    Condition("already asked to stop", "not yet asked to stop", lambda one: getattr(one.record, "ask", "") != ""),
    Condition("already so", "not yet", lambda one: _is_already_so(one.record, one.command)),
    Condition("for its turn", "as due", lambda one: getattr(one.command, "waiting", False)),
)


def told_apart(answers: Sequence[tuple[Example, str]]) -> dict[tuple[str, ...], str]:
    """The answers by the fewest conditions that tell them apart."""
    for conditions in chain.from_iterable(combinations(CONDITIONS, size) for size in range(4)):
        found: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
        for example, answer in answers:
            found[tuple(c.yes if c.holds(example) else c.no for c in conditions)].add(answer)
        if all(len(each) == 1 for each in found.values()):
            return {when: each.pop() for when, each in found.items()}
    raise AssertionError(f"no condition known here tells these apart: {sorted({answer for _, answer in answers})}")


# --- the gates --------------------------------------------------------------------------------------------------------


def gates() -> str:
    """The gates before the table, in order, each with its docstring."""
    rows = ((f"`{gate.__name__}`", " ".join(str(gate.__doc__).split())) for gate in GATES)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (("gate", "why"), ("---", "---"), *rows))


# --- the table --------------------------------------------------------------------------------------------------------

ALL_COMMANDS: Final[tuple[type[Command], ...]] = get_args(Command)
ONES_OWN: Final = ALL_COMMANDS[:4]
ANYBODYS: Final = ALL_COMMANDS[4:]


def table(commands: Sequence[type[Command]]) -> str:
    """The part of the decision table that has these commands."""
    answers: defaultdict[tuple[Row, type], list[tuple[Example, str]]] = defaultdict(list)
    for example in examples():
        answers[example.row, type(example.command)].append((example, _spelled(example)))
    head = ["what was read ↓", *(f"`{_name(command)}`" for command in commands)]
    rows = ([str(row), *(_summary(answers[row, command]) for command in commands)] for row in TABLE)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def _summary(answers: Sequence[tuple[Example, str]]) -> str:
    """All answers of one cell of the table, the commonest last."""
    if not answers:
        return "—"
    found = told_apart(answers)
    often = Counter(found.values())
    if len(often) == 1:
        return next(iter(often))
    whens = {_when(answer, found): answer for answer in sorted(often)}
    in_order = sorted(whens, key=lambda when: (when == ELSE, often[whens[when]]))
    return "<br>".join(f"{when}: {whens[when]}" for when in in_order)


def _when(answer: str, found: Mapping[tuple[str, ...], str]) -> str:
    """What the conditions of this answer have in common, if no other answer has that too."""
    mine = [when for when, other in found.items() if other == answer]
    shared = [phrase for phrase in mine[0] if all(phrase in when for when in mine)]
    alone = all(other == answer for when, other in found.items() if set(shared) <= set(when))
    return ", ".join(shared) if alone else ELSE


def _spelled(example: Example) -> str:
    """The answer; bold if it comes with a write, and then with the state that is written, if that is news."""
    answer, change = example.decision[:2]
    word = _name(type(answer))
    if isinstance(answer, Closed) and (change or example.record is None):
        word = f"{word} as {answer.outcome}"
    if change is None:
        return word
    new = _state(change.record)
    is_news = new != _state(example.record) and not isinstance(answer, Closed)
    return f"**{word}** → {new}" if is_news else f"**{word}**"


def _name(kind: type) -> str:
    return kind.__name__.lower()


# --- the states -------------------------------------------------------------------------------------------------------

_WHEN: Final = {
    Row.LAPSED: " once it lapsed",
    Row.FORGOTTEN: " after the store forgot",
    Row.EXPIRED: " of an effect that was kept for long enough",
}


NO_RECORD: Final = "no record"


class Edge(NamedTuple):
    start: str
    end: str
    when: str
    command: type[Command]


def states() -> str:
    """From which state of a record to which other, and by which commands: those that write something."""
    edges = set(_edges())
    order = (NO_RECORD, *State)
    lines = (
        f"| {start} | {end} | {label} |"
        for start, end in product(order, order)
        if (label := _label([edge for edge in edges if (edge.start, edge.end) == (start, end)]))
    )
    return "\n".join(("| from | to | by |", "|---|---|---|", *lines))


def _edges() -> Iterator[Edge]:
    for example in examples():
        change = example.decision.change
        if change is not None:
            when = _WHEN.get(example.row, "")
            yield Edge(_state(example.record), _state(change.record), when, type(example.command))


def _state(record: Record | None) -> str:
    return record.state if record else NO_RECORD


def _label(edges: Sequence[Edge]) -> str:
    said = {when: {edge.command for edge in edges if edge.when == when} for when in ("", *_WHEN.values())}
    return " / ".join(f"{_who(commands)}{when}" for when, commands in said.items() if commands)


def _who(commands: Collection[type[Command]]) -> str:
    if set(commands) == {Claim, *ANYBODYS}:
        return "anyone"
    return ", ".join(_name(command) for command in ALL_COMMANDS if command in commands)


# --- the page ---------------------------------------------------------------------------------------------------------


def drawings() -> dict[str, str]:
    """The text between the marks of each name on the page."""
    return {
        "gates": gates(),
        "what one says of its own": table(ONES_OWN),
        "what any process may say": table(ANYBODYS),
        "states": states(),
    }


def redrawn(page: str) -> str:
    """The page with the text between its marks drawn anew."""
    for name, drawing in drawings().items():
        begin, end = f"<!-- drawn: {name} -->", "<!-- up to here -->"
        before, found_begin, rest = page.partition(begin)
        _, found_end, after = rest.partition(end)
        if not (found_begin and found_end):
            raise ValueError(f"the page has no {begin} … {end}")
        page = f"{before}{begin}\n\n{drawing}\n\n{end}{after}"
    return page


def main(arguments: Sequence[str]) -> None:
    match arguments:
        case []:
            print("\n\n".join(drawings().values()))
        case ["--write"]:
            DIAGRAM_PAGE.write_text(redrawn(DIAGRAM_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        case _:
            sys.exit("usage: python -m tests.protocol.diagram [--write]")


if __name__ == "__main__":
    main(sys.argv[1:])
