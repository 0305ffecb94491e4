"""The address where a process listens."""

import re
import socket

import pytest

from cronce.cli import main
from cronce.cli.listening import read_address
from cronce.errors import BadInput


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("8080", ("127.0.0.1", 8080)),
        (":8080", ("127.0.0.1", 8080)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::]:80", ("::", 80)),
        ("localhost:0", ("localhost", 0)),
    ],
)
def test_a_port_alone_is_this_machines_own(text: str, address: tuple[str, int]) -> None:
    assert read_address(text) == address


@pytest.mark.parametrize("text", ["", "here", "0.0.0.0", "0.0.0.0:http", "65536", "::1:80", "[::1:80", "80²", "-1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(
        BadInput, match=re.escape("--health must be a port or HOST:PORT (8080, 0.0.0.0:8080, [::]:8080)")
    ):
        read_address(text)


def test_an_address_that_cannot_be_had_is_refused_before_anything_starts(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["run", "nosuch:app", "--health", str(port)]) == 1
    said = f"cronce run: --health cannot listen on 127.0.0.1, port {port}: Address already in use\n"
    assert capsys.readouterr().err == said
