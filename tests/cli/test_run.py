"""cronce run, as far as it is about words; how it runs jobs is told with the scheduler."""

import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cronce.cli import main
from cronce.cli.run import _log
from cronce.runtime.log import LOGGER


@pytest.mark.parametrize(
    ("app", "meant"),
    [("ok.py:cron", "ok:cron"), ("./shop/jobs.py:cron", "shop.jobs:cron"), ("shop/jobs:c", "shop.jobs:c")],
)
def test_whoever_names_a_file_is_told_its_module(app: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", app]) == 2
    file = app.partition(":")[0]
    assert capsys.readouterr().err == f"cronce run: {file} is a file; name its module: {meant}\n"


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


@pytest.fixture(autouse=True)
def kept_level() -> Iterator[None]:
    """Of our logger, which `cronce run` sets."""
    level = LOGGER.level
    yield
    LOGGER.setLevel(level)


def bare_root(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """The logger of all, as in a process where nobody has set it up."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", logging.WARNING)
    return root


def test_what_a_job_logs_is_shown_where_the_application_has_not_set_up_logging(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = bare_root(monkeypatch)
    _log(verbose=False, as_json=False)
    logging.getLogger("shop").info("412 invoices")
    logging.getLogger("shop").debug("one by one")
    assert [line.split(" ", 2)[2] for line in capsys.readouterr().err.splitlines()] == ["INFO 412 invoices"]
    assert root.level == logging.INFO


def test_an_application_that_has_set_up_logging_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = bare_root(monkeypatch)
    logging.basicConfig(format="%(message)s", level=logging.ERROR)
    _log(verbose=False, as_json=False)
    logging.getLogger("shop").info("412 invoices")
    logging.getLogger("shop").error("no more paper")
    assert capsys.readouterr().err == "no more paper\n"
    assert root.level == logging.ERROR
