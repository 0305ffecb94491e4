"""A scheduler inside the workers of a web server: however many there are, each slot runs once and none is missed, also
when a worker is killed, and they end well."""

import os
import signal
import sys
import urllib.request
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from tests.house.wait import wait_until
from tests.runtime.scheduling.life.town import Town, children, ended
from tests.servers.process import free_port, stop

FLASK, FASTAPI = (f"tests.runtime.scheduling.life.{name}:app" for name in ("flask_app", "fastapi_app"))
WORKERS = 3

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
    patient = ["--timeout", "120"]  # with a worker that does not get a processor
    return ["gunicorn", FLASK, "-w", str(WORKERS), "-b", f"127.0.0.1:{port}", *quiet, *patient, *words]


def uvicorn(port: int) -> list[str]:
    patient = ["--timeout-worker-healthcheck", "10"]
    return ["uvicorn", FASTAPI, "--workers", str(WORKERS), "--port", str(port), "--log-level", "warning", *patient]


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
    hosts = {server.pid} if how == "preload" else set(children(server.pid))
    wait_until(lambda: {line.pid for line in town.lines("start")} == hosts & town.holders().keys())
    assert len({line.pid for line in town.lines("start")}) == schedulers
    killed = kill_one(town, server.pid) if how in ("import", "lifespan") else None
    town.wait_for("start", len(town.lines("start")) + 10)  # of each job one
    server.terminate()
    code, out = ended(server)
    assert code == 0, out
    assert set(town.starts().values()) == {1}
    assert missed(town) == []
    assert len(town.lines("end")) == len(town.lines("start"))
    assert town.holders().keys() - {killed} == set()  # each of the others has left, and said all


def kill_one(town: Town, server: int) -> int:
    """Then another is there in its place."""
    before = set(town.holders())
    victim = min(set(children(server)) & before)
    wait_until(lambda: rests(town, victim))
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: set(children(server)) & (set(town.holders()) - before))
    return victim


def rests(town: Town, pid: int) -> bool:
    """It is stopped where nothing is begun: if it is killed now, it loses nothing."""
    stop([pid])
    if town.states("running"):
        os.kill(pid, signal.SIGCONT)
        return False
    return True


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
    wait_until(lambda: children(server.pid))
    (first,) = children(server.pid)
    wait_until(lambda: {line.pid for line in town.lines("start")} == {server.pid, first})
    wait_until(lambda: town.holders().keys() == {server.pid, first})
    wait_until(lambda: is_reloaded(town.folder / "script0.py", first))
    wait_until(lambda: {line.pid for line in town.lines("end")} & set(children(server.pid)))
    assert first not in town.holders()
    (second,) = children(server.pid)
    wait_until(lambda: rests(town, second))
    server.terminate()  # it kills the other
    ended(server)
    assert set(town.starts().values()) == {1}
    assert missed(town) == []
    assert len(town.lines("end")) == len(town.lines("start"))


def is_reloaded(script: Path, pid: int) -> bool:
    """The process is gone; else the script changes once more: it may not have watched its files yet."""
    if not Path(f"/proc/{pid}").exists():
        return True
    script.touch()
    return False


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False
