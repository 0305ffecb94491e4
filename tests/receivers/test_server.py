"""The middleware behind a real server with two workers, one of which is killed in the middle of its work."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.house.wait import wait_until
from tests.servers.process import free_port

ROOT = Path(__file__).parents[2]
SHORTEN = """
    UPDATE cronce_cells SET until = until - 60000000, value = json_set(value, '$.lease', 1000000)
    WHERE key LIKE 'once/%' AND mark = 1
"""


class Served:
    """A server of `tests.receivers.service`."""

    def __init__(self, folder: Path) -> None:
        self.folder, port = folder, free_port()
        words = [
            "uvicorn",
            "tests.receivers.service:app",
            "--workers",
            "2",
            "--port",
            str(port),
            "--log-level",
            "error",
            "--timeout-worker-healthcheck",
            "15",
        ]
        env = {**os.environ, "SERVICE_FOLDER": str(folder)}
        self._process = subprocess.Popen([sys.executable, "-m", *words], cwd=ROOT, env=env)
        self.url = f"http://127.0.0.1:{port}"
        wait_until(self._answers)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/").status_code == 201
        except httpx.TransportError:
            return False

    def post(self, path: str, key: str) -> httpx.Response:
        """On a connection of its own: either worker may have it."""
        return httpx.post(f"{self.url}{path}", headers={"Idempotency-Key": key}, timeout=60)

    def until_done(self, path: str, key: str) -> httpx.Response:
        while (answer := self.post(path, key)).status_code == 409:
            assert answer.json()["title"] == "in progress"
        return answer

    def done(self) -> list[tuple[int, str]]:
        """Who was asked, for which key."""
        lines = (self.folder / "done").read_text().splitlines()
        return [(int(pid), key) for pid, _, key in (line.partition(" ") for line in lines) if key]

    def shorten(self) -> None:
        """The lease of what is at work, to a second that is over: 30 s are too long to wait for."""
        with closing(sqlite3.connect(self.folder / "receiver.db", timeout=30)) as store, store:
            assert store.execute(SHORTEN).rowcount == 1

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(60)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path)
    yield served
    served.close()


def test_each_key_is_done_once_by_two_workers_and_a_killed_one_leaves_a_doubt(served: Served) -> None:
    keys = [f"invoice-{number}" for number in range(10)] * 4
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda key: served.until_done("/charges", key), keys))
    assert {answer.status_code for answer in answers} == {201}
    assert Counter(key for _, key in served.done()) == dict.fromkeys(keys, 1)
    assert len({answer.content for answer in answers}) == 10  # whoever asks, and whichever worker answers

    for path, title in (("/charges", "in doubt"), ("/retry", "")):
        key = f"killed-at-{path}"
        (served.folder / "hang").touch()
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(served.post, path, key)
            wait_until(lambda key=key: served.done()[-1][1] == key)  # type: ignore[misc]
            os.kill(served.done()[-1][0], signal.SIGKILL)
            with pytest.raises(httpx.TransportError):
                first.result(60)
        (served.folder / "hang").unlink()
        assert _title(served.post(path, key)) == "in progress"
        served.shorten()
        wait_until(lambda path=path, key=key: _title(served.post(path, key)) != "in progress")  # type: ignore[misc]
        assert [_title(served.post(path, key)) for _ in range(3)] == [title] * 3
    counted = Counter(key for _, key in served.done())
    assert (counted["killed-at-/charges"], counted["killed-at-/retry"]) == (1, 2)


def _title(answer: httpx.Response) -> str:
    title: str = answer.json().get("title", "")
    return title
