"""What the doctor is told of a connection, in words; on real servers below."""

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from cronce.stores import open_store
from cronce.stores.checks import Check, connection, ok, warn
from cronce.stores.postgres import PostgresStore
from tests.servers.postgres import PgBouncer, Postgres
from tests.servers.process import NOBODY
from tests.servers.tls import without_key_identifier
from tests.stores.places import name_of


@pytest.mark.parametrize(("host", "verified", "encrypted", "check"), [
    ("db", "as it must be", True, ok("connection", "encrypted, and verified: as it must be")),
    ("db", "", True, warn("connection", "to db: encrypted, but not verified: another server could answer", "do")),
    ("db", "as it must be", False, warn("connection", "to db: not encrypted, and not verified", "do")),
    ("localhost", "", False, ok("connection", "within this machine; not encrypted, and not verified")),
    ("/run/db", "", False, ok("connection", "within this machine; not encrypted, and not verified")),
])  # fmt: skip
def test_a_connection_that_is_not_verified_is_a_warning_unless_it_stays_within_the_machine(
    host: str, verified: str, encrypted: bool, check: Check
) -> None:
    assert connection(host, verified, "do", encrypted=encrypted) == check


def test_the_doctor_says_whether_the_connection_to_postgresql_is_verified(postgres: Postgres, tmp_path: Path) -> None:
    """By way of PgBouncer: the server of the tests was built without TLS."""
    ca, *made = without_key_identifier(tmp_path)
    with_tls = PgBouncer(postgres)
    settings = with_tls.directory / "pgbouncer.ini"
    for file, name in zip(made, ("cert", "key"), strict=True):
        copy = Path(shutil.copy(file, with_tls.directory))
        os.chown(copy, *((NOBODY, NOBODY) if with_tls.demoted else (-1, -1)))
        settings.write_text(f"{settings.read_text()}client_tls_{name}_file = {copy}\n")
    settings.write_text(f"{settings.read_text()}client_tls_sslmode = allow\n")
    with with_tls as server:
        url = f"{server.url.replace('127.0.0.1', 'localhost')}?schema={name_of(tmp_path)}"
        assert told(f"{url}&sslmode=disable") == "within this machine; not encrypted, and not verified"
        assert told(f"{url}&sslmode=require") == (
            "within this machine; encrypted, but not verified: another server could answer"
        )
        assert told(f"{url}&sslmode=require&sslrootcert={ca}").endswith("is not checked (verify-ca)")
        assert told(f"{url}&sslmode=verify-full&sslrootcert={ca}") == (
            "encrypted, and verified: its certificate is signed by sslrootcert, and names the host (verify-full)"
        )


def told(url: str) -> str:
    with closing(open_store(url)) as store:
        assert isinstance(store, PostgresStore)
        (check,) = [check for check in store.checks() if check.name == "connection"]
        assert check.verdict == "ok"
        return check.says
