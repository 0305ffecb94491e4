"""What a run remembers of effects that its job function asked for and that are not done: begun and not ended, or
refused. A function that catches the error does not make the run succeed by that, and does not move its cursor."""

from collections.abc import Callable, Generator, Sequence
from functools import wraps
from typing import Any, Final, TypeVar, cast

from cronce.errors import NOBODY_KNOWS, AlreadyDone, BadInput, InDoubt
from cronce.protocol.record import REASON_KEPT

Y = TypeVar("Y")
S = TypeVar("S")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

REFUSED_EFFECT: Final = ""
"""The name for all effects that were refused: what was wrong may have been the name. No effect has this one."""


ALSO: Final = "; nor of "
AND_MORE: Final = " (and {} more)"
MORE_PATTERN: Final = r"( \(and \d+ more\))+$"
"""How the reason of a run goes on that has several effects in doubt, and how one ends that does not name them all."""

NAMED: Final = 300
"""Letters for the names of those after the first."""


class Unfinished(dict[str, BaseException]):
    """Effects by name, each with the error that the job function got."""

    def refuse(self, error: BaseException, name: str = REFUSED_EFFECT) -> None:
        """An effect was refused. It stays so: another call, with another name, is another effect."""
        if not isinstance(error, ResultNotKept) and not any(error is known for known in self.values()):
            self.setdefault(name, error)  # else it is done, or known by the effect's own name

    def doubt(self, doubt: InDoubt) -> None:
        """It is not known whether it happened, and a person shall see that."""
        self[doubt.name] = doubt

    def noted(self, name: str, steps: Generator[Y, S, T]) -> Generator[Y, S, T]:
        """Run the steps of an effect, or of its transaction; if they do not finish, that is noted."""
        try:
            result = yield from steps
        except GeneratorExit:  # the caller gave up these steps
            raise
        except (AlreadyDone, ResultNotKept):
            self.pop(name, None)
            raise
        except BaseException as error:
            if not isinstance(self.get(name), InDoubt):
                self[name] = error
            raise
        self.pop(name, None)
        return result


class ResultNotKept(BadInput):
    """The effect is done, and what it returned cannot be kept for a repeat."""


def remembered(call: F) -> F:
    """A method that asks for an effect, of what has `unfinished`. Arguments that do not fit are a refusal, too."""

    @wraps(call)
    def asked(self: Any, *args: Any, **named: Any) -> Any:
        try:
            return call(self, *args, **named)
        except (BadInput, TypeError) as error:
            self.unfinished.refuse(error)
            raise

    return cast(F, asked)


# --- several doubts, in one reason ----------------------------------------------------------------------------------


def tell_doubts(doubts: Sequence[InDoubt]) -> str:
    """Why the first effect is in doubt, and the names of the others, as far as there is room: each stops the run again
    until a person has looked. Words of the error that read as if they were such names are changed a little."""
    from re import sub  # noqa: PLC0415
    from shlex import quote  # noqa: PLC0415  few runs leave doubts

    names, size = [], 0
    for doubt in doubts[1:]:
        size += len(quote(doubt.name)) + 1
        if size > NAMED:
            break
        names.append(quote(doubt.name))
    also = f"{ALSO}{' '.join(names)}" if names else ""
    left = len(doubts) - 1 - len(names)
    also += AND_MORE.format(left) if left else ""
    room = REASON_KEPT - len(also) - len(AND_MORE.format(10**9))  # what is undone besides may be counted, too
    name, happened, why = doubts[0].brief[:room].partition(" happened: ")
    return f"{name}{happened}{sub(MORE_PATTERN, ' and more', why.replace(ALSO, ALSO.replace(';', ',')))}{also}"


def is_cut(reason: str) -> bool:
    """Whether more effects are in doubt than the reason names."""
    from re import search  # noqa: PLC0415

    return search(MORE_PATTERN, reason) is not None


def doubts_told(reason: str) -> list[str]:
    """The names of the effects that a reason lists as in doubt."""
    from re import sub  # noqa: PLC0415
    from shlex import split  # noqa: PLC0415

    name, told, why = reason.partition(" happened: ")
    if not name.startswith(NOBODY_KNOWS) or not told:
        return []
    names, others = [name.removeprefix(NOBODY_KNOWS)], sub(MORE_PATTERN, "", why)
    while ALSO in others:
        others = others.partition(ALSO)[2]
        try:
            listed = split(others)
        except ValueError:
            continue
        if all("/" in one for one in listed):  # else these are words of the error
            return names + listed
    return names
