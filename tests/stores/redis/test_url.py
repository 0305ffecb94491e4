"""What the URL of a Redis store may say."""

from typing import Any

import pytest
from redis.connection import URL_QUERY_ARGUMENT_PARSERS

from cronce.errors import (
    BadInput,
)
from cronce.stores import open_store
from cronce.stores.redis.url import INSTEAD, URL_OPTIONS, Login, RedisAddress, Tls, read_url

# --- URLs -----------------------------------------------------------------------------------------------------------


def test_a_url_says_where_and_how() -> None:
    place = read_url(
        "rediss://app:s%40cret@cache:6380/3?namespace=shop&timeout=2.5&min_replicas=1&ssl_ca_certs=/ca.pem"
    )
    assert place == RedisAddress(
        url="rediss://app:***@cache:6380/3?namespace=shop&timeout=2.5&min_replicas=1&ssl_ca_certs=/ca.pem",
        addresses=(("cache", 6380),), login=Login("app", "s@cret"), db=3, namespace="shop", timeout=2.5, min_replicas=1,
        sentinel="", sentinel_login=Login(), cluster=False, tls=Tls(ca="/ca.pem"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("url", "addresses", "db"),
    [
        ("redis://", (("localhost", 6379),), 0),
        ("valkey://cache", (("cache", 6379),), 0),
        ("redis:///2", (("localhost", 6379),), 2),
        ("redis://[::1]:7000/1", (("::1", 7000),), 1),
        ("redis://:secret@/run/redis.sock?db=4", ("/run/redis.sock",), 4),
        ("redis://a,b:7000,c/?cluster=true", (("a", 6379), ("b", 7000), ("c", 6379)), 0),
        ("redis://a,b:7000/1?sentinel=main", (("a", 26379), ("b", 7000)), 1),
    ],
)
def test_hosts_sockets_and_databases(url: str, addresses: tuple[Any, ...], db: int) -> None:
    place = read_url(url)
    assert (place.addresses, place.db) == (addresses, db)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://host/x", "not the number of a database"),
        ("redis://host:port/", "not a host and a port"),
        ("redis://host/?speed=high", "redis knows no speed; it knows cluster, db"),
        ("redis://host/?socket_timeout=1&protocol=3", "redis knows no protocol, socket_timeout; it knows cluster, db"),
        ("redis://host/?socket_connect_timeout=1", "socket_connect_timeout: timeout=SECONDS is for both"),
        ("redis://host/?decode_responses=true", "decode_responses: leave it out: cronce takes care of that"),
        ("rediss://host/?ssl_check_hostname=false", "ssl_check_hostname: ssl_ca_certs=FILE says whom to trust"),
        ("redis://u:hush@host/?timeout=soon", r"u:\*\*\*@host.*timeout=soon is not a number of seconds"),
        ("redis://host/?timeout=-1", "timeout=-1 is not a number of seconds"),
        ("redis://host/?min_replicas=many", "min_replicas=many is not a number of replicas"),
        ("redis://host/?min_replicas=1.5", "min_replicas=1.5 is not a number of replicas"),
        ("redis://host/?min_replicas=201", "min_replicas=201 is not a number of replicas"),
        ("redis://host/²", "'²' is not the number of a database"),
        ("redis://host/?cluster=yes", "write cluster=true"),
        ("redis://host/1?cluster=true", "a Cluster has only database 0"),
        ("redis://host/?cluster=true&sentinel=main", "Give sentinel or cluster, not both"),
        ("redis://host/?namespace=a{b", "cannot be a namespace"),
        ("redis://host/?namespace=", "cannot be a namespace"),
        ("rediss://host/?ssl_cert_reqs=maybe", "ssl_cert_reqs=none"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(url: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        open_store(url)


# --- servers that fail ----------------------------------------------------------------------------------------------


def test_every_option_that_redis_py_takes_from_a_url_is_understood_or_says_what_to_write() -> None:
    assert set(URL_QUERY_ARGUMENT_PARSERS) - set(URL_OPTIONS) <= INSTEAD.keys()
    assert not INSTEAD.keys() & set(URL_OPTIONS)
