"""How a value is spelled, so that two can be compared: the key that a lock is taken under, and the one that is deleted.

Locals are followed to what they were given. A parameter is spelled by its bare name: `acquire(key)` and `release(key)`
of one class mean the same key, as their author does.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from cronce_audit.model import Facts
from cronce_audit.python.facts import Bound, Called, Const, Items, Joined, Member, Name, Operation, Table, Typed, Value

_LOCAL: Final = ".<locals>."
_DEEPEST: Final = 12


class Spelling:
    def __init__(self, facts: Facts) -> None:
        self._bound: Final[dict[str, list[Value]]] = defaultdict(list)
        for bound in facts.of(Bound):
            if _LOCAL in bound.name and not isinstance(bound.value, Typed):
                self._bound[bound.name].append(bound.value)

    def of(self, value: Value) -> str:
        """A text that is the same for two values that are; "" for one that cannot be told."""
        return self._spell(value, 0)

    def parts(self, value: Value, depth: int = 0) -> Iterator[Value]:
        """The value and all that it is made of, with what stands behind its locals."""
        followed = self._followed(value)
        yield followed
        for part in _inside(followed) if depth < _DEEPEST else ():
            yield from self.parts(part, depth + 1)

    def _followed(self, value: Value) -> Value:
        given = self._bound.get(value.dotted, []) if isinstance(value, Name) else []
        return given[0] if len(given) == 1 else value

    def _spell(self, value: Value, depth: int) -> str:
        if depth > _DEEPEST:
            return ""
        followed = self._followed(value)
        if followed is not value:
            return self._spell(followed, depth + 1)
        match value:
            case Const(plain):
                return repr(plain)
            case Name(dotted):
                return dotted.rpartition(_LOCAL)[2] if _LOCAL in dotted else dotted
            case Member(of, name):
                return f"{self._spell(of, depth + 1)}.{name}"
            case Called() | Joined() | Operation() | Items():
                parts = [self._spell(part, depth + 1) for part in _inside(value)]
                return f"{type(value).__name__}({', '.join(parts)})" if all(parts) else ""
        return ""


def _inside(value: Value) -> Iterator[Value]:
    match value:
        case Called(function, args, keywords):
            yield from (function, *args, *(each for _, each in keywords))
        case Joined(parts):
            yield from parts
        case Operation(_, values) | Items(values):
            yield from values
        case Table(pairs):
            yield from (each for pair in pairs for each in pair)
        case Member(of) | Typed(of):
            yield of
        case Name(dotted) if _LOCAL in dotted:
            owner, _, local = dotted.rpartition(_LOCAL)
            if "." in local:  # `now.strftime`, of the local `now`
                yield Name(f"{owner}{_LOCAL}{local.partition('.')[0]}")


def spelling(facts: Facts) -> Spelling:
    """For `facts.conclude(spelling)`."""
    return Spelling(facts)
