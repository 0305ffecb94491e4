"""A scheduler inside the workers of a web server: however many there are, each slot runs once, and they end well."""

import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.wait import wait_until
from tests.runtime.scheduling.life.town import Town, children, ended
from tests.servers.process import free_port

WSGI, ASGI = "tests.runtime.scheduling.life.web:wsgi", "tests.runtime.scheduling.life.web:asgi"

HOOKS = """
def post_fork(server, worker):
    from tests.runtime.scheduling.life.app import cron
    cron.start(grace="10s")
"""


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    town = Town(tmp_path, jobs=10, overlap="allow")
    yield town
    town.close()


def gunicorn(town: Town, *options: str) -> list[str]:
    hooks = town.folder / "hooks.py"
    hooks.write_text(HOOKS if "--preload" in options else "")
    quiet = ["--log-level", "warning", "--config", str(hooks), "--worker-tmp-dir", str(town.folder)]
    return ["gunicorn", WSGI, "-w", "2", "--no-control-socket", *quiet, *options]


@pytest.mark.parametrize("how", ["import", "preload", "preload and post_fork", "lifespan"])
def test_each_slot_runs_once_behind_a_web_server(town: Town, how: str) -> None:
    port = free_port()
    match how:
        case "import" | "preload":
            words, env = gunicorn(town, "-b", f"127.0.0.1:{port}"), {"LIFE_WHEN": "import"}
            words += ["--preload"] * (how == "preload")
        case "preload and post_fork":
            words, env = gunicorn(town, "-b", f"127.0.0.1:{port}", "--preload"), {}
        case _:
            words, env = ["uvicorn", ASGI, "--workers", "2", "--port", str(port), "--log-level", "warning"], {}
    server = town.start(sys.executable, "-m", *words, env=env)
    schedulers = 1 if how == "preload" else 2
    town.wait_until_there(schedulers)
    wait_until(lambda: answers(port))
    who = {server.pid} if how == "preload" else set(children(server.pid)) & set(town.holders())
    assert len(who) == schedulers
    wait_until(lambda: {line.pid for line in town.lines("start")} == who)
    town.wait_for("start", len(town.lines("start")) + 20)
    assert {line.pid for line in town.lines("start")} == who
    server.terminate()
    code, out = ended(server)
    assert code == 0, out
    assert set(town.starts().values()) == {1}
    assert len(town.lines("end")) == len(town.lines("start"))
    assert town.holders() == {}  # each of them has left, and said all


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False
