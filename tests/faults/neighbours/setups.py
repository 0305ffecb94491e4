"""Five setups that run every slot several times, and what makes each of them run it once."""

from collections.abc import Callable
from typing import NamedTuple

from tests.faults.neighbours import crontab
from tests.faults.neighbours.apps import PERIOD
from tests.faults.neighbours.stage import Stage
from tests.servers.process import free_port

APPS = "tests.faults.neighbours.apps"


class Setup(NamedTuple):
    name: str
    line: str
    """What is added."""
    start: Callable[[Stage], int]
    """Starts it, and gives the process that is killed later."""
    period: int = PERIOD


def apscheduler(stage: Stage) -> int:
    for _ in range(3):
        stage.python(f"{APPS}.scheduler")
    return stage.wait_until_up(3)[1]


def celery(stage: Stage) -> int:
    app = ["celery", "-A", f"{APPS}.beat"]
    stage.python(*app, "worker", "--pool", "solo", "--loglevel", "info", "--without-gossip", "--without-mingle")
    chosen = ["-S", "cronce"] if stage.guarded else []
    plain = ["--pidfile=", "--loglevel", "info"]
    beats = [stage.python(*app, "beat", *chosen, *plain, "-s", str(stage.folder / f"last-{n}")) for n in range(3)]
    stage.wait_until_said("beat: Starting", 3)
    stage.wait_until_said(" ready.", 1)
    return beats[1]


def gunicorn(stage: Stage) -> int:
    address = f"127.0.0.1:{free_port()}"
    stage.python("gunicorn", f"{APPS}.wsgi:app", "-w", "4", "-b", address, "--no-control-socket")
    return stage.wait_until_up(4)[1]


def uvicorn(stage: Stage) -> int:
    stage.python("uvicorn", f"{APPS}.asgi:app", "--workers", "4", "--port", str(free_port()))
    return stage.wait_until_up(4)[1]


SETUPS = {
    "apscheduler": Setup(
        "APScheduler in 3 processes, one PostgreSQL job store", "`protect(scheduler, cron)`", apscheduler
    ),
    "celery": Setup("Celery beat in 3 processes", "`celery beat -S cronce`, `base=Once`", celery),
    "gunicorn": Setup("gunicorn `-w 4`, a scheduler in the app", "`protect(scheduler, cron)`", gunicorn),
    "uvicorn": Setup("uvicorn `--workers 4`, a scheduler in the app", "`protect(scheduler, cron)`", uvicorn),
    "crontab": Setup(
        "crontab on 3 hosts, clocks 400 ms apart each", "`cronce deploy crontab wrap`", crontab.start, period=60
    ),
}
