"""Locks made by hand: what lets two in, what lets nobody in again; and what is no lock, or a good one."""

import textwrap
from pathlib import Path

import pytest

from tests.audit.trees import findings_in, report_on

HEAD = """\
import redis, time
from datetime import datetime, date, timezone
client = redis.Redis()
"""


def found(root: Path, body: str) -> list[str]:
    """`CR301 5`: the line counts from the first of the body."""
    told = findings_in(root, {"app.py": HEAD + textwrap.dedent(body).strip()}, *(f"CR30{n}" for n in range(1, 6)))
    return [f"{one.split()[0]} {int(one.rpartition(':')[2]) - HEAD.count(chr(10))}" for one in told]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            """
            def job(me):
                if client.set("lock", me, nx=True, px=1000):
                    work()
                    held = client.get("lock")
                    if held == me:
                        client.delete("lock")
            """,
            ["CR301 6"],
            id="the value is read into a name first",
        ),
        pytest.param(
            """
            def job(me):
                if not client.set("lock", me, nx=True, ex=9):
                    return
                try:
                    work()
                finally:
                    client.unlink("lock")
            """,
            ["CR301 7"],
            id="unlink in finally",
        ),
        pytest.param(
            """
            class Locker:
                def __init__(self, redis):
                    self.redis = redis
                def __enter__(self):
                    self.redis.set(self.key(), self.token, nx=True, ex=self.ttl)
                def __exit__(self, *error):
                    self.redis.delete(self.key())
                def key(self): ...
            """,
            ["CR301 7"],
            id="a context manager, with a client of which nothing is known",
        ),
        pytest.param(
            """
            def acquire_lock(key, ttl):
                return client.set(key, "x", nx=True, ex=ttl)
            def release_lock(key):
                client.delete(key)
            """,
            ["CR301 4"],
            id="two functions with a parameter of one name",
        ),
        pytest.param(
            """
            async def job(pool):
                if await pool.set("lock", "1", 30, nx=True):
                    await pool.delete("lock")
            """,
            ["CR301 3"],
            id="asynchronous, the time to live by position",
        ),
        pytest.param(
            """
            def job():
                if client.set("job-lock", 1, nx=True):
                    work()
            """,
            ["CR302 2"],
            id="a name that says lock, and nobody deletes it",
        ),
        pytest.param(
            """
            def job():
                if client.set("lock", 1, nx=True, ex=None):
                    work()
                    client.delete("lock")
            """,
            ["CR302 2"],
            id="no time to live, spelled out",
        ),
        pytest.param(
            """
            from redis.lock import Lock
            def job():
                with Lock(client, "a"):
                    work()
                with Lock(client, "a", 30), Lock(client, "b", timeout=30):
                    work()
            """,
            ["CR302 3"],
            id="the class of redis-py's lock",
        ),
        pytest.param(
            """
            def job():
                if client.set("lock", 1, nx=True):
                    client.expire("lock", 3)
            """,
            ["CR302 2"],
            id="two steps",
        ),
        pytest.param(
            """
            def keep(me):
                client.set("lock", me, nx=True, ex=3)
                while True:
                    if client.get("lock") == me:
                        client.expire("lock", 3)
            """,
            ["CR301 5"],
            id="renewed in a loop after a look",
        ),
    ],
)
def test_a_lock_that_lets_two_in_or_nobody_again_is_found(body: str, expected: list[str], tmp_path: Path) -> None:
    assert found(tmp_path, body) == expected


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            """
            def job(me):
                if client.set("lock", me, nx=True, ex=9):
                    client.eval("if redis.call('get', KEYS[1]) == ARGV[1] then ...", 1, "lock", me)
            """,
            id="released by a script",
        ),
        pytest.param(
            """
            def job(me):
                client.set("lock", me, nx=True, ex=9)
                with client.pipeline() as pipe:
                    pipe.watch("lock")
                    if pipe.get("lock") == me:
                        pipe.multi()
                        pipe.delete("lock")
                        pipe.execute()
            """,
            id="released in a watched transaction",
        ),
        pytest.param(
            """
            def charge(key):
                if client.set(key, 1, nx=True, ex=86400):
                    try:
                        work()
                    except Exception:
                        client.delete(key)
                        raise
            """,
            id="a mark that is taken back when the work failed",
        ),
        pytest.param(
            """
            def job(me):
                client.set("lock", me, nx=True, ex=60)
            def force_unlock():
                client.delete("lock")
            """,
            id="a person who clears up",
        ),
        pytest.param(
            """
            class Lock:
                def __init__(self):
                    self.script = client.register_script("...")
                def acquire(self, me):
                    return client.set("lock", me, nx=True, ex=60)
                def release(self, me):
                    if not self.script(keys=["lock"], args=[me]):
                        client.delete("lock")
            """,
            id="a class with a script for it",
        ),
        pytest.param(
            """
            def job():
                p = client.pipeline()
                p.setnx("lock", 1)
                p.expire("lock", 30)
                p.execute()
            """,
            id="two commands of one transaction",
        ),
        pytest.param(
            """
            def limit(user):
                client.set(f"rate:{user}", 0, nx=True, ex=60)
                return client.incr(f"rate:{user}")
            """,
            id="a rate limit",
        ),
        pytest.param(
            """
            def remember(key, value):
                client.set(key, value, nx=True)
            def forget(key):
                client.delete(key)
            """,
            id="a cache that is filled once, and cleared",
        ),
        pytest.param(
            """
            class Cache:
                def add(self, key, value, timeout):
                    if timeout == 0:
                        if ret := bool(client.set(key, value, nx=True)):
                            client.delete(key)
                        return ret
                    return bool(client.set(key, value, ex=timeout, nx=True))
                def touch(self, key, timeout):
                    return client.expire(key, timeout)
            """,
            id="a cache that drops at once what may not live",
        ),
        pytest.param(
            """
            def job(**options):
                if client.set("lock", 1, nx=True, **options):
                    work()
            """,
            id="options that are not seen",
        ),
        pytest.param(
            """
            def job(ttl):
                if client.set("lock", 1, nx=flag, ex=ttl):
                    client.delete("lock")
            """,
            id="whether it is NX is not seen",
        ),
        pytest.param(
            """
            def job():
                client.set("lock:a", 1, nx=True, ex=3)
                other.delete("lock:a")
                client.delete("lock:b")
            """,
            id="another client, another key",
        ),
        pytest.param(
            """
            import threading, asyncio, multiprocessing
            def job():
                with threading.Lock():
                    work()
                with multiprocessing.Lock():
                    work()
            async def other(bucket):
                async with asyncio.Lock(), bucket.lock("x"):
                    work()
            """,
            id="locks of other libraries",
        ),
        pytest.param(
            """
            def job(scheduled):
                return client.set(f"job:{scheduled:%Y-%m-%d}", 1, nx=True, ex=86400)
            """,
            id="a slot that the scheduler names",
        ),
        pytest.param(
            """
            def job(me):
                return client.set("lock", f"{me}-{time.time()}", nx=True, ex=60)
            """,
            id="the time is in the value, not in the key",
        ),
    ],
)
def test_what_is_no_lock_or_a_good_one_is_silent(body: str, tmp_path: Path) -> None:
    assert found(tmp_path, body) == []


