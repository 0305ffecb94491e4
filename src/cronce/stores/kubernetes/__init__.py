"""Cells in Kubernetes' Lease objects: the locks and leaders of a namespace, and the last slots of its jobs.

`store` is the store, `layout` how cells lie in Leases, `api` the requests, `access` where the API server is and who
asks, `checks` what the doctor asks. Its clock is read off the replies (`stores.dates`).
"""

from cronce.stores.kubernetes.store import TRAITS, KubernetesStore, init, open_store

__all__ = ["TRAITS", "KubernetesStore", "init", "open_store"]
