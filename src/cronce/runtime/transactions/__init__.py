"""Effects that commit together with the user's own writes: `run.transaction(conn)`.

`fencing` explains how and why that holds. `transaction` is the block. `database` is what a job declares, and what is
asked there beside the job function. `connection` and `drivers` send statements over the connections.
"""

from cronce.runtime.transactions.database import Database, read_database
from cronce.runtime.transactions.fencing import Committed
from cronce.runtime.transactions.transaction import Transaction

__all__ = ["Committed", "Database", "Transaction", "read_database"]
