"""cronce: cron, once. Names are loaded when they are first used, so that `import cronce` costs nothing."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cronce.errors import CronceError as CronceError
    from cronce.model import Fence as Fence
    from cronce.model import slot as slot
    from cronce.schedule import At as At
    from cronce.schedule import Cron as Cron
    from cronce.schedule import Every as Every

__version__ = "0.1.0"

_HOMES: Final = {
    "At": "cronce.schedule",
    "Cron": "cronce.schedule",
    "CronceError": "cronce.errors",
    "Every": "cronce.schedule",
    "Fence": "cronce.model",
    "slot": "cronce.model",
}

__all__ = ["At", "Cron", "CronceError", "Every", "Fence", "__version__", "slot"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"cronce has no name {name!r}")
    return getattr(import_module(_HOMES[name]), name)
