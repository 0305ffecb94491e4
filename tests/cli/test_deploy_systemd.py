"""cronce systemd: what is printed, what is written, what is refused."""

import json
import os
import shlex
from pathlib import Path

import pytest

from cronce.cli import main
from tests.house.needs import needs

CALL = ("systemd", "order-sync", "--schedule", "*/15 * * * *")
COMMAND = ("--", "/bin/sh", "-c", "echo '$HOME'")


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(words) == code
    out, err = capsys.readouterr()
    return err if code else out


def units(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(said(capsys, *CALL, *options, "--json", *COMMAND))["units"]
    return found


def test_the_service_runs_exec_with_what_was_said_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    made = units(capsys, "--on-lost", "rerun", "--tz", "UTC", "-v", "--grace", "1m", "--retries", "2", "--user", "ada")
    assert list(made) == ["cronce-order-sync.service", "cronce-order-sync.timer"]
    service = made["cronce-order-sync.service"]
    (line,) = [line for line in service.splitlines() if line.startswith("ExecStart=")]
    words = shlex.split(line.removeprefix("ExecStart="))
    assert words[0].endswith("/cronce")
    assert words[0].startswith("/")
    assert words[1:] == [
        "exec", "order-sync", "--schedule", "*/15 * * * *", "--on-lost", "rerun", "--retries", "2", "--grace", "1m",
        "--verbose", "--", "/bin/sh", "-c", "echo '$$HOME'",
    ]  # fmt: skip
    assert "TimeoutStopSec=65s" in service
    assert "User=ada" in service
    assert "OnCalendar=*-*-* *:00,15,30,45:00 UTC\n" in made["cronce-order-sync.timer"]
    assert "User=" not in units(capsys)["cronce-order-sync.service"]


def test_both_files_are_printed_or_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = units(capsys)
    printed = said(capsys, *CALL, *COMMAND)
    assert printed == "\n".join(f"# --- {name} ---\n{text}" for name, text in made.items())
    out = said(capsys, *CALL, "--directory", str(tmp_path), *COMMAND)
    assert out.splitlines() == [
        *(f"{tmp_path / name}: written" for name in made),
        "systemctl daemon-reload && systemctl enable --now cronce-order-sync.timer",
    ]
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == made
    assert "cannot be written" in said(capsys, *CALL, "--directory", str(tmp_path / "no"), *COMMAND, code=2)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([*CALL], "the command is missing"),
        (["systemd", "x", "--", "/y"], "the schedule is missing; give --schedule '*/15 * * * *'"),
        ([*CALL, "--", "sync.sh"], "write the full path of sync.sh"),
        ([*CALL, "--", "./sync.sh"], "write the full path of ./sync.sh"),
        (
            [*CALL, "--store", "redis://:S3CRET@h", "--", "/x"],
            "this URL has a password in it; put the URL into /etc/cronce.toml",
        ),
        (["systemd", "x", "--schedule", "every 15m", "--", "/y"], "is not a cron expression"),
        (["systemd", "a b", "--schedule", "@daily", "--", "/y"], "cannot be a name"),
        (["systemd", "x", "--schedule", "30 2 * * *", "--tz", "Europe/Berlin", "--", "/y"], "--gap skip"),
    ],
)
def test_what_would_not_be_safe_is_refused(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert says in said(capsys, *words, code=2)


def test_where_slots_will_be_kept_is_said_beside_the_units(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.getuid() != 0:
        needs("root", "run the tests as root: a unit runs as root, and only root can read its settings")
    monkeypatch.setenv("CRONCE_URL", "postgresql://db/x")
    assert main([*CALL, *COMMAND]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("this host only: slots are kept in /")
    assert "CRONCE_URL is set here, and systemd will not see it" in line
    assert main([*CALL, "--store", "etcd://h", *COMMAND]) == main([*CALL, "--json", *COMMAND]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("verb", [["systemd"], ["k8s", "cronjob"]])
def test_help_offers_only_what_is_taken(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*verb, "--help"])
    offered = capsys.readouterr().out
    assert "--schedule" in offered
    assert not any(word in offered for word in ("--slot", "every 15m", "'at 2026"))
