"""APScheduler with the guides' Redis decorator: `SET key value NX EX ttl`, the job runs, then get and delete."""

import uuid

import redis

from bench.peers.adapters.by_apscheduler import serve
from bench.peers.ledger import LEASE, order, run

KEY = "job_lock:tick"


def tick() -> None:
    mine = uuid.uuid4().hex
    if not client.set(KEY, mine, nx=True, ex=LEASE):
        return
    try:
        run()
    finally:
        if client.get(KEY) == mine:
            client.delete(KEY)


if __name__ == "__main__":
    client = redis.Redis.from_url(order().url, decode_responses=True)
    serve(tick)
