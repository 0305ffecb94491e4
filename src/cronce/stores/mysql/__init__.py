"""Cells in MySQL or MariaDB.

`store` is the store, `schema` its tables and what the doctor asks, `server` connections and what their errors mean.
"""

from cronce.stores.mysql.store import TRAITS, MysqlStore, adopt, ddl, init, open_store

__all__ = ["TRAITS", "MysqlStore", "adopt", "ddl", "init", "open_store"]
