"""Cells in MySQL or MariaDB.

`store` is the store, `schema` its tables, `server` connections and what their errors mean, `checks` what the doctor
asks.
"""

from cronce.stores.mysql.schema import ddl
from cronce.stores.mysql.store import TRAITS, MysqlStore, adopt, init, open_store

__all__ = ["TRAITS", "MysqlStore", "adopt", "ddl", "init", "open_store"]
