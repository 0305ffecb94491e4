"""APScheduler with redis-py's own `Lock`, not blocking, as the guides have it: who does not get it skips the slot."""

import redis
from redis.exceptions import LockNotOwnedError

from bench.peers.adapters.by_apscheduler import serve
from bench.peers.ledger import LEASE, order, run


def tick() -> None:
    lock = client.lock("tick", timeout=LEASE, blocking=False)
    if not lock.acquire():
        return
    try:
        run()
    finally:
        try:
            lock.release()
        except LockNotOwnedError:
            print("the lock expired before the job had ended", flush=True)


if __name__ == "__main__":
    client = redis.Redis.from_url(order().url)
    serve(tick)
