"""The memory store keeps the contract, within one process."""

from pathlib import Path

from cronce.stores.base import Store
from cronce.stores.memory import MemoryStore
from cronce.testing import StoreContract


class TestMemory(StoreContract):
    def open(self, place: Path) -> Store:
        return _PLACES.setdefault(place, MemoryStore())


_PLACES: dict[Path, MemoryStore] = {}
