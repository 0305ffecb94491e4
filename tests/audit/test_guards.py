"""Which functions are guarded against running twice, and by what."""

from pathlib import Path

from cronce_audit.guards import guards
from tests.audit.trees import report_on

CODE = """
import fcntl, functools
import redis
from cronce import Cronce
from sqlalchemy import text

client = redis.Redis()
cron = Cronce("sqlite:///x.db")

@cron.job("0 3 * * *")
def by_cronce(): ...

def with_lock(name):
    def decorator(function):
        @functools.wraps(function)
        def wrapper(*args):
            lock = client.lock(name, timeout=840)
            if lock.acquire(blocking=False):
                return function(*args)
        return wrapper
    return decorator

@with_lock("orders")
def by_decorator(): ...

def by_query(session):
    if session.execute(text("SELECT pg_try_advisory_lock(42)")).scalar():
        work()

def by_file():
    with open("/tmp/x") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

def by_hand():
    if client.set("lock", 1, nx=True, ex=60):
        work()

def by_context():
    with cron.lock("reindex"):
        work()

def not_at_all():
    work()
"""


def test_a_function_is_guarded_by_its_body_or_by_its_decorators(tmp_path: Path) -> None:
    found = report_on(tmp_path, {"jobs.py": CODE}).facts.conclude(guards)
    told = {name.removeprefix("jobs."): (guarded.kind, guarded.across_hosts) for name, guarded in found.items()}
    assert {name: told[name] for name in told if name.startswith("by_")} == {
        "by_cronce": ("cronce", True),
        "by_decorator": ("redis lock", True),
        "by_query": ("advisory lock", True),
        "by_file": ("file lock", False),
        "by_hand": ("redis lock", True),
        "by_context": ("cronce", True),
    }
    assert "not_at_all" not in told
