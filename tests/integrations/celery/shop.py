"""The app of these tests with its processes: beats and workers as `celery` starts them."""

import json
import os
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import redis

from cronce.model import unspell
from cronce.stores import module_of
from tests.house.wait import wait_until

ROOT: Final = Path(__file__).parents[3]
APP: Final = "tests.integrations.celery.app"


def begin(store: str) -> None:
    """A store that is new, and knows it."""
    module = module_of(store)
    assert module is not None
    module.init(store)


class Shop:
    """A database of the server is its broker, and its book; a namespace beside it the store."""

    def __init__(self, server: str, database: int, folder: Path) -> None:
        self.broker = f"{server.rpartition('/')[0]}/{database}"
        self.store = f"{self.broker}?namespace=shop-{database}"
        self.redis = redis.Redis.from_url(self.broker)
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        begin(self.store)

    def beat(self, entries: dict[str, Any], at_send: str = "") -> subprocess.Popen[bytes]:
        words = ("beat", "-S", "cronce", "--pidfile=", "-l", "INFO")
        return self._start("beat", *words, ENTRIES=json.dumps(entries), AT_SEND=at_send)

    def worker(self, queue: str, at_send: str = "", pool: str = "threads") -> subprocess.Popen[bytes]:
        words = ("worker", "-P", pool, "-c", "3", "-Q", queue, "-n", f"{queue}@here", "-l", "INFO")
        worker = self._start(f"worker-{queue}", *words, AT_SEND=at_send)
        wait_until(lambda: b" ready." in self.log(f"worker-{queue}"))
        return worker

    def _start(self, name: str, *words: str, **env: str) -> subprocess.Popen[bytes]:
        env = {**os.environ, "BROKER": self.broker, "CRONCE_URL": self.store, "PYTHONPATH": str(ROOT), **env}
        command = [sys.executable, "-m", "celery", "-A", APP, *words]
        with (self.folder / name).open("ab") as log:
            process = subprocess.Popen(command, cwd=self.folder, env=env, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def log(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def noted(self, book: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.redis.lrange(book, 0, -1)]

    def deliveries(self, task: str) -> int:
        return sum(one["id"] == task for one in self.noted("deliveries"))

    def unacknowledged(self) -> list[float]:
        """When each of the messages was taken that no worker has acknowledged yet."""
        taken: Any = self.redis.zrange("unacked_index", 0, -1, withscores=True)
        return [when for _, when in taken]

    def close(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGKILL)
            process.wait()
        self.redis.close()


def instants(slots: list[str]) -> list[datetime]:
    return [unspell(slot.partition("@")[2]) for slot in slots]


def gapless(found: list[datetime], every: timedelta) -> list[datetime]:
    """What would be there if each slot from the first to the last was, once."""
    first, last = min(found), max(found)
    return [first + number * every for number in range((last - first) // every + 1)]
