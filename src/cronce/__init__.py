"""cronce: cron, once. Names are loaded when they are first used, so that `import cronce` costs nothing."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cronce.errors import AlreadyDone, CronceError, InDoubt, InProgress, LeaseLost, LockHeld, TimedOut
    from cronce.model import Fence, slot
    from cronce.runtime.app import Cronce
    from cronce.runtime.run import Run, Skipped, current_run
    from cronce.schedule import At, Cron, Every

__version__ = "0.1.0"

_NAMES: Final = {
    "cronce.errors": ("AlreadyDone", "CronceError", "InDoubt", "InProgress", "LeaseLost", "LockHeld", "TimedOut"),
    "cronce.model": ("Fence", "slot"),
    "cronce.runtime.app": ("Cronce",),
    "cronce.runtime.run": ("Run", "Skipped", "current_run"),
    "cronce.schedule": ("At", "Cron", "Every"),
}
_HOMES: Final = {name: home for home, names in _NAMES.items() for name in names}

__all__ = [
    "AlreadyDone",
    "At",
    "Cron",
    "Cronce",
    "CronceError",
    "Every",
    "Fence",
    "InDoubt",
    "InProgress",
    "LeaseLost",
    "LockHeld",
    "Run",
    "Skipped",
    "TimedOut",
    "__version__",
    "current_run",
    "slot",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"cronce has no name {name!r}")
    return getattr(import_module(_HOMES[name]), name)
