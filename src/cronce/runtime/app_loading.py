"""Loading programs: the `Cronce` that MODULE:OBJECT names, and for a child the function that it is to run.

A child loads its parent's program to find one function in it, and wants nothing of it run. So the program ends where it
would begin to work: `cron.run()`, `cron.start()` and calls of guards end the loading, quietly, and what was defined up
to there is what the child has. Any other code at the top level of a program, outside of `if __name__ == "__main__":`,
runs in every child, because Python runs a module to load it.
"""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from inspect import unwrap
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from cronce.errors import BadInput, CronceError, tell
from cronce.runtime.log import traceback_of
from cronce.value import NamedTuple

if TYPE_CHECKING:
    from traceback import FrameSummary

    from cronce.runtime.app import Cronce

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
    """Code that is imported in this block may define jobs. If it begins to work, `StartsWork` is raised."""
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
    """The program, up to where it starts work; as `__main__`, instead of our own."""
    program = ModuleType(PROGRAM)
    program.__file__, program.__package__ = place.file, place.package
    sys.modules[PROGRAM] = sys.modules["__main__"] = program
    with open(place.file, "rb") as file:  # noqa: PTH123
        code = compile(file.read(), place.file, "exec")
    with suppress(StartsWork):
        exec(code, program.__dict__)  # noqa: S102  it is the program that its user runs
    return program


# --- an application -------------------------------------------------------------------------------------------------


def load(app: str) -> "Cronce":
    """It is looked for in the current directory, and wherever Python looks."""
    from cronce.runtime.app import Cronce  # noqa: PLC0415  who only writes its name down needs none

    name, place = module_and_object(app)
    imported = _imported(name)
    found: Any = imported
    for part in place.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, Cronce):
        what = "has no" if found is None else f"has a {type(found).__name__} as"
        there = ", ".join(f"{name}:{key}" for key, value in vars(imported).items() if isinstance(value, Cronce))
        instead = f"there is {there}" if there else "write cron = Cronce(…) to create one"
        raise BadInput(f"{name} {what} {place!r}; {instead}")
    return found


def module_and_object(app: str) -> tuple[str, str]:
    """What it names, if it can be meant."""
    name, colon, place = app.partition(":")
    if place and (name.endswith(".py") or "/" in name):
        module = name.removesuffix(".py").strip("./").replace("/", ".")
        raise BadInput(f"{name[:80]} is a file; name its module: {module[:80]}:{place[:80]}")
    if not colon or not all(name.split(".")) or not place:
        raise BadInput(f"write MODULE:OBJECT, such as app:cron for `cron = Cronce(…)` in app.py, not {app[:80]!r}")
    return name, place


def _imported(name: str) -> ModuleType:
    here = os.getcwd()  # noqa: PTH109  pathlib is slow to import
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        with loading():
            return import_module(name)
    except StartsWork as work:
        raise BadInput(f"{name} {work} when it is imported; put that under `if __name__ == '__main__':`") from None
    except CronceError as error:
        place = _frames(error)[-1]
        raise BadInput(f"{place.filename}:{place.lineno}: {error}") from None
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            raise BadInput(f"there is no module {error.name}, in {here} or on Python's path") from None
        tell(traceback_of(error, last=len(_frames(error))))
        raise BadInput(f"{name} cannot be imported") from None


def _frames(error: BaseException) -> "list[FrameSummary]":
    """Where it went wrong, without our own lines and those of the import."""
    from traceback import extract_tb  # noqa: PLC0415  only what fails pays for it

    ours = (__file__.removesuffix("/runtime/app_loading.py"), "<frozen", str(importlib.__file__))
    return [frame for frame in extract_tb(error.__traceback__) if not frame.filename.startswith(ours)]
