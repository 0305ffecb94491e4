"""The same store by way of a proxy, or why that cannot be."""

from pathlib import Path

import pytest

from cronce.torture.route import HostPort, address, through


@pytest.mark.parametrize(
    ("url", "host", "port", "by_proxy"),
    [
        ("postgresql://me:pw@db:6432/app?schema=x", "db", 6432, "postgresql://me:pw@127.0.0.1:7/app?schema=x"),
        ("postgres://db/app", "db", 5432, "postgres://127.0.0.1:7/app"),
        ("postgresql://db/app?sslmode=require", "db", 5432, "postgresql://127.0.0.1:7/app?sslmode=require"),
        ("redis://:p%40w@cache/3", "cache", 6379, "redis://:p%40w@127.0.0.1:7/3"),
        ("valkey://[::1]:6380/0", "::1", 6380, "valkey://127.0.0.1:7/0"),
        ("mysql://root@db/cronce", "db", 3306, "mysql://root@127.0.0.1:7/cronce"),
        ("mariadb://root@db/cronce", "db", 3306, "mariadb://root@127.0.0.1:7/cronce"),
        ("etcd://node", "node", 2379, "etcd://127.0.0.1:7"),
    ],
)
def test_a_store_that_is_reached_by_tcp(url: str, host: str, port: int, by_proxy: str) -> None:
    assert address(url) == HostPort(host, port)
    assert through(url, 7) == by_proxy


@pytest.mark.parametrize(
    ("server", "host", "port"), [("https://api.example:6443", "api.example", 6443), ("http://[::1]/path", "::1", 80)]
)
def test_the_api_server_of_a_kubeconfig_is_reached_by_tcp(tmp_path: Path, server: str, host: str, port: int) -> None:
    """It was left out, as a store that is no server."""
    file = tmp_path / "kubeconfig"
    file.write_text(
        f"current-context: here\ncontexts: [{{name: here, context: {{cluster: ours}}}}]\n"
        f"clusters: [{{name: ours, cluster: {{server: '{server}'}}}}]\n"
    )
    url = f"kubernetes://jobs?kubeconfig={file}"
    assert address(url) == HostPort(host, port)
    assert through(url, 7) == f"{url}&via=127.0.0.1:7"
    assert address(through(url, 7)) == "the option via bypasses a proxy"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("sqlite:///cronce.db", "a sqlite: store is not reached by TCP"),
        ("rediss://cache", "the connection is encrypted, and checks the identity of the server"),
        ("ETCDS://node", "the connection is encrypted, and checks the identity of the server"),
        ("etcds://node", "the connection is encrypted, and checks the identity of the server"),
        (
            "postgresql://db/app?sslmode=verify-full",
            "the connection is encrypted, and checks the identity of the server",
        ),
        ("mysql://db/app?ssl_ca=ca.pem", "the connection is encrypted, and checks the identity of the server"),
        ("mysql://db/app?unix_socket=/run/my.sock", "the option unix_socket bypasses a proxy"),
        ("redis://a/0?sentinel=main", "the option sentinel bypasses a proxy"),
        ("redis://a/0?cluster=true", "the option cluster bypasses a proxy"),
        ("postgresql:///app?host=/run/postgresql", "the option host bypasses a proxy"),
        ("postgresql:///app", "the URL names no host"),
        ("postgresql://a,b/app", "the URL names several hosts"),
        ("etcd://a:2379,b:2379", "the URL names several hosts"),
    ],
)
def test_a_store_that_nothing_can_stand_before(url: str, why: str) -> None:
    assert address(url) == why
