"""Whether a shell stays process 1."""

import shutil
import subprocess
from pathlib import Path

import pytest

from cronce_audit.containers.shell import line, stays

TEXTS = (
    "PROGRAM", "cd / && PROGRAM", "true; PROGRAM", "A=1 PROGRAM", "exec PROGRAM", "cd / && exec PROGRAM",
    "PROGRAM; true", "PROGRAM && true", "PROGRAM || true", "PROGRAM | cat", "exec PROGRAM | cat", "PROGRAM 2>/dev/null",
    "true | PROGRAM",
)  # fmt: skip


def test_a_shell_stays_process_1_exactly_where_we_say_so(tmp_path: Path) -> None:
    """The program tells its own process id: that of the shell, if the shell made way for it. For the last of a text
    that depends on the shell."""
    shell = shutil.which("dash") or shutil.which("bash")
    assert shell is not None
    tells = tmp_path / "program"
    tells.write_text("#!/bin/sh\necho $$\n")
    tells.chmod(0o755)
    for text in TEXTS:
        read = line(text)
        (command,) = (one for one in read.commands if one.words == ("PROGRAM",))
        with subprocess.Popen([shell, "-c", text.replace("PROGRAM", str(tells))], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            measured = int(process.stdout.read()) != process.pid
        assert stays(read, command) in (measured, None), text
    assert [text for text in TEXTS if stays(line(text), line(text).commands[-1]) is None]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a && b", True), ("a $(b; c) && d", True), ("while true; do a; done", False), ("(a; b)", False),
        ("if a; then b; fi", False), ("a 'unclosed", False), ("{ a; }", False),
    ],
)  # fmt: skip
def test_loops_and_branches_are_not_taken_for_commands_in_a_row(text: str, plain: bool) -> None:
    assert line(text).plain is plain
