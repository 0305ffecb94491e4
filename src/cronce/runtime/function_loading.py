"""Finding a function for a child: another process loads the program it is in.

A child loads its parent's program to find one function in it, and wants nothing of it run. So the program ends where it
would begin to work: `cron.run()`, `cron.start()` and calls of guards end the loading, quietly, and what was defined up
to there is what the child has. What else stands at the top level of a program, outside of
`if __name__ == "__main__":`, happens in every child: that is how Python loads things.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from inspect import unwrap
from types import ModuleType
from typing import Any, Final

from cronce.errors import BadInput
from cronce.value import NamedTuple

PROGRAM: Final = "__cronce_child__"
"""What a program's `__name__` is in a child."""


class FunctionLocation(NamedTuple):
    """Where another process finds a function: in a module, or in the file that was run as a program."""

    module: str
    qualname: str
    file: str = ""
    package: str = ""


class StartsWork(BaseException):
    """The program begins to work, in these words. Not an Exception: who catches those must not catch this."""


_loading = False


def defined(begins: str) -> None:
    """Called where a program begins to work: what it does."""
    if _loading:
        raise StartsWork(begins)


@contextmanager
def loading() -> Iterator[None]:
    """What is imported here defines, and does not begin to work: `StartsWork` says that it would."""
    global _loading  # noqa: PLW0603  one process loads one program
    _loading = True
    try:
        yield
    finally:
        _loading = False


def place_of(fn: Any) -> FunctionLocation:
    """Refused is what no other process could find: it would fail in every run."""
    module, qualname = getattr(fn, "__module__", None), getattr(fn, "__qualname__", None)
    if not module or not qualname or "<" in qualname:
        raise BadInput(
            "isolate=True runs a function in another process, which looks for it by its name;"
            f" {qualname or repr(fn):.80} cannot be found that way. Define it with `def`, at the top level of a module"
        )
    if module not in ("__main__", PROGRAM):
        return FunctionLocation(module, qualname)
    program = sys.modules[module]
    file = getattr(program, "__file__", None)
    if not file or not os.path.isfile(file):  # noqa: PTH113
        raise BadInput(
            f"isolate=True runs {qualname} in another process, which cannot find a function from an"
            " interactive session; put it in a file"
        )
    return FunctionLocation(module, qualname, os.path.abspath(file), program.__package__ or "")  # noqa: PTH100


def find(place: FunctionLocation) -> Any:
    """The function, as its module has it: with its guard."""
    try:
        with loading():
            found: Any = _program(place) if place.file else import_module(place.module)
    except StartsWork:
        raise BadInput(
            f"the module {place.module} starts work when it is imported; put that under `if __name__ == '__main__':`"
        ) from None
    for name in place.qualname.split("."):
        found = getattr(found, name, None)
    if found is None:
        where = place.file or place.module
        raise BadInput(
            f"{place.qualname} cannot be found in {where} by the process that loads it; define it at the top level,"
            " before the program starts its work"
        )
    return found


def plain(found: Any) -> Any:
    """The function without its guard."""
    return getattr(found, "fn", None) or unwrap(found)


def _program(place: FunctionLocation) -> ModuleType:
    """The program, as far as it comes; in the place of our own, which nobody asks for."""
    program = ModuleType(PROGRAM)
    program.__file__, program.__package__ = place.file, place.package
    sys.modules[PROGRAM] = sys.modules["__main__"] = program
    with open(place.file, "rb") as file:  # noqa: PTH123
        code = compile(file.read(), place.file, "exec")
    with suppress(StartsWork):
        exec(code, program.__dict__)  # noqa: S102  it is the program that its user runs
    return program
