"""cronce: cron, once. Names are loaded when they are first used, so that `import cronce` costs nothing."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cronce.errors import AlreadyDone as AlreadyDone
    from cronce.errors import CronceError as CronceError
    from cronce.errors import InDoubt as InDoubt
    from cronce.errors import InProgress as InProgress
    from cronce.errors import LeaseLost as LeaseLost
    from cronce.errors import LockHeld as LockHeld
    from cronce.errors import TimedOut as TimedOut
    from cronce.model import Fence as Fence
    from cronce.model import slot as slot
    from cronce.runtime.app import Cronce as Cronce
    from cronce.runtime.current import current_run as current_run
    from cronce.runtime.run import Run as Run
    from cronce.runtime.run import Skipped as Skipped
    from cronce.schedule import At as At
    from cronce.schedule import Cron as Cron
    from cronce.schedule import Every as Every

__version__ = "0.1.0"

_HOMES: Final = {
    "AlreadyDone": "cronce.errors",
    "At": "cronce.schedule",
    "Cron": "cronce.schedule",
    "Cronce": "cronce.runtime.app",
    "CronceError": "cronce.errors",
    "Every": "cronce.schedule",
    "Fence": "cronce.model",
    "InDoubt": "cronce.errors",
    "InProgress": "cronce.errors",
    "LeaseLost": "cronce.errors",
    "LockHeld": "cronce.errors",
    "Run": "cronce.runtime.run",
    "Skipped": "cronce.runtime.run",
    "TimedOut": "cronce.errors",
    "current_run": "cronce.runtime.current",
    "slot": "cronce.model",
}

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
