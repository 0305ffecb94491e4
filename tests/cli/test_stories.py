"""Four stories of new users, at a terminal, on real stores: each step where somebody stumbled once."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cronce import Cronce
from cronce.cli import main
from cronce.model import Mark, Write
from cronce.protocol.record import Outcome, Record, State, encode
from cronce.runtime.queries import slot_named
from tests.house.wait import wait_until
from tests.servers.postgres import Postgres

SCRIPTS = Path(sys.executable).parent


class Terminal:
    """A folder, and a store that the environment names."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.folder, self.url = folder, f"sqlite:///{folder}/cronce.db"
        self._capsys, self._patch = capsys, patch
        patch.chdir(folder)
        patch.setenv("PATH", f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}")

    def type(self, line: str, code: int = 0, *, url: str = "") -> tuple[str, str]:
        """A command of ours, in this process: what it says, and what it says on standard error."""
        self._patch.setenv("CRONCE_URL", url or self.url)
        self._capsys.readouterr()
        try:
            ended = main(shlex.split(line)[1:])
        except SystemExit as end:
            ended = int(str(end.code))
        assert (ended, line) == (code, line)
        return self._capsys.readouterr()

    def start(self, line: str, code: int = 0, **env: str) -> tuple[str, str]:
        """Any command, in a process of its own, as cron starts one: with no environment but this."""
        env |= {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        done = subprocess.run(["sh", "-c", line], env=env, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, line) == (code, line), done.stdout + done.stderr
        return done.stdout, done.stderr


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    return Terminal(tmp_path, capsys, monkeypatch)


def test_crontabs_on_two_hosts(terminal: Terminal, postgres: Postgres) -> None:
    """Wrapped, checked as cron runs it, run by both hosts; and the one that comes second to a failure says so."""
    terminal.url = f"{postgres.url}{'&' if '?' in postgres.url else '?'}schema=two_hosts_{os.getpid()}"
    crontab = terminal.folder / "cron.d" / "shop"
    crontab.parent.mkdir()
    crontab.write_text(
        f"CRONCE_URL={terminal.url}\n"
        "17 * * * * root cd / && run-parts --report /etc/cron.hourly\n"
        f"*/15 * * * * root {terminal.folder}/sync.sh\n"
    )
    (terminal.folder / "sync.sh").write_text("#!/bin/sh\necho synced >> synced\nexit 3\n")
    (terminal.folder / "sync.sh").chmod(0o755)
    told, _ = terminal.type("cronce deploy crontab wrap --tz UTC --yes --file cron.d/shop")
    assert (
        "line 2 stays as it is: run-parts --report /etc/cron.hourly maintains one host, so it must run on every host"
        in told
    )
    line = crontab.read_text().splitlines()[2].split("root ", 1)[1]
    found, _ = terminal.type("cronce doctor --crontab cron.d/shop", url="sqlite:///elsewhere.db")
    assert re.search(r"crontab +line 3 uses postgresql://", found)
    assert "this shell uses another store, sqlite:///elsewhere.db" in found
    assert not (terminal.folder / "elsewhere.db").exists()
    assert terminal.start(line, 3, CRONCE_URL=terminal.url) == ("", "")
    _, said = terminal.start(line, 76, CRONCE_URL=terminal.url)
    assert re.search(
        r"failed already \(exit code 3, on \S+\)\. It was not run again\. Run it again: `cronce rerun \S+`\. Why: `",
        said,
    )
    assert (terminal.folder / "synced").read_text() == "synced\n"
    shown, _ = terminal.type("cronce status")
    who = r"sync.sh-\w+ \(\*/15 \* \* \* \*\) +ran (just now|\S+ ago), next in "
    assert re.search(rf"schedulers\n  called from \S+  {who}", shown)
    (guest,) = json.loads(terminal.type("cronce status --json")[0])["guests"]
    assert [one["schedule"] for one in guest["next"]] == ["*/15 * * * *"]
    assert ", 0 duplicates prevented, " in shown  # it failed: a second run would not have been a duplicate
    (job,) = json.loads(terminal.type("cronce jobs --json")[0])["jobs"]
    assert "prevented" not in terminal.type(f"cronce show {job['job']}")[0]
    forgot = terminal.type("cronce exec sync --schedule @daily echo hi", 2)[1]
    assert "the command goes after two dashes" in forgot


APSCHEDULER = """
import threading
from apscheduler.schedulers.background import BackgroundScheduler
from cronce import Cronce
from cronce.integrations.apscheduler import protect
cron, ran = Cronce(), threading.Event()
scheduler = BackgroundScheduler(timezone="UTC", job_defaults={"misfire_grace_time": 60})
protect(scheduler, cron)
scheduler.add_job(ran.set, "interval", seconds=1, id="reports")
scheduler.start()
ran.wait(30)
scheduler.shutdown()
(run, *_) = cron.look.runs("reports", state="succeeded")
assert cron.look.why(run["slot"])["slots"][0]["run"] == run
print(run["slot"], cron.look.status()["attention"]["count"])
"""


def test_apscheduler_in_a_web_server(terminal: Terminal) -> None:
    """The application looks at its own runs, in the words of the command line."""
    assert "nothing has run yet" in terminal.type("cronce status", 1)[1]
    (terminal.folder / "app.py").write_text(APSCHEDULER)
    slot, wrong = terminal.start("python app.py", CRONCE_URL=terminal.url)[0].split()
    assert wrong == "0"
    assert slot in terminal.type("cronce history reports")[0]
    assert json.loads(terminal.type(f"cronce show {slot} --json")[0])["slots"][0]["slot"] == slot


APP = """
from cronce import Cronce
cron = Cronce()

@cron.job("0 * * * *", name="billing", retries=1, backoff="1s")
def billing():
    pass
"""


def test_a_cluster_with_a_backfill(terminal: Terminal) -> None:
    """A backfill of last month stands on top of what ran, and is the last run."""
    (terminal.folder / "app.py").write_text(APP)
    env = {**os.environ, "CRONCE_URL": terminal.url}
    words = [sys.executable, "-m", "cronce", "run", "app:cron", "-n", "2", "--label", "colour=blue"]
    run = subprocess.Popen(words, cwd=terminal.folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        store = terminal.folder / "cronce.db"
        wait_until(lambda: store.exists() and store.stat().st_size > 0)
        wait_until(lambda: '"carried": true' in terminal.type("cronce jobs --json")[0])
        told, _ = terminal.type("cronce rerun billing --from 2026-03-01T00:00:00Z --to 2026-03-01T03:00:00Z")
        assert told.splitlines() == [
            "billing: 3 slots; 0 succeeded, 0 open, 0 failed in an earlier backfill; 3 to run",
            "3 succeeded",
        ]
        hours = [f"billing@2026-03-01T0{hour}:00:00Z#backfill" for hour in range(3)]
        ran = json.loads(terminal.type("cronce runs billing -n 3 --json")[0])["runs"]
        assert sorted(one["slot"] for one in ran) == hours
        (job,) = json.loads(terminal.type("cronce jobs --json")[0])["jobs"]
        assert job["last"]["slot"] in hours
        asked = terminal.type("cronce cancel billing@2026-01-01T00:00:00Z", 1)[1]
        assert "there is no record of billing@2026-01-01T00:00:00Z; nothing to cancel" in asked
        paused, _ = terminal.type("cronce pause --label colour=blue --reason 'green takes over'")
        assert paused.startswith("colour=blue takes no new work: paused by ")
        key, obstacle = terminal.type("cronce trigger billing")
        assert obstacle == (
            "cronce trigger: it will not start yet: no live scheduler runs billing; start `cronce run app:cron`\n"
        )
        terminal.type("cronce resume --label colour=blue")
        wait_until(lambda: '"succeeded"' in terminal.type(f"cronce why {key.strip()} --json")[0])
    finally:
        run.send_signal(signal.SIGTERM)
        assert run.wait(60) == 0


def test_an_alert_at_night(terminal: Terminal) -> None:
    """What is wrong stands on one screen, with commands that work as they stand there."""
    slot = slot_named("billing@2026-03-28T00:00:00Z")
    lost = Record(State.CLOSED, 1, "n", "web-1:1:a", started=slot.at, outcome=Outcome.LOST, reason="its host died")
    with Cronce(terminal.url) as cron:
        cron.job("@daily", name="billing")(lambda: None)()
        store = cron.at_work().node.store
        store.swap([Write(slot.cell, 0, encode(lost), at=slot.at, mark=Mark.ATTENTION)], store.load([]).epoch.seen)
    shown, _ = terminal.type("cronce status")
    listed, _ = terminal.type("cronce resolve")
    assert re.search(rf"{slot.key} +lost +its host died", listed)
    command = next(line for line in shown.splitlines() if slot.key in line).split("  ")[-1].strip(" `")
    assert command == f"cronce why {slot.key}"
    terminal.type(command)
    assert "add what you found out: `cronce resolve" in terminal.type(f"cronce resolve {slot.key}", 2)[1]
    terminal.type(f"cronce resolve {slot.key} done --reason 'all mails are there'")
    assert "wrong  nothing known; no watcher runs, so missed slots are not checked" in terminal.type("cronce status")[0]
    assert "nothing is in doubt in " in terminal.type("cronce resolve")[0]
