"""`cronce ui` and `cronce run --ui`: where they listen, on which terms, and how they end."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from cronce import Cronce
from cronce.cli import main, ui
from cronce.cli.listening import is_loopback
from cronce.cli.ui import ACT_VARIABLE, PageAccess, terms
from cronce.clock import SystemClock
from cronce.errors import BadInput
from cronce.stores import open_store
from tests.house.wait import PATIENCE, wait_until
from tests.integrations.execs import gone
from tests.runtime.scheduling.life.town import Town, children, ended
from tests.web.house import TOKEN
from tests.web.served import Stream

# --- on which terms ---------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_token_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ACT_VARIABLE, raising=False)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o640)
    return file


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_on_loopback_it_shows_itself_without_a_token_and_answers_to_its_own_names(host: str) -> None:
    assert is_loopback(host)
    assert terms(host, None, None, [], "--listen") == PageAccess(names=(host,))
    ours = ["localhost", "127.0.0.7", "::1", "LOCALHOST."]
    assert terms(host, None, None, ours, "--listen") == PageAccess(names=(*ours, host))


def test_whoever_goes_by_another_name_is_reached_by_others_and_needs_a_token_for_everything(token_file: Path) -> None:
    """A proxy on the same machine makes everybody come from loopback."""
    with pytest.raises(BadInput, match=r"--name cron\.example is a name for other machines, and there is no token"):
        terms("127.0.0.1", None, None, ["cron.example"], "--listen")
    names = ["localhost", "cron.example"]
    shown = terms("127.0.0.1", str(token_file), None, names, "--listen")
    assert shown == PageAccess(TOKEN, names=(*names, "127.0.0.1"), private=True)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "no-such-name.invalid"])
def test_beyond_loopback_it_needs_a_token_for_everything(host: str, token_file: Path) -> None:
    assert not is_loopback(host)
    with pytest.raises(BadInput, match="can be reached from other machines, and there is no token"):
        terms(host, None, None, [], "--listen")
    assert terms(host, str(token_file), None, [], "--listen") == PageAccess(TOKEN, private=True)
    assert terms(host, str(token_file), None, ["a"], "--listen") == PageAccess(TOKEN, names=("a", host), private=True)


def test_a_token_comes_from_a_file_or_the_environment(token_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ACT_VARIABLE, "another-token-of-the-environment")
    assert terms("127.0.0.1", None, None, [], "--listen").token == "another-token-of-the-environment"
    assert ACT_VARIABLE not in os.environ  # no job, and no command of an alert, inherits it
    assert terms("127.0.0.1", str(token_file), None, [], "--listen").token == TOKEN
    token_file.chmod(0o644)
    with pytest.raises(BadInput, match=f"chmod 600 {token_file}"):
        terms("127.0.0.1", str(token_file), None, [], "--listen")
    with pytest.raises(
        BadInput, match=rf"^--ui-token-file {token_file}\.nix cannot be read: No such file or directory$"
    ):
        terms("127.0.0.1", f"{token_file}.nix", None, [], "--ui")


@pytest.mark.parametrize(
    "words",
    [
        ["ui", "--listen", "0.0.0.0:0"],
        ["run", "nosuch:app", "--ui", "[::]:0"],
        ["ui", "--listen", "0", "--name", "cron.example"],
        ["run", "nosuch:app", "--ui", "0", "--ui-name", "cron.example"],
    ],
)
def test_what_others_could_reach_without_a_token_is_not_started(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    option = "--token-file" if words[0] == "ui" else "--ui-token-file"
    assert (
        f"there is no token: give a file with a token by {option}, or set ${ACT_VARIABLE}, or"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("words", [["ui", "--listen", "0"], ["run", "nosuch:app", "--ui", "0"]])
def test_without_its_packages_it_says_which_extra_is_missing(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ui, "find_spec", lambda name: None if name == "uvicorn" else name)
    assert main(words) == 2
    assert "pip install 'cronce[ui]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--listen", "here"], "--listen must be a port or HOST:PORT"),
        (["--store", "memory:"], "exists only in this process"),
        (["--store", "nix://x:secret@y"], "no store is called 'nix'"),
        (["--report", "/nonexistent"], "is not what `cronce audit --json` prints"),
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ui", "--listen", "0", *words]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "secret" not in err


def test_a_store_that_is_not_there_yet_is_shown_as_empty_and_not_made(town: Town) -> None:
    """It refused to start: a newcomer saw no page before the first run. When there is a store, the page shows that."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    listener.close()
    page = town.start(sys.executable, "-m", "cronce", "ui", "--listen", str(port))
    line_of(page, r"cronce ui: http://127\.0\.0\.1:\d+ shows sqlite:///.*; read-only\n")
    line_of(
        page, r"cronce ui: there is no file .*cronce.db yet; the page explains how to begin, and then shows what runs\n"
    )
    status, shown = ask(port, "/")
    assert (status, "This store is empty." in shown, town.url in shown) == (200, True, True)
    assert not (town.folder / "cronce.db").exists()
    with Cronce(town.url) as cron:
        cron.job("@daily", name="report")(lambda: None)()
    line_of(page, r"cronce ui: http://127\.0\.0\.1:\d+ shows sqlite:///.*; read-only\n")
    assert "report" in ask(port, "/jobs")[1]
    page.send_signal(signal.SIGTERM)
    assert ended(page) == (0, "")


