"""A store of its own for each test, on a server that all share."""

import hashlib
from pathlib import Path


def name_of(place: Path) -> str:
    """Of a namespace, schema or database: the name of a place may repeat, its path does not."""
    return f"cronce_{hashlib.sha256(str(place).encode()).hexdigest()[:16]}"
