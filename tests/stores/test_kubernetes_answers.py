"""Our API server answers as a real one was seen to: each request of `tests/servers/kubernetes_answers.py`, by HTTP."""

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.servers.kubernetes import Kubernetes
from tests.servers.kubernetes_answers import CREATES_AT_ONCE, PUTS_AT_ONCE, SEEN, Seen

Json = dict[str, Any]


@pytest.fixture(scope="module")
def server() -> Iterator[Kubernetes]:
    with Kubernetes() as server:
        server.terminating = {"going"}
        yield server


@pytest.fixture
def own(server: Kubernetes) -> Kubernetes:
    server.quota = None
    return server


def send(
    own: Kubernetes, method: str, namespace: str, name: str, body: Json, token: str = "secret"
) -> tuple[int, Json]:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases{name and f'/{name}'}"
    with closing(HTTPConnection(urlsplit(own.server).netloc)) as line:
        line.request(method, path, json.dumps(body), {"Authorization": f"Bearer {token}"} if token else {})
        response = line.getresponse()
        return response.status, json.loads(response.read())


def made(name: str) -> Json:
    return {"metadata": {"name": name}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}


@pytest.mark.parametrize("row", SEEN, ids=[row.what for row in SEEN])
def test_it_answers_as_a_real_one_was_seen_to(own: Kubernetes, row: Seen) -> None:
    name, read = f"lease-{SEEN.index(row)}", dict[str, Any]()
    own.quota = 0 if row.where == "full" else None
    if row.lease != "absent":
        status, read = send(own, "POST", "jobs", "", made(name))
        assert status == 201
    if row.lease == "changed":
        assert send(own, "PUT", "jobs", name, {**read, "spec": {**read["spec"], "holderIdentity": "b"}})[0] == 200
    if row.lease == "deleted":
        own.delete("jobs", name)
    status, answer = send(
        own, row.method, row.where, "" if row.method == "POST" else name, body(row, name, read), row.who
    )
    assert (status, answer.get("reason") if row.reason else "") == (row.status, row.reason)


def body(row: Seen, name: str, read: Json) -> Json:
    if row.method == "POST":
        return made(name)
    if row.method == "DELETE":
        return {"preconditions": {"resourceVersion": read["metadata"]["resourceVersion"]}}
    if row.method == "PATCH":
        stale = {"resourceVersion": read["metadata"]["resourceVersion"]} if row.meta else {}
        return {"metadata": stale, "spec": {"holderIdentity": "c"}}
    meta = {key: value for key, value in {**read["metadata"], **row.meta}.items() if value is not None}
    return {**read, "metadata": meta, "spec": {**read["spec"], "holderIdentity": "c", **row.spec}}


def test_an_identical_put_does_not_change_the_resource_version(own: Kubernetes) -> None:
    _, read = send(own, "POST", "jobs", "", made("identical"))
    assert send(own, "PUT", "jobs", "identical", read) == (200, read)


def test_of_many_creates_or_puts_at_once_one_wins(own: Kubernetes) -> None:
    with ThreadPoolExecutor(CREATES_AT_ONCE) as threads:
        creates = threads.map(lambda _: send(own, "POST", "jobs", "", made("race"))[0], range(CREATES_AT_ONCE))
        assert Counter(creates) == {201: 1, 409: CREATES_AT_ONCE - 1}
        read = own.get("jobs", "race")
        wishes = [{**read, "spec": {**read["spec"], "holderIdentity": f"h{number}"}} for number in range(PUTS_AT_ONCE)]
        puts = threads.map(lambda lease: send(own, "PUT", "jobs", "race", lease)[0], wishes)
        assert Counter(puts) == {200: 1, 409: PUTS_AT_ONCE - 1}
