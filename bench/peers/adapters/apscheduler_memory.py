"""APScheduler with its default job store, in the memory of each process: nothing is shared."""

from bench.peers.adapters.by_apscheduler import serve
from bench.peers.ledger import run

if __name__ == "__main__":
    serve(run)
