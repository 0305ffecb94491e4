"""Which shell there is, and whether it stays process 1."""

import shutil
import subprocess
from pathlib import Path

import pytest

from cronce_audit.containers.shell import Kind, line, sh_of, stays


@pytest.mark.parametrize(
    ("image", "kind"),
    [
        ("python:3.12-slim", "dash"), ("python", "dash"), ("ubuntu:24.04", "dash"),
        ("docker.io/library/node:20", "dash"),
        ("python:3.12-alpine", "ash"), ("alpine@sha256:ab", "ash"), ("redis:7-alpine3.20", "ash"),
        ("registry.access.redhat.com/ubi9/python-312", None), ("amazonlinux:2023", "bash"), ("rockylinux:9", "bash"),
        ("quay.io/us/python", None), ("localhost:5000/python:3.12", None), ("us/app:1-bookworm", "dash"),
        ("us/app", None), ("${BASE}", None), ("python:${VERSION}", None),
    ],
)  # fmt: skip
def test_which_shell_sh_is_in_an_image(image: str, kind: Kind | None) -> None:
    assert sh_of(image) == kind


TEXTS = (
    "PROGRAM", "cd / && PROGRAM", "true; PROGRAM", "A=1 PROGRAM", "exec PROGRAM", "cd / && exec PROGRAM",
    "PROGRAM; true", "PROGRAM && true", "PROGRAM || true", "PROGRAM | cat", "exec PROGRAM | cat", "PROGRAM 2>/dev/null",
    "true | PROGRAM",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["dash", "bash"])
def test_a_shell_stays_process_1_exactly_where_we_say_so(kind: Kind, tmp_path: Path) -> None:
    """The program tells its own process id: that of the shell, if the shell made way for it."""
    shell = shutil.which(kind)
    if shell is None:
        pytest.skip(f"there is no {kind} here")
    tells = tmp_path / "program"
    tells.write_text("#!/bin/sh\necho $$\n")
    tells.chmod(0o755)
    said, measured = {}, {}
    for text in TEXTS:
        read = line(text)
        (command,) = (one for one in read.commands if one.words == ("PROGRAM",))
        said[text] = stays(read, command, kind)
        with subprocess.Popen([shell, "-c", text.replace("PROGRAM", str(tells))], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            measured[text] = int(process.stdout.read()) != process.pid
    assert said == measured


def test_busybox_makes_way_and_of_an_unknown_shell_only_exec_is_known() -> None:
    for text, ash, unknown in [
        ("PROGRAM", False, None),
        ("PROGRAM 2>/dev/null", False, None),
        ("exec PROGRAM", False, False),
        ("PROGRAM &", True, True),
        ("PROGRAM & exec other", True, True),
        ("PROGRAM | cat", True, True),
    ]:
        read = line(text)
        command = read.commands[0]
        assert (stays(read, command, "ash"), stays(read, command, None)) == (ash, unknown), text


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a && b", True), ("a $(b; c) && d", True), ("while true; do a; done", False), ("(a; b)", False),
        ("if a; then b; fi", False), ("a 'unclosed", False), ("{ a; }", False),
    ],
)  # fmt: skip
def test_loops_and_branches_are_not_taken_for_commands_in_a_row(text: str, plain: bool) -> None:
    assert line(text).plain is plain
