"""For our tests and for yours: `StoreContract` tells whether something is a store.

It needs pytest, so it is loaded when first used: the simulator in this package needs nothing.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cronce.testing.contract import StoreContract as StoreContract

__all__ = ["StoreContract"]


def __getattr__(name: str) -> object:
    if name != "StoreContract":
        raise AttributeError(f"cronce.testing has no name {name!r}")
    from cronce.testing.contract import StoreContract  # noqa: PLC0415

    return StoreContract
