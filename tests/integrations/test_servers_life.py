"""A scheduler inside the workers of a web server: however many there are, each slot runs once and none is missed, also
when a worker is killed, and they end well."""

import os
import signal
import sys
import time
import urllib.request
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from tests.house.wait import wait_until
from tests.runtime.scheduling.life.town import Town, children, ended
from tests.servers.process import free_port

FLASK, FASTAPI = (f"tests.runtime.scheduling.life.{name}:app" for name in ("flask_app", "fastapi_app"))
WORKERS = 4

HOOKS = """
def post_fork(server, worker):
    from tests.runtime.scheduling.life.app import cron
    cron.start(grace="10s")
"""

DEBUG = """
from tests.runtime.scheduling.life.flask_app import app
app.run(port={port}, debug=True)
"""


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    town = Town(tmp_path, jobs=10, overlap="allow", missed="all")
    yield town
    town.close()


def gunicorn(town: Town, port: int, *options: str) -> list[str]:
    hooks = town.folder / "hooks.py"
    hooks.write_text(HOOKS)
    quiet = ["--log-level", "warning", "--worker-tmp-dir", str(town.folder), "--no-control-socket"]
    words = [option.replace("HOOKS", str(hooks)) for option in options]
    return ["gunicorn", FLASK, "-w", str(WORKERS), "-b", f"127.0.0.1:{port}", *quiet, *words]


def uvicorn(port: int) -> list[str]:
    return ["uvicorn", FASTAPI, "--workers", str(WORKERS), "--port", str(port), "--log-level", "warning"]


@pytest.mark.parametrize("how", ["import", "preload", "preload and post_fork", "lifespan"])
def test_each_slot_runs_once_behind_a_web_server(town: Town, how: str) -> None:
    port, env = free_port(), {"LIFE_WHEN": "import"} if how in ("import", "preload") else {}
    match how:
        case "import":
            words = gunicorn(town, port)
        case "preload":
            words = gunicorn(town, port, "--preload")
        case "preload and post_fork":
            words = gunicorn(town, port, "--preload", "--config", "HOOKS")
        case _:
            words = uvicorn(port)
    server = town.start(sys.executable, "-m", *words, env=env)
    schedulers = 1 if how == "preload" else WORKERS
    town.wait_until_there(schedulers)
    wait_until(lambda: answers(port))
    who = {server.pid} if how == "preload" else set(children(server.pid)) & set(town.holders())
    assert len(who) == schedulers
    wait_until(lambda: {line.pid for line in town.lines("start")} == who)
    killed = kill_one(town, server.pid) if how in ("import", "lifespan") else None
    town.wait_for("start", len(town.lines("start")) + 20)
    server.terminate()
    code, out = ended(server)
    assert code == 0, out
    assert set(town.starts().values()) == {1}
    assert missed(town) == []
    assert len(town.lines("end")) == len(town.lines("start"))
    assert town.holders().keys() - {killed} == set()  # each of the others has left, and said all


def kill_one(town: Town, server: int) -> int:
    """Then another is there in its place."""
    wait_for_a_quiet_moment(town)
    before = set(town.holders())
    victim = min(set(children(server)) & before)
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: set(children(server)) & (set(town.holders()) - before))
    return victim


def wait_for_a_quiet_moment(town: Town) -> None:
    """Whoever is killed now loses nothing that it has begun: bodies take no time, and begin with the second."""
    wait_until(lambda: 0.4 < time.time() % 1 < 0.6 and not town.states("running"))


def missed(town: Town) -> list[str]:
    """The slots between a job's first and its last that never ran."""
    ran: dict[str, list[datetime]] = {}
    for job, slot in sorted(town.starts()):
        ran.setdefault(job, []).append(datetime.fromisoformat(slot))
    pairs = [(job, before, after) for job, slots in ran.items() for before, after in pairwise(slots)]
    return [f"{job} after {before}" for job, before, after in pairs if after - before != timedelta(seconds=1)]


def test_the_debug_reloader_of_flask_runs_two_schedulers_and_each_slot_once(town: Town) -> None:
    """The process that watches the files has loaded the application, too. What it restarts ends well."""
    town.env["LIFE_WHEN"] = "import"
    server = town.script(DEBUG.format(port=free_port()))
    wait_until(lambda: {line.pid for line in town.lines("start")} == {server.pid, *children(server.pid)})
    (first,) = children(server.pid)
    assert town.holders().keys() == {server.pid, first}
    (town.folder / "script0.py").write_text(DEBUG.format(port=free_port()))
    wait_until(lambda: {line.pid for line in town.lines("end")} & (set(children(server.pid)) - {first}))
    assert first not in town.holders()
    wait_for_a_quiet_moment(town)
    server.terminate()  # it kills the other
    ended(server)
    assert set(town.starts().values()) == {1}
    assert missed(town) == []
    assert len(town.lines("end")) == len(town.lines("start"))


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False
