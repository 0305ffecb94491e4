"""Effects that commit together with the user's own writes: `run.transaction(conn, step="")`.

`flows` says how and why that holds, `block` is the transaction, `database` what is asked beside the body, in what a job
declares (`sources`). `talk`, `drivers`, `frameworks` and `kinds` are how connections are spoken to, `dialects` what is
said.
"""

from cronce.runtime.joined.block import Transaction
from cronce.runtime.joined.database import Database, read_database

__all__ = ["Database", "Transaction", "read_database"]
