"""Files as the tests of the SQLite store look at them."""

import sqlite3
from pathlib import Path


def raw(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, timeout=10)
