"""The session behind advisory locks: whose it is, what the server knows of it, and how its end is noticed."""

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack, closing
from hashlib import blake2b
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cronce.errors import BadInput, StoreReadOnly, StoreUnavailable, StoreUnusable
from cronce.stores.postgres.session import SERVER_SETTINGS, AdvisorySession, key_of
from tests.house.markdown import blocks
from tests.servers.postgres import Admin, PgBouncer, Postgres, backends

PAGE = Path(__file__).parents[2] / "docs/how-to/advisory-locks.md"
Question = Callable[[AdvisorySession, int], bool]


@pytest.fixture
def key(request: pytest.FixtureRequest) -> int:
    return key_of(request.node.name)


def test_keys_are_signed_64_bits_of_a_real_hash_of_the_name() -> None:
    digest = blake2b(b"cronce/public/lock/reindex", digest_size=8).digest()
    assert key_of("reindex") == int.from_bytes(digest, "big", signed=True) == -1089961876800773546
    keys = [key_of(f"job-{number}", schema) for number in range(5000) for schema in ("public", "team")]
    assert len(set(keys)) == 10_000
    assert all(-(1 << 63) <= key < 1 << 63 for key in keys)
    assert {key < 0 for key in keys} == {True, False}
    assert min(map(abs, keys)) > 1 << 32, "nowhere near the small numbers that people choose"


def test_the_page_computes_the_number_as_the_code_does() -> None:
    """It said: the first 8 bytes of BLAKE2b, which is another number. A program that followed it excluded nobody."""
    (code,) = [block.text for block in blocks(PAGE.read_text(encoding="utf-8")) if "blake2b" in block.text]
    for schema, name in (("public", "reindex"), ("team", "nightly")):
        known: dict[str, int] = {}
        exec(code.replace('"public", "reindex"', f'"{schema}", "{name}"'), known)
        assert known["key"] == key_of(name, schema)


@pytest.mark.parametrize("key", [0, -1, 1001, (1 << 63) - 1, -(1 << 63)])
def test_every_bigint_is_a_key_and_the_server_knows_it_by_that_number(
    postgres: Postgres, admin: Admin, key: int
) -> None:
    with closing(AdvisorySession(postgres.url, "web-1")) as session:
        assert session.try_lock(key)
        assert admin.execute("SELECT pg_try_advisory_lock(%s)", (key,)).fetchone() == (False,)
        (process,) = backends(admin, key)
        assert session.who_has(key) == f"web-1 (backend {process}, from 127.0.0.1)"
        assert session.unlock(key)
        assert not session.unlock(key), "what is not held is not given back"
        assert session.who_has(key) == "a session that has just released it"


def test_who_has_it_is_asked_of_this_database_only(postgres: Postgres, admin: Admin, key: int) -> None:
    admin.execute("DROP DATABASE IF EXISTS neighbour")
    admin.execute("CREATE DATABASE neighbour")
    with (
        psycopg.connect(postgres.url, dbname="neighbour", autocommit=True) as neighbour,
        closing(AdvisorySession(postgres.url, "web-1")) as session,
    ):
        neighbour.execute("SELECT pg_advisory_lock(%s)", (key,))
        assert session.who_has(key) == "a session that has just released it"
        assert session.try_lock(key)


def test_the_server_is_told_to_give_up_a_client_that_went_silent(postgres: Postgres) -> None:
    with closing(AdvisorySession(postgres.url, "web-1")) as session:
        found = {name: session._ask("SELECT current_setting(%s)", [name]) for name in SERVER_SETTINGS}
    assert found == {
        "tcp_keepalives_idle": ("10",),
        "tcp_keepalives_interval": ("5",),
        "tcp_keepalives_count": ("4",),
        "tcp_user_timeout": ("30000",),
        "idle_session_timeout": ("0",),
    }


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_a_pooler_is_refused_even_if_it_has_only_one_session_to_give(postgres: Postgres, mode: str) -> None:
    refused = pytest.raises(StoreUnusable, match=r"is a pooler \(PgBouncer or its like\).*URL of the server itself")
    with PgBouncer(postgres, mode, size=1) as pooler, refused:
        AdvisorySession(pooler.url, "web-1")


