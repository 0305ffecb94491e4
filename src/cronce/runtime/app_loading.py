"""Loading an application: the `Cronce` that MODULE:OBJECT names."""

import importlib
import os
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cronce.errors import BadInput, CronceError, tell
from cronce.runtime.function_loading import StartsWork, loading
from cronce.runtime.log import traceback_of

if TYPE_CHECKING:
    from traceback import FrameSummary

    from cronce.runtime.app import Cronce


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
