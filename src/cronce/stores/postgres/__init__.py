"""Cells in PostgreSQL.

`store` is the store, `swap` how a batch travels, `schema.sql` what the server does with it, `line` connections and what
their errors mean, `checks` what the doctor asks, `session` advisory locks.
"""

from cronce.stores.postgres.store import TRAITS, PostgresStore, adopt, ddl, init, open_store

__all__ = ["TRAITS", "PostgresStore", "adopt", "ddl", "init", "open_store"]