def test_a_mark_that_is_taken_back_where_the_work_failed_is_no_lock(tmp_path: Path) -> None:
    body = """
    def tell(text):
        if not client.set("told", text, nx=True, ex=60):
            return
        sent = send(text)
        if not sent and text:
            client.delete("told")
    """
    assert found(tmp_path, body) == []
    assert found(tmp_path / "lock", body.replace("told", "told-lock")) == ["CR301 6"]


@pytest.mark.parametrize(
    ("life", "every", "lost"),
    [("timeout=3600", "minutes=15", 4), ("timeout=901", "minutes=15", 1), ("timeout=900", "minutes=15", None)],
)
def test_the_time_to_live_of_a_lock_is_held_against_the_interval_of_its_job(
    life: str, every: str, lost: int | None, tmp_path: Path
) -> None:
    code = f"""
from apscheduler.schedulers.background import BackgroundScheduler
def sync():
    with client.lock("sync", {life}):
        work()
scheduler = BackgroundScheduler(timezone="UTC")
scheduler.add_job(sync, "interval", {every})
"""
    found = [one for one in report_on(tmp_path, {"app.py": HEAD + code}).findings if one.rule == "CR306"]
    assert [one.message.rpartition("next ")[2] for one in found] == (
        [f"{lost} find it taken, and are lost"] if lost else []
    )


def test_a_lock_is_freed_in_another_function_under_another_name_of_the_client(tmp_path: Path) -> None:
    body = """
    def acquire(stage):
        return client.set(f"lock:{stage}", 1, nx=True, ex=60)

    def release(stage, holder):
        holder.delete(f"lock:{stage}")
    """
    assert found(tmp_path, body) == ["CR301 5"]
