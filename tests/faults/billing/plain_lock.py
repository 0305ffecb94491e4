"""A Redis lock as the seeds write it, faults and all: what is measured is what they recommend.

`SET NX EX`, a thread that renews at half of the time, release and renewal by `get` first and then the act. The names
are theirs.
"""

import threading
import time
import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import redis


class HeartbeatLock:
    def __init__(self, client: "redis.Redis", key: str, ttl: int) -> None:
        self.client, self.key, self.ttl = client, key, ttl
        self.instance = str(uuid.uuid4())[:8]
        self._running = False

    def acquire(self) -> bool:
        acquired = self.client.set(self.key, self.instance, nx=True, ex=self.ttl)
        if acquired:
            self._running = True
            threading.Thread(target=self._heartbeat, daemon=True).start()
        return bool(acquired)

    def _heartbeat(self) -> None:
        while self._running:
            time.sleep(self.ttl // 2)
            if self._running:
                current = self.client.get(self.key)
                if current == self.instance:
                    self.client.expire(self.key, self.ttl)

    def release(self) -> None:
        self._running = False
        current = self.client.get(self.key)
        if current == self.instance:
            self.client.delete(self.key)
