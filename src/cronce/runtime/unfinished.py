"""What a run remembers of effects that its job function asked for and that are not done: begun and not ended, or
refused. A function that catches the error does not make the run succeed by that, and does not move its cursor."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar, cast

from cronce.errors import BadInput

F = TypeVar("F", bound=Callable[..., Any])

REFUSED: Final = ""
"""Stands for all effects that were refused: what was wrong may have been the name. No effect has this one."""


class Unfinished(dict[str, BaseException]):
    """Effects by name, each with what the job function was told of it."""

    def refuse(self, error: BaseException) -> None:
        """An effect was refused. It stays so: another call, with another name, is another effect."""
        if not any(error is known for known in self.values()):  # else its effect is known by name
            self.setdefault(REFUSED, error)


class DoneAllTheSame(BadInput):
    """The effect is done, and something else about it is wrong."""


def remembered(call: F) -> F:
    """A method that asks for an effect, of what has `unfinished`. Arguments that do not fit are a refusal, too."""

    @wraps(call)
    def asked(self: Any, *args: Any, **named: Any) -> Any:
        try:
            return call(self, *args, **named)
        except DoneAllTheSame:
            raise
        except (BadInput, TypeError) as error:
            self.unfinished.refuse(error)
            raise

    return cast(F, asked)
