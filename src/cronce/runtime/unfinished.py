"""What a run remembers of effects that its job function asked for and that are not done: begun and not ended, or
refused. A function that catches the error does not make the run succeed by that, and does not move its cursor."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from cronce.errors import BadInput, InDoubt

if TYPE_CHECKING:
    from cronce.runtime.steps import Steps

F = TypeVar("F", bound=Callable[..., Any])

REFUSED: Final = ""
"""Stands for all effects that were refused: what was wrong may have been the name. No effect has this one."""


class Unfinished(dict[str, BaseException]):
    """Effects by name, each with what the job function was told of it."""

    def refuse(self, error: BaseException, name: str = REFUSED) -> None:
        """An effect was refused. It stays so: another call, with another name, is another effect."""
        if not isinstance(error, DoneAllTheSame) and not any(error is known for known in self.values()):
            self.setdefault(name, error)  # else it is done, or known by the effect's own name

    def doubt(self, doubt: InDoubt) -> None:
        """Nobody knows whether it happened, and that shall be seen."""
        self[doubt.name] = doubt

    def noted(self, name: str, steps: "Steps[Any]") -> "Steps[Any]":
        """Take the steps of an effect; what does not come to its end is noted."""
        try:
            result = yield from steps
        except (GeneratorExit, DoneAllTheSame):  # nobody takes these steps any more; or it is done
            raise
        except BaseException as error:
            if not isinstance(self.get(name), InDoubt):
                self[name] = error
            raise
        self.pop(name, None)
        return result


class DoneAllTheSame(BadInput):
    """The effect is done, and something else about it is wrong."""


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
