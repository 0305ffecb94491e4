"""cronce run, as far as it is about words; how it runs jobs is told with the scheduler."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cronce.cli import main


@pytest.mark.parametrize(
    ("app", "meant"),
    [("ok.py:cron", "ok:cron"), ("./shop/jobs.py:cron", "shop.jobs:cron"), ("shop/jobs:c", "shop.jobs:c")],
)
def test_whoever_names_a_file_is_told_its_module(app: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", app]) == 2
    file = app.partition(":")[0]
    assert capsys.readouterr().err == f"cronce run: {file} is a file, and its module is meant: write {meant}\n"


def test_a_banner_is_one_write_so_that_those_of_several_processes_do_not_mix(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("from cronce import Cronce\n\ncron = Cronce('sqlite:///cronce.db')\n")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # each write is a packet of its own
    ours.settimeout(60)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    words = [sys.executable, "-m", "cronce", "run", "app:cron"]
    with ours, theirs, subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=theirs.fileno()) as process:
        banner = ours.recv(65_536).decode()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert banner.startswith("cronce run: app:cron on sqlite:///")
    assert banner.endswith("\n")
