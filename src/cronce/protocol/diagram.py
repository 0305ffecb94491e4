"""The protocol, drawn from the code: the decision table and the diagram of states in docs/explain/protocol.md.

    python -m cronce.protocol.diagram            prints them
    python -m cronce.protocol.diagram --write    puts them in their place on the page

Nothing here is copied from the rules. Every kind of cell that can be read meets every command that can be said, and
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

from cronce.model import EPOCH, Cell, Fence, Mark
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
from cronce.protocol.decide import (
    TABLE,
    Facts,
    Row,
    decide,
    row,
)
from cronce.protocol.record import Outcome, Past, Record, State

PAGE: Final = Path("docs/explain/protocol.md")

# --- examples: what can be read, what can be said -------------------------------------------------------------------

_AT: Final = EPOCH + timedelta(days=1)
_LEASE: Final = timedelta(seconds=30)
_NOW: Final = _AT + timedelta(minutes=1)
_LATER: Final = _NOW + _LEASE
_OWN, _OTHER = Fence(1, 2), Fence(1, 1)

_ABSENT: Final = Cell("", at=_AT)
_NEVER_GRANTED: Final = Cell("", 1, at=_AT, mark=Mark.OPEN, until=_NOW)
_OVER: Final = _NEVER_GRANTED._replace(fence=_OWN)
_LIVE: Final = _OVER._replace(until=_LATER)

_RAN: Final = Record(State.RUNNING, 1, "mine", "web-1", _LEASE, attempts=2)


def _read() -> Iterator[tuple[Cell, Record | None]]:
    yield _ABSENT, None
    for state in (State.DUE, State.WAITING):
        yield _NEVER_GRANTED, Record(state)
    for state, cell in product((State.DUE, State.WAITING, State.RETRYING), (_OVER, _LIVE)):
        yield cell, _RAN._replace(state=state, past=(Past(_OWN, "web-1", _AT, "ended"),))
    running = (_RAN, _RAN._replace(on_lost="rerun"), _RAN._replace(failures=1), _RAN._replace(ask="stop"))
    yield from product((_OVER, _LIVE), running)
    for outcome in Outcome:
        yield _OVER, _RAN._replace(state=State.CLOSED, outcome=outcome)
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


def _known() -> Iterator[Facts]:
    """A slot above the floor, one below it, and one that a store forgot."""
    for floor, base in ((EPOCH, 0), (_AT, 0), (_AT, 1)):
        yield Facts(_NOW, floor, base, lambda _tolerance: _LEASE)


class Example(NamedTuple):
    cell: Cell
    record: Record | None
    command: Command
    facts: Facts

    @property
    def row(self) -> Row:
        return row(*self)

    @property
    def decision(self) -> Decision:
        return decide(*self)


def examples() -> list[Example]:
    read, said, known = _read(), _said(), _known()
    return [Example(cell, record, command, facts) for (cell, record), command, facts in product(read, said, known)]


# --- what an answer may hang on, besides its row ----------------------------------------------------------------------


class Condition(NamedTuple):
    yes: str
    no: str
    holds: Callable[[Example], bool]


def _is_lease_live(example: Example) -> bool:
    return example.cell.until == _LATER


def _is_rerun(example: Example) -> bool:
    return example.record is not None and example.record.on_lost == "rerun"


def _is_too_late(example: Example) -> bool:
    return isinstance(example.command, Claim) and example.command.start_by is not None


def _is_own_fence(example: Example) -> bool:
    return getattr(example.command, "fence", None) == example.cell.fence


def _is_own_word(example: Example) -> bool:
    record, command = example.record, example.command
    if record is None or not isinstance(command, Finish):
        return False
    return command.outcome is (Outcome.FAILED if record.state is State.RETRYING else record.outcome)


def _is_failed_with_attempts_left(example: Example) -> bool:
    failed = isinstance(example.command, Finish) and example.command.outcome is Outcome.FAILED
    return failed and example.record is not None and example.record.failures == 0


def _is_uncertain(example: Example) -> bool:
    return example.record is not None and example.record.outcome in (Outcome.FAILED, Outcome.LOST, Outcome.UNKNOWN)


def _is_done(example: Example) -> bool:
    return isinstance(example.command, Resolve) and example.command.verdict == "done"


def _is_committed(example: Example) -> bool:
    return isinstance(example.command, Settle) and example.command.committed


def _is_asked(example: Example) -> bool:
    return example.record is not None and example.record.ask != ""


def _is_already_so(example: Example) -> bool:
    record, command = example.record, example.command
    if record is None or not isinstance(command, Queue):
        return False
    return record.state is (State.WAITING if command.waiting else State.DUE)


def _is_waiting(example: Example) -> bool:
    return isinstance(example.command, Queue) and example.command.waiting


ELSE: Final = "else"
CONDITIONS: Final = (
    Condition("lease live", "lease over", _is_lease_live),
    Condition("under rerun", "under skip", _is_rerun),
    Condition("too late to start", "in time", _is_too_late),
    Condition("by its own fence", "by another fence", _is_own_fence),
    Condition("in the same word", "in another word", _is_own_word),
    Condition("failed with attempts left", ELSE, _is_failed_with_attempts_left),
    Condition("failed/lost/unknown", ELSE, _is_uncertain),
    Condition("done", "retry", _is_done),
    Condition("its transaction committed", ELSE, _is_committed),
    Condition("already asked", "not yet asked", _is_asked),
    Condition("already so", "not yet", _is_already_so),
    Condition("for its turn", "as due", _is_waiting),
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


# --- the table --------------------------------------------------------------------------------------------------------

COMMANDS: Final[tuple[type[Command], ...]] = get_args(Command)
ONES_OWN: Final = COMMANDS[:4]
ANYBODYS: Final = COMMANDS[4:]


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
    answer, change = example.decision
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


class Edge(NamedTuple):
    start: str
    end: str
    when: str
    command: type[Command]


def states() -> str:
    """The record's states as a Mermaid diagram; the commands that write something are its edges."""
    edges = set(_edges())
    order = ("[*]", *State)
    lines = (
        f"    {start} --> {end} : {label}"
        for start, end in product(order, order)
        if (label := _label([edge for edge in edges if (edge.start, edge.end) == (start, end)]))
    )
    return "\n".join(("stateDiagram-v2", *lines))


def _edges() -> Iterator[Edge]:
    for example in examples():
        _, change = example.decision
        if change is not None:
            when = _WHEN.get(example.row, "")
            yield Edge(_state(example.record), _state(change.record), when, type(example.command))


def _state(record: Record | None) -> str:
    return record.state if record else "[*]"


def _label(edges: Sequence[Edge]) -> str:
    said = {when: {edge.command for edge in edges if edge.when == when} for when in ("", *_WHEN.values())}
    return " / ".join(f"{_who(commands)}{when}" for when, commands in said.items() if commands)


def _who(commands: Collection[type[Command]]) -> str:
    if set(commands) == {Claim, *ANYBODYS}:
        return "anyone"
    return ", ".join(_name(command) for command in COMMANDS if command in commands)


# --- the page ---------------------------------------------------------------------------------------------------------


def drawings() -> dict[str, str]:
    """What stands between the marks of that name on the page."""
    return {
        "what one says of its own": table(ONES_OWN),
        "what anybody may say": table(ANYBODYS),
        "states": f"```mermaid\n{states()}\n```",
    }


def redrawn(page: str) -> str:
    """The page with what stands between its marks drawn anew."""
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
            PAGE.write_text(redrawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        case _:
            sys.exit("usage: python -m cronce.protocol.diagram [--write]")


if __name__ == "__main__":
    main(sys.argv[1:])
