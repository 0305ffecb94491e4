"""Cells in one SQLite file.

`store` is the store, `statements` what is said to SQLite, `file` how its file is found, made, checked and adopted,
`checks` what the doctor asks.
"""

from cronce.stores.sqlite.store import TRAITS, SqliteStore, absolute, adopt, adopt_file, ddl, init, locate, open_store

__all__ = ["TRAITS", "SqliteStore", "absolute", "adopt", "adopt_file", "ddl", "init", "locate", "open_store"]
