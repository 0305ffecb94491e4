"""Celery beat on each of the hosts with cronce's scheduler, and tasks whose base class is `Once`."""

from bench.peers.adapters.by_celery import application, serve
from bench.peers.ledger import LEASE, order

if __name__ == "__main__":
    serve("cronce_beat", "-S", "cronce")
else:
    from cronce.integrations.celery import Once

    class Leased(Once):
        abstract = True
        lease = f"{LEASE}s"

    app = application(base=Leased, cronce_url=order().url, cronce_lease=f"{LEASE}s", cronce_missed="all")