@pytest.mark.parametrize(
    ("token", "wrong"),
    [
        ("short", "is too short"),
        ("\n", "is empty"),
        ("two words of a token that is long", "has other characters"),
    ],
)
def test_a_token_that_is_none_is_refused(
    token: str, wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "token").write_text(token)
    (tmp_path / "token").chmod(0o600)
    words = ["ui", "--listen", "0", "--store", f"sqlite:///{tmp_path}/c.db", "--token-file", str(tmp_path / "token")]
    assert main(words) == 2
    assert f"--token-file {tmp_path}/token {wrong}: a token is 32 or more" in capsys.readouterr().err


# --- processes --------------------------------------------------------------------------------------------------------


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    town = Town(tmp_path, body="long")
    yield town
    town.close()


def line_of(process: subprocess.Popen[str], wanted: str) -> re.Match[str]:
    assert process.stdout is not None
    seen = []
    while line := process.stdout.readline():
        seen.append(line)
        if found := re.match(wanted, line):
            return found
    raise AssertionError(f"it never said that: {seen}")


def ask(
    port: int, path: str, method: str = "GET", headers: dict[str, str] | None = None, host: str = "127.0.0.1"
) -> tuple[int, str]:
    connection = HTTPConnection(host, port, timeout=PATIENCE)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


PATIENT = f"""
import sys
from cronce.cli import main
from cronce.web import server
assert server.SHUTDOWN_GRACE
server.SHUTDOWN_GRACE = {PATIENCE}
sys.exit(main(["ui", *sys.argv[1:]]))
"""


def test_the_page_alone_says_where_it_is_shows_acts_and_ends_at_once(town: Town, token_file: Path) -> None:
    """Though it would wait for a minute: it does not, for those who only look on."""
    open_store(town.url).close()
    host = "127.0.0.2"
    page = town.start(sys.executable, "-c", PATIENT, "--listen", f"{host}:0", "--token-file", str(token_file))
    port = int(line_of(page, r"cronce ui: http://127\.0\.0\.2:(\d+) shows sqlite:///.*; the token allows acting\n")[1])
    assert ask(port, "/healthz", host=host) == (200, "ok\n")
    assert ask(port, "/readyz", host=host) == (200, "ok\n")
    status, numbers = ask(port, "/metrics", host=host)
    assert (status, "cronce_build_info" in numbers) == (200, True)
    assert ask(port, "/", host=host)[0] == 200
    assert ask(port, "/", host=host, headers={"Host": "evil.example"})[0] == 421
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert ask(port, "/api/v1/jobs/nix/pause", "POST", bearer, host=host)[0] == 404
    with Stream(port, host) as stream:
        stream.tally()
        clock = SystemClock()
        began = clock.boot()
        page.send_signal(signal.SIGTERM)
        code, rest = ended(page)
        took = clock.boot() - began
    assert (code, rest) == (0, "")
    assert took < PATIENCE / 2
    assert TOKEN not in rest


