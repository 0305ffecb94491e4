"""For cronce's tests and for yours: `manual` sets the clock of your jobs by hand, `rehearse` starts your app several
times at once and counts its runs, and `StoreContract` tests whether a class is a valid store.

Each is loaded when it is first used: the contract needs pytest, and the simulator in this package needs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cronce.testing.contract import StoreContract as StoreContract
    from cronce.testing.manual_time import manual as manual
    from cronce.testing.rehearsal import rehearse as rehearse

__all__ = ["StoreContract", "manual", "rehearse"]

_HOME: Final = {"StoreContract": "contract", "manual": "manual_time", "rehearse": "rehearsal"}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"cronce.testing has no name {name!r}")
    return getattr(import_module(f"cronce.testing.{_HOME[name]}"), name)
