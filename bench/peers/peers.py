"""The tools that are compared, and the environment that each is installed in."""

import json
import subprocess
import sys
import venv
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
PLACE: Final = ROOT / ".venv" / "peers"
OURS: Final = "cronce"
"""The environment that this runs in."""

ENVIRONMENTS: Final[dict[str, tuple[str, ...]]] = {
    "apscheduler": ("apscheduler==3.11.*", "sqlalchemy", "psycopg2-binary", "redis"),
    "celery": ("celery[redis]", "celery-redbeat"),
    "procrastinate": ("procrastinate", "psycopg[binary]"),
    "dbos": ("dbos",),
    "arq": ("arq",),
}
STORES: Final = ("postgresql", "valkey", "mariadb", "sqlite")


class Peer(NamedTuple):
    title: str
    adapter: str
    """A module of `adapters`."""
    environment: str
    stores: tuple[str, ...]
    """Those it can be run on; empty: it keeps nothing."""
    versions: tuple[str, ...]
    """The packages whose versions are told."""
    trigger: str
    """Whose cron expressions it fires by, for the days on which clocks change."""
    setup: bool = False
    """The store is prepared before the first host starts."""
    broker: bool = False
    """It has a Redis broker besides its store; a peer without a store has its faults there."""

    @property
    def ours(self) -> bool:
        return self.environment == OURS


PEERS: Final[dict[str, Peer]] = {
    "cronce-scheduler": Peer("cronce, scheduler", "cronce_scheduler", OURS, STORES, ("cronce",), "cronce"),
    "cronce-guard": Peer("cronce, guard", "cronce_guard", OURS, STORES, ("cronce",), "cronce"),
    "cronce-apscheduler": Peer(
        "APScheduler with cronce's `protect`", "cronce_apscheduler", OURS, STORES, ("cronce", "apscheduler"), "protect"
    ),
    "cronce-beat": Peer(
        "Celery beat ×3 with `-S cronce`", "cronce_beat", OURS, STORES, ("cronce", "celery"), "cronce-beat", broker=True
    ),
    "apscheduler-memory": Peer(
        "APScheduler, memory", "apscheduler_memory", "apscheduler", (), ("apscheduler",), "apscheduler"
    ),
    "apscheduler-postgres": Peer(
        "APScheduler, shared PostgreSQL store", "apscheduler_postgres", "apscheduler", ("postgresql",),
        ("apscheduler", "sqlalchemy"), "apscheduler",
    ),
    "redis-set-nx": Peer(
        "APScheduler, `SET NX` decorator", "redis_set_nx", "apscheduler", ("valkey",), ("apscheduler", "redis"),
        "apscheduler",
    ),
    "redis-lock": Peer(
        "APScheduler, redis-py `Lock`", "redis_lock", "apscheduler", ("valkey",), ("apscheduler", "redis"),
        "apscheduler",
    ),
    "advisory-lock": Peer(
        "APScheduler, advisory lock", "advisory_lock", "apscheduler", ("postgresql",),
        ("apscheduler", "psycopg2-binary"), "apscheduler",
    ),
    "job-runs": Peer(
        "APScheduler, `job_runs` table", "job_runs", "apscheduler", ("postgresql",), ("apscheduler", "psycopg2-binary"),
        "apscheduler", setup=True,
    ),
    "leader-election": Peer(
        "APScheduler, leader election", "leader_election", "apscheduler", ("valkey",), ("apscheduler", "redis"),
        "apscheduler",
    ),
    "celery-beat": Peer("Celery beat ×3", "celery_beat", "celery", (), ("celery", "redis"), "celery", broker=True),
    "redbeat": Peer("RedBeat ×3", "redbeat", "celery", (), ("celery-redbeat", "celery"), "celery", broker=True),
    "procrastinate": Peer(
        "procrastinate", "procrastinate_periodic", "procrastinate", ("postgresql",), ("procrastinate",),
        "procrastinate", setup=True,
    ),
    "dbos": Peer("DBOS", "dbos_schedule", "dbos", ("postgresql",), ("dbos",), "dbos", setup=True),
    "arq": Peer("arq", "arq_cron", "arq", ("valkey",), ("arq", "redis"), "arq"),
}  # fmt: skip

_MAKING = Lock()


def python_of(environment: str) -> str:
    """The interpreter of an environment, which is made if it is not there."""
    if environment == OURS:
        return sys.executable
    place = PLACE / environment
    with _MAKING:
        if not (place / "installed").exists():
            venv.create(place, with_pip=True, clear=True)
            install = [str(place / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
            subprocess.run([*install, *ENVIRONMENTS[environment]], check=True)
            (place / "installed").touch()
    return str(place / "bin" / "python")


@cache
def versions_of(name: str) -> dict[str, str]:
    peer = PEERS[name]
    ask = (
        "import json, sys; from importlib.metadata import version;"
        "print(json.dumps({name: version(name) for name in sys.argv[1:]}))"
    )
    told = subprocess.run([python_of(peer.environment), "-c", ask, *peer.versions], check=True, capture_output=True)
    versions = json.loads(told.stdout)
    assert isinstance(versions, dict)
    return versions