def test_the_page_of_a_run_lives_as_long_as_the_run(town: Town) -> None:
    foreman = town.run("-n", "2", "--ui", "0", "--health", "0", "--grace", "60s", start_new_session=True)
    port = int(line_of(foreman, r"cronce run: http://127\.0\.0\.1:(\d+) is the page\n")[1])
    (started,) = town.wait_for("start")
    usher_pid, doorkeeper, *members = children(foreman.pid)
    assert len(members) == 2
    wait_until(lambda: {int(name.split(":")[1]) for name in holders(port)} == set(members))
    assert ask(port, f"/api/v1/runs/{started.job}@{started.slot}")[0] == 200
    os.killpg(foreman.pid, signal.SIGTERM)  # as systemd stops a service: all of them hear it
    wait_until(lambda: not holders(port, "alive"))
    assert ask(port, "/healthz")[0] == 200
    town.release.touch()
    assert ended(foreman)[0] == 0
    assert gone(usher_pid)
    assert gone(doorkeeper)


def test_whoever_dies_at_a_door_is_replaced_and_nobody_else_holds_it_open(town: Town) -> None:
    foreman = town.run("--ui", "0", "--health", "0", "--grace", "60s")
    page = int(line_of(foreman, r"cronce run: http://127\.0\.0\.1:(\d+) is the page\n")[1])
    door = int(line_of(foreman, r"cronce run: http://127\.0\.0\.1:(\d+)/healthz and /readyz report .*\n")[1])
    town.wait_for("start")
    usher_pid, doorkeeper, member = children(foreman.pid)
    beside = {page: usher_pid, door: doorkeeper}
    for port in (door, page, page):
        wait_until(lambda port=port: answers(port))  # type: ignore[misc]
        pause = r"0\.5" if beside[port] in (usher_pid, doorkeeper) else "1"  # later each time that it dies young
        os.kill(beside[port], signal.SIGKILL)
        line_of(
            foreman,
            rf"cronce run: process {beside[port]} ended \(SIGKILL\), and no server answers at"
            rf" http://127\.0\.0\.1:{port}; another starts in {pause} s\n",
        )
        wait_until(lambda port=port: answers(port))  # type: ignore[misc]
        (beside[port],) = {*children(foreman.pid)} - {member, *beside.values()}
    assert ask(page, "/api/v1/holders")[0] == 200
    foreman.kill()
    wait_until(
        lambda: ask(door, "/readyz") == (503, "takes no new work\n")
    )  # those that came later hide its end from none
    for port, pid in beside.items():
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda port=port: not answers(port))  # type: ignore[misc]
    assert not gone(member)
    town.release.touch()
    wait_until(lambda: gone(member))


def answers(port: int) -> bool:
    try:
        return ask(port, "/healthz") == (200, "ok\n")
    except ConnectionError:
        return False


def test_who_died_when_all_are_told_to_end_is_not_replaced(town: Town) -> None:
    foreman = town.run("--ui", "0", "--grace", "60s")
    page = int(line_of(foreman, r"cronce run: http://127\.0\.0\.1:(\d+) is the page\n")[1])
    town.wait_for("start")
    wait_until(lambda: answers(page))
    usher_pid, _ = children(foreman.pid)
    foreman.send_signal(signal.SIGTERM)
    wait_until(lambda: not holders(page))
    os.kill(usher_pid, signal.SIGKILL)
    line_of(foreman, rf"cronce run: process {usher_pid} ended \(SIGKILL\), and no server answers at .* any more\n")
    with pytest.raises(ConnectionRefusedError):
        ask(page, "/healthz")
    town.release.touch()
    assert ended(foreman)[0] == 0


def holders(port: int, life: str = "alive") -> dict[str, Any]:
    status, text = ask(port, "/api/v1/holders")
    assert status == 200, text
    found = json.loads(text)["holders"]
    return {one["holder"]: one for one in found if one["life"] == life and not one["draining"]}


def test_whoever_kills_the_foreman_ends_the_page_too(town: Town) -> None:
    foreman = town.run("--ui", "0")
    line_of(foreman, r"cronce run: http://127\.0\.0\.1:(\d+) is the page\n")
    town.wait_for("start")
    usher_pid, *_ = children(foreman.pid)
    foreman.kill()
    town.release.touch()
    wait_until(lambda: gone(usher_pid))
