"""The advice of an alert is followed to the letter, by running its commands: afterwards all is well."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from shlex import split
from typing import Any, Final

import pytest

from cronce.cli import main
from tests.house.wait import wait_until

APP: Final = """
import os
import signal
from pathlib import Path

from cronce import Cronce

cron = Cronce("sqlite:///cronce.db")


def charge(number):
    if number == 7 and not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    with Path("charged").open("a") as log:
        log.write(f"{number}\\n")


@cron.job(at="2100-01-01T00:00:00Z", on_lost="rerun", lease="2s")
def billing(run):
    for number in range(8):
        run.once(f"charge:{number}", charge, number, per="slot")
"""


class Firm:
    """Two schedulers, of which one is killed in the midst of an effect."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.schedulers = [self._start("run", "app:cron", "--grace", "1s") for _ in range(2)]

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen([sys.executable, "-m", "cronce", *words], cwd=self.folder, stdout=log, stderr=log)

    def cronce(self, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        """In this process: it is called often."""
        printed = StringIO()
        with redirect_stdout(printed):
            assert main([*words, "--store", f"sqlite:///{self.folder}/cronce.db"]) in codes, printed.getvalue()
        return printed.getvalue()

    def state(self, slot: str = "") -> str:
        runs = json.loads(self.cronce("runs", "billing", "--json"))["runs"]
        return next((str(one["outcome"] or one["state"]) for one in runs if slot in one["slot"]), "")

    def alerts(self) -> list[dict[str, Any]]:
        """About the job: of the scheduler that died there is another."""
        found: list[dict[str, Any]] = json.loads(self.cronce("watch", "--once", "--json", codes=(0, 1)))["alerts"]
        return [one for one in found if one["subject"] == "billing"]

    @property
    def charged(self) -> list[str]:
        return (self.folder / "charged").read_text().split()


@pytest.fixture
def firm(tmp_path: Path) -> Iterator[Firm]:
    (tmp_path / "app.py").write_text(APP)
    firm = Firm(tmp_path)
    yield firm
    for one in firm.schedulers:
        one.kill()
        one.wait()


def test_what_is_advised_for_seven_effects_done_and_one_in_doubt_really_helps(firm: Firm) -> None:
    """It said `cronce resolve SLOT retry`, which exits 0 and is stopped by the same effect again; and one cause gave
    two critical alerts."""
    wait_until(lambda: "billing" in firm.cronce("jobs", codes=(0, 1)))
    firm.cronce("trigger", "billing")
    wait_until(lambda: firm.state() == "unknown")
    (alert,) = firm.alerts()
    assert (alert["kind"], len(alert["slots"]), len(alert["effects"])) == ("unknown", 1, 1)
    assert firm.charged == list("0123456")
    first, then = re.findall(r"`cronce (resolve [^`]+)`", alert["remedy"])
    assert (split(first)[1:], split(then)[1:]) == ([alert["effects"][0], "done"], [alert["slots"][0], "retry"])
    firm.cronce(*split(first)[:-1], "retry")  # it did not happen, as the log shows
    firm.cronce(*split(then))
    wait_until(lambda: firm.state() == "succeeded")
    assert firm.charged == list("01234567")
    assert firm.alerts() == []
