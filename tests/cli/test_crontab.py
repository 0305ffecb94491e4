"""cronce crontab: through the distribution's own `crontab` on a machine of its own, and on files like /etc/cron.d."""

import builtins
import errno
import io
import json
import os
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import nullcontext
from getpass import getuser
from pathlib import Path

import pytest

from cronce.cli import host_settings as facts
from cronce.cli import main
from tests.cli.person import Person
from tests.house.needs import needs
from tests.integrations.machines import Machine, machine

ME = getuser()
"""Whose settings the tests may read, whoever runs them: those of root are for root."""

SPOOL = "/var/spool/cron/crontabs"
MINE = b"# mine\xff\xe9 \x1b\nMAILTO=ops\n\n*/5 * * * *   /bin/x 100\\% \t\n"


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where copies of crontabs are put aside."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def shared() -> Iterator[Machine]:
    with machine() as one:
        yield one


@pytest.fixture
def host(shared: Machine) -> Machine:
    shared.run("sh", "-c", f"rm -f {SPOOL}/*")
    return shared


def spool(host: Machine) -> str:
    """Whatever tells one writing of root's crontab from another."""
    return host.run("stat", "-c", "%i %Y %s", f"{SPOOL}/root").stdout


# --- the real crontab -------------------------------------------------------------------------------------------------