def test_a_standby_is_refused() -> None:
    """Its locks are its own: whoever asks the primary gets the same one."""
    server = Postgres(hot_standby="on")
    (server.data / "standby.signal").touch()
    if server.demoted:
        os.chown(server.data / "standby.signal", 65534, 65534)
    server._answers = lambda server: not psycopg.connect(server.url, connect_timeout=5).close()  # type: ignore[func-returns-value]
    refused = pytest.raises(StoreReadOnly, match="is a standby: a lock on it does not exclude clients of the primary")
    with server, refused:
        AdvisorySession(server.url, "web-1")


def stopped(admin: Admin, process: int) -> Callable[[], object]:
    os.kill(process, signal.SIGSTOP)
    return lambda: os.kill(process, signal.SIGCONT)


def terminated(admin: Admin, process: int) -> Callable[[], object]:
    admin.execute("SELECT pg_terminate_backend(%s, 10000)", (process,))
    return lambda: None


@pytest.mark.parametrize(
    ("end", "stirs", "why"),
    [
        (terminated, True, "{}: terminating connection due to administrator command"),
        (stopped, False, "{} did not answer for 1 s"),
    ],
)
def test_the_end_of_a_session_is_noticed_and_it_stays_lost(
    postgres: Postgres, admin: Admin, key: int, end: Callable[[Admin, int], Callable[[], object]], stirs: bool, why: str
) -> None:
    with ExitStack() as stack, closing(AdvisorySession(f"{postgres.url}?timeout=1", "web-1")) as session:
        assert session.try_lock(key)
        assert not session.stirs(0.0)
        (process,) = backends(admin, key)
        stack.callback(end(admin, process))
        assert session.stirs(0.2) is stirs
        with pytest.raises(StoreUnavailable) as lost:
            session.beat()
        assert str(lost.value) == session.lost == why.format(f"{postgres.url}?timeout=1")
        for question in (session.beat, lambda: session.try_lock(key), lambda: session.unlock(key)):
            with pytest.raises(StoreUnavailable):
                question()


def test_a_session_that_went_on_with_another_process_is_lost(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a pooler that passes the first process's number on."""
    with closing(AdvisorySession(postgres.url, "web-1")) as session:
        monkeypatch.setattr("cronce.stores.postgres.session.CHECK_SESSION", "SELECT pg_backend_pid() + 1")
        with pytest.raises(StoreUnavailable, match="goes on with another session"):
            session.beat()
        assert session.lost


@pytest.mark.parametrize("question", [AdvisorySession.try_lock, AdvisorySession.unlock])
@pytest.mark.parametrize("asked", [True, False])
def test_whoever_is_interrupted_leaves_no_lock_behind(
    postgres: Postgres, admin: Admin, key: int, monkeypatch: pytest.MonkeyPatch, question: Question, asked: bool
) -> None:
    with closing(AdvisorySession(postgres.url, "web-1")) as session:
        execute = session._line.execute

        def interrupted(*what: Any) -> object:
            monkeypatch.setattr(session._line, "execute", execute)
            if asked:
                execute(*what)
            raise KeyboardInterrupt

        if question is AdvisorySession.unlock:
            assert session.try_lock(key)
        monkeypatch.setattr(session._line, "execute", interrupted)
        with pytest.raises(KeyboardInterrupt):
            question(session, key)
        assert backends(admin, key) == []
        session.beat()
        assert session.try_lock(key)


@pytest.mark.parametrize(
    ("url", "error", "words"),
    [
        ("postgresql://127.0.0.1:1/postgres", StoreUnavailable, "cannot be reached: .* refused"),
        (
            "postgresql://me:secret@127.0.0.1:1/postgres",
            StoreUnavailable,
            r"postgresql://me:\*\*\*@127.0.0.1:1/postgres cannot be reached",
        ),
        ("postgresql://127.0.0.1/?keepalive=1", BadInput, "there is no option"),
        ("postgresql://127.0.0.1/?timeout=soon", BadInput, "timeout=soon is not a number of seconds"),
        ("postgresql://127.0.0.1/?timeout=0", BadInput, "timeout=0 is not a number of seconds"),
    ],
)
def test_a_url_that_leads_nowhere_says_so(url: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as refused:
        AdvisorySession(url, "web-1")
    assert "secret" not in str(refused.value)
