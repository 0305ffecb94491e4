"""Cells in etcd.

`store` is the store, `layout` the keys and records it keeps, `scan` how they are read in order, `api` its JSON gateway,
`checks` what the doctor asks. Its clock is read off the replies (`stores.dates`).
"""

from cronce.stores.etcd.store import TRAITS, EtcdStore, adopt, init, open_store

__all__ = ["TRAITS", "EtcdStore", "adopt", "init", "open_store"]
