"""What the doctor asks of an etcd."""

from contextlib import closing

import pytest

from cronce.stores import open_store
from cronce.stores.etcd import init
from cronce.stores.etcd.checks import _version
from tests.servers.etcd import Etcd
from tests.stores.etcd.opening import checked


def test_the_doctor_looks_at_members_room_alarms_and_namespaces(own: Etcd) -> None:
    own.ctl("put", "unrelated", "x")
    own.ctl("put", "z/meta", "[]")
    init(f"{own.url}?namespace=second")
    with closing(open_store(f"{own.url},127.0.0.1:9")) as store:
        found = {f"{check.name} {check.verdict}": check.says for check in checked(store)}
    assert list(found) == [
        "endpoint ok", "endpoint warn", "version warn", "room ok", "members warn", "alarms ok", "compaction ok",
        "namespaces warn", "clock ok",
    ]  # fmt: skip
    assert found["namespaces warn"] == "there are other stores beside it: second; a job runs once in each of them"
    assert found["compaction ok"].startswith("none of ")
    assert "Connection refused" in found["endpoint warn"]
    assert found["members warn"] == "one member: if it is lost, the store is lost"


@pytest.mark.parametrize(
    ("versions", "verdict"),
    [
        (["3.3.27"], "error"),
        (["3.4.22"], "warn"),
        (["3.4.23"], "ok"),
        (["3.5.6"], "warn"),
        (["3.5.7", "3.5.10"], "ok"),
        (["3.5.10", "3.5.6"], "warn"),
        (["3.6.0-rc.1"], "ok"),
    ],
)
def test_versions_that_a_client_can_crash_are_told(versions: list[str], verdict: str) -> None:
    assert _version([{"version": version} for version in versions]).verdict == verdict
