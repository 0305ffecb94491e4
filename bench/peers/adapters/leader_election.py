"""APScheduler with the guides' leader election: `SET leader NX EX ttl`, renewed by `EXPIRE` every third of the ttl.
Only the leader runs jobs."""

import threading
import time

import redis

from bench.peers.adapters.by_apscheduler import serve
from bench.peers.ledger import LEASE, order, run


class Election:
    def __init__(self) -> None:
        self.client = redis.Redis.from_url(order().url)
        self.leads = False

    def look(self) -> None:
        if self.leads:
            self.client.expire("cron:leader", LEASE)
        elif self.client.set("cron:leader", order().host, nx=True, ex=LEASE):
            self.leads = True

    def look_often(self) -> None:
        while True:
            try:
                self.look()
            except redis.RedisError as error:
                print(error, flush=True)
            time.sleep(LEASE / 3)

    def tick(self) -> None:
        if self.leads:
            run()


if __name__ == "__main__":
    election = Election()
    threading.Thread(target=election.look_often, daemon=True).start()
    serve(election.tick)