def test_a_second_deploy_writes_nothing_and_a_third_only_its_block(host: Machine, tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(MINE)
    host.run("crontab", str(tmp_path / "mine"))
    (tmp_path / "lines").write_text("@daily /bin/true\n")
    shown = host.cronce("install", str(tmp_path / "lines"), "--name", "shop", "--dry-run")
    assert "+@daily /bin/true" in shown
    assert host.bytes == MINE
    host.cronce("install", str(tmp_path / "lines"), "--name", "shop")
    before = spool(host)
    assert host.bytes.startswith(MINE)
    assert host.bytes.count(b"@daily /bin/true") == 1
    assert host.cronce("install", str(tmp_path / "lines"), "--name", "shop").endswith("nothing to change\n")
    assert spool(host) == before
    host.cronce("remove", "--name", "shop")
    assert host.bytes == MINE


def test_where_there_is_no_crontab_yet_one_is_made_for_the_user_that_is_named(host: Machine) -> None:
    assert host.cronce("list", "--user", "nobody") == "the crontab of nobody starts nothing\n"
    host.cronce("install", "@daily /bin/true", "--user", "nobody")
    assert "@daily /bin/true\n" in host.run("crontab", "-u", "nobody", "-l").stdout
    assert "no crontab for root" in host.run("crontab", "-l").stderr


def test_two_deploys_at_once_both_have_their_block(host: Machine) -> None:
    python = [sys.executable, "-m", "cronce", "crontab", "install", "@daily /bin/true", "--name"]
    both = [host.start(*python, name, env=dict(os.environ), out=subprocess.DEVNULL) for name in ("a", "b", "c")]
    assert [one.wait() for one in both] == [0, 0, 0]
    assert host.bytes.count(b"# BEGIN cronce ") == host.bytes.count(b"@daily /bin/true\n") == 3


def test_a_crontab_that_fails_leaves_all_as_it_was(host: Machine) -> None:
    host.run("crontab", "-", given="@daily x\n")
    assert "`crontab -l` failed, and nothing was changed" in host.cronce("remove", "--user", "no-such-user", code=1)
    host.run("mount", "-o", "remount,ro", "/var/spool")
    try:
        said = host.cronce("install", "@daily y", code=1)
    finally:
        host.run("mount", "-o", "remount,rw", "/var/spool")
    assert "`crontab` refused it, and nothing was changed" in said
    assert host.bytes == b"@daily x\n"


def test_what_crontab_does_not_hand_out_as_it_is_is_not_written_back(host: Machine) -> None:
    """Debian's shows a carriage return as a backslash and an r."""
    host.run("sh", "-c", "printf '@daily x\\r\\n' | crontab -")
    if host.bytes == b"@daily x\r\n":
        pytest.skip("this crontab hands it out as it is")
    before = spool(host)
    assert "line 1 ends in \\r" in host.cronce("install", "@daily y", code=2)
    assert spool(host) == before


def test_what_another_wrote_at_the_same_moment_is_noticed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `crontab` behind which somebody else has the last word."""
    program = tmp_path / "crontab"
    tab = tmp_path / "tab"
    program.write_text(f"#!/bin/sh\n[ $1 = -l ] && exec cat {tab}\ncat > {tab}; echo '@daily theirs' >> {tab}\n")
    program.chmod(0o755)
    tab.touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert "is not as cronce wrote it: another program changed it" in said(capsys, "install", "@daily ours", code=1)
    assert tab.read_text().endswith("@daily ours\n# END cronce default\n@daily theirs\n")


def test_guarding_shows_the_lines_first_and_says_where_slots_will_be_kept(host: Machine) -> None:
    mine = "@reboot a\n0 9 * * * /bin/x\n0 9 * * * /bin/x\n"
    host.run("crontab", "-", given=mine)
    assert "add --yes to write this" in host.cronce("wrap", code=2)
    assert host.bytes == mine.encode()
    said = host.cronce("wrap", "--yes", env={"CRONCE_URL": "postgresql://ada:S3CRET@db/x"})
    assert "line 1 stays as it is: @reboot" in said
    assert "\n-0 9 * * * /bin/x\n" in said
    assert said.count("this host only: slots are kept in /") == 1
    assert "CRONCE_URL is set here, and cron will not see it" in said
    assert host.bytes.count(b"cronce exec x-") == 2
    host.run("crontab", "-", given=f"CRONCE_URL=postgresql://ada:S3CRET@db/x\n{mine}")
    said = host.cronce("wrap", "--yes")
    assert "slots are kept in postgresql://ada:***@db/x\n" in said
    assert "S3CRET" not in said
    assert "this host only" not in said
    host.cronce("dedupe", "--yes")
    assert host.bytes.count(b"cronce exec x-") == 1


# --- files of the system ----------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TZ", raising=False)
    return tmp_path / "shop"


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["crontab", *words]) == code
    out, err = capsys.readouterr()
    return err if code else out


def test_a_file_is_made_for_all_to_read_and_replaced_as_it_was(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "install", "@daily root /bin/x", "--file", str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    file.chmod(0o600)
    (link := file.with_name("link")).symlink_to(file)
    said(capsys, "install", "@daily root /bin/y", "--file", str(link))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert link.is_symlink()
    assert "@daily root /bin/y\n" in file.read_text()
    before = file.stat()
    assert said(capsys, "install", "@daily root /bin/y", "--file", str(link)).endswith("nothing to change\n")
    assert file.stat().st_mtime_ns == before.st_mtime_ns
    assert sorted(path.name for path in file.parent.iterdir()) == ["link", "shop"]


def test_a_file_stays_its_owners(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.touch()
    owner = (1, 1) if os.geteuid() == 0 else (os.getuid(), os.getgroups()[-1])
    os.chown(file, *owner)
    said(capsys, "install", "@daily root x", "--file", str(file))
    assert "@daily root x\n" in file.read_text()
    assert (file.stat().st_uid, file.stat().st_gid) == owner


def test_where_the_disk_is_full_nothing_is_left_behind(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    file.write_text("@daily root x\n")
    monkeypatch.setattr(os, "fsync", full)
    text = said(capsys, "install", "@daily root y", "--file", str(file), code=1)
    assert "cannot be written (No space left on device), and was not changed" in text
    assert [(path, path.read_text()) for path in file.parent.iterdir()] == [(file, "@daily root x\n")]


def test_a_file_that_cannot_be_written_is_as_it_was(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = file / "not" / "there"
    assert "cannot be opened to lock it" in said(capsys, "install", "@daily root x", "--file", str(nowhere), code=1)
    file.mkdir()
    assert "cannot be read" in said(capsys, "install", "@daily root x", "--file", str(file), code=1)
    assert list(file.parent.iterdir()) == [file]


def test_what_a_crontab_fires_is_listed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("CRON_TZ=Asia/Tokyo\n0 0 29 2 * ada /bin/x redis://:S3CRET@h\n@reboot bob flock l y\n")
    where = ("--file", str(file), "--tz", "Europe/Berlin")
    said(capsys, "install", "@hourly root cronce exec z --schedule @hourly -- z", *where[:2], "--name", "shop")
    rows = json.loads(said(capsys, "list", "--json", *where))["lines"]
    assert rows[0]["next"].endswith("-02-28T23:00:00Z")
    assert {**rows[0], "next": ""} == {
        "line": 2, "schedule": "0 0 29 2 *", "zone": "Europe/Berlin", "next": "", "user": "ada", "guarded": False,
        "guard": None, "block": None, "command": "/bin/x redis://:***@h",
    }  # fmt: skip
    assert [(row["guarded"], row["guard"], row["block"], row["next"] is None) for row in rows[1:]] == [
        (False, "flock", None, True),
        (True, "cronce", "shop", False),
    ]
    lines = said(capsys, "list", *where).splitlines()
    assert lines[0].split() == ["line", "schedule", "zone", "next", "user", "guard", "command"]
    assert lines[2].split() == ["3", "@reboot", "Europe/Berlin", "—", "bob", "flock", "flock", "l", "y"]
    why = "line 3 has no next time: @reboot is when a machine starts, not a slot that machines share"
    assert [line for line in lines if "no next time" in line] == [why]


def test_lines_come_from_a_file_from_stdin_or_from_the_call(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("@daily root a\n"))
    said(capsys, "install", "-", "--file", str(file))
    assert "\n@daily root a\n" in file.read_text()
    assert "crontab.txt is neither a file nor a crontab line" in said(
        capsys, "install", "crontab.txt", "--file", str(file), code=2
    )
    assert "a user and a command" in said(capsys, "install", "@daily /bin/x", "--file", str(file), code=2)
    assert "cannot be a name" in said(capsys, "remove", "--name", "a b", "--file", str(file), code=2)


def test_a_name_that_cron_passes_over_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cron.d").mkdir()
    for name, told in (("shop.cron", True), ("shop", False)):
        out = said(capsys, "install", "@daily root x", "--file", str(tmp_path / "cron.d" / name))
        assert ("there is a dot in its name" in out) is told


def test_what_stands_above_a_block_is_said_and_counts_for_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("SHELL=/bin/bash\nPATH=/bin\n")
    out = said(capsys, "install", f"@daily {ME} x >y", "--wrap", "--file", str(file), "--tz", "UTC")
    assert "settings above the block apply to it, too: SHELL=…, PATH=…" in out
    assert "/bin/bash -c 'x >y'" in file.read_text()
    assert "some lines are not guarded" in said(capsys, "install", "@daily root x", "--file", str(file))


def test_what_is_shown_does_nothing_to_the_terminal(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("@daily root echo \x1b[2J\n" * 2)
    shown = said(capsys, "dedupe", "--dry-run", "--file", str(file))
    assert "\n-@daily root echo " in shown
    assert "\x1b" not in shown


def test_the_program_is_called_by_whatever_path_it_has(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "program", lambda: ["/opt/50% off/cronce"])
    said(capsys, "install", f"@daily {ME} /bin/x", "--wrap", "--file", str(file), "--tz", "UTC")
    assert f"\n@daily {ME} '/opt/50\\% off/cronce' exec x-" in file.read_text()


def test_slots_are_kept_where_the_home_is_of_whom_the_line_names(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "home_of", {"ada": "/srv/ada", "bob": "/srv/bob"}.__getitem__)
    monkeypatch.setattr(facts, "rights_of", nullcontext)
    monkeypatch.setattr(facts, "may_act_as", lambda _user: False)
    file.write_text("@daily ada x\n@daily bob y\nHOME=/srv/home\n@daily ada z\n")
    shown = said(capsys, "wrap", "--dry-run", "--file", str(file), "--tz", "UTC")
    places = [
        line.partition(" in ")[2] for line in shown.splitlines() if line.startswith("this host only: slots are kept")
    ]
    assert [path.split("/")[2] for path in places] == ["ada", "bob", "home"]


@pytest.mark.parametrize("user", ["/bin/echo", "nosuch"])
@pytest.mark.parametrize("action", [["wrap", "--yes"], ["install", "*/15 * * * * {user} hi"]])
def test_a_line_of_nobody_here_is_refused_for_its_first_word_may_be_the_command(
    user: str, action: list[str], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(before := "# jobs\n" if action[0] == "install" else f"*/15 * * * * {user} hi\n")
    text = said(capsys, *(word.format(user=user) for word in action), "--file", str(file), code=2)
    assert f"line 1: '{user}' is not a user of this machine; in a --file each line names a user" in text
    assert file.read_text() == before


def test_lines_that_are_guarded_already_are_told_where_their_slots_are_kept(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRONCE_URL", "postgresql://db/x")
    line = f"@daily {ME} cronce exec x --schedule @daily {{}} -- /bin/x"
    out = said(capsys, "install", line.format("-v"), "--file", str(file))
    assert out.count("this host only: slots are kept in /") == 1
    assert "CRONCE_URL is set here, and cron will not see it" in out
    assert "this host only: " in said(capsys, "list", "--file", str(file)).splitlines()[-1]
    out = said(capsys, "install", line.format("--store redis://h"), "--file", str(file))
    assert "this host only" not in out + said(capsys, "list", "--file", str(file))
    said(capsys, "install", "@daily root /bin/x", "--file", str(file))
    assert "this host only" not in said(capsys, "list", "--file", str(file))


@pytest.mark.parametrize("obstacle", ["program", "home", "config"])
def test_a_line_whose_user_could_not_run_it_guarded_is_left(
    obstacle: str, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        needs("root", "run the tests as root: only root can find out what others may")
    home, toml = file.with_name("home"), file.with_name("home") / ".config/cronce.toml"
    toml.parent.mkdir(parents=True)
    match obstacle:
        case "program":
            monkeypatch.setattr(facts, "program", lambda: [str(home)])
            home.chmod(0o700)
            says = f"nobody may not read {home}; install cronce where that user can read it"
        case "home":
            home = Path("/no/such/home")
            says = f"nobody cannot create {home}/.local/state/cronce/cronce.db"
        case _:
            assert tomllib  # loaded: with these rights this Python may not be there to load from
            toml.write_text('url = "postgresql://db/x"')
            toml.chmod(0o640)
            says = f"{toml} names the store, but this user cannot read it"
    if obstacle != "program":
        monkeypatch.setattr(facts, "_shut", lambda _user: "")
    file.write_text(f"HOME={home}\n@daily nobody /bin/x\n@daily root /bin/y\n")
    shown = said(capsys, "wrap", "--yes", "--file", str(file), "--tz", "UTC")
    assert f"line 2 stays as it is: when cron runs it, cronce will refuse it: {says}" in shown
    assert "\n@daily nobody /bin/x\n" in file.read_text()
    assert " exec y-" in file.read_text()
    assert (os.geteuid(), os.getegid()) == (0, 0)


def test_where_there_is_no_such_file_or_block_that_is_said(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for action in ("wrap", "list", "dedupe"):
        assert said(capsys, action, "--file", str(file), code=2).endswith(f"there is no file {file}\n")
    said(capsys, "install", "@daily root /bin/x", "--name", "shop", "--file", str(file))
    assert "there is no block nosuch; known: shop\n" in said(capsys, "remove", "--name", "nosuch", "--file", str(file))
    said(capsys, "remove", "--name", "shop", "--file", str(file))
    assert "there is no block shop; known: none\n" in said(capsys, "remove", "--name", "shop", "--file", str(file))
    file.write_text("@daily root cronce exec x --schedule '@daily' -- /bin/x\n")
    assert "to undo `wrap`, restore the copy it kept" in said(capsys, "remove", "--file", str(file))


def test_where_slots_are_kept_is_said_right_before_the_question_and_the_way_back_after_it(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Person("y\n"))
    file.write_text(f"@daily {ME} /bin/x\n")
    lines = said(capsys, "wrap", "--file", str(file), "--tz", "UTC").splitlines()
    assert lines[-2].startswith("this host only: ")
    copy = Path(lines[-1].partition("written; the old version is kept in ")[2])
    assert copy.read_text() == f"@daily {ME} /bin/x\n"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


def test_under_other_settings_in_another_block_the_same_words_are_another_job(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for database in ("prod", "staging", "prod"):
        body = file.with_name(database)
        body.write_text(f"DB={database}\n@daily {ME} /srv/sync.sh\n")
        said(capsys, "install", str(body), "--wrap", "--name", database, "--file", str(file), "--tz", "UTC")
    lines = [line.split()[4] for line in file.read_text().splitlines() if line.startswith("@daily")]
    assert len(set(lines)) == len(lines) == 2


def test_a_file_with_zero_bytes_is_no_crontab(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (body := file.with_name("body")).write_bytes(b"@daily root x\0y\n")
    assert "zero byte" in said(capsys, "install", str(body), "--file", str(file), code=2)
    assert not file.exists()


@pytest.mark.parametrize(("answer", "left"), [("y\n", 1), ("\n", 2), ("no\n", 2), ("", 2)])
def test_a_person_is_asked(
    answer: str, left: int, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Person(answer))
    file.write_text("@daily root x\n@daily root x\n")
    code = 0 if left == 1 else 1
    text = said(capsys, "dedupe", "--file", str(file), code=code)
    assert ("nothing was changed" in text) is bool(code)
    assert file.read_text() == "@daily root x\n" * left


def test_what_changed_while_a_person_thought_is_looked_at_again(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def think(_text: str) -> str:
        file.write_text("@daily root y\n")
        return "y"

    monkeypatch.setattr(sys, "stdin", Person())
    monkeypatch.setattr(builtins, "input", think)
    file.write_text("@daily root x\n@daily root x\n")
    assert "was changed in the meantime" in said(capsys, "dedupe", "--file", str(file), code=1)
    assert file.read_text() == "@daily root y\n"


def test_one_that_holds_the_lock_is_waited_for(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "MAX_LOOKS", 2)
    with facts.SystemCrontab(str(file)).lock():
        assert "another process is changing crontabs" in said(
            capsys, "install", "@daily root x", "--file", str(file), code=1
        )
    assert not file.exists()
    said(capsys, "install", "@daily root x", "--file", str(file))


@pytest.mark.parametrize("verb", [["crontab", "list"], ["systemd", "x", "--schedule", "@daily", "--", "y"]])
def test_windows_is_refused(
    verb: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert main(verb) == 2
    assert f"Windows has no {verb[0]}" in capsys.readouterr().err
