"""`cronce exec`, as real processes killed, paused and raced: exact counts of bodies, exact exit codes."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from cronce import Cronce
from cronce.cli import main
from cronce.errors import StorePrivate
from cronce.integrations.command import NOT_DONE
from cronce.protocol.record import Outcome
from cronce.stores import default
from cronce.stores.default import choose
from tests.house.needs import needs, tool
from tests.house.wait import wait_until
from tests.integrations.execs import BEGUN, SLOT, HandNode, ended, gone
from tests.servers.valkey import Valkey

AT = ("--slot", SLOT)
HANDED_OVER = (*AT, "--on-lost", "rerun")
RERUN = (*HANDED_OVER, "--lease", "3s")
SKIP = (*AT, "--lease", "2s")
AGAIN = ("--backoff", "10ms", "--retries")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[HandNode]:
    node = HandNode(tmp_path)
    yield node
    node.clean_up()


def sh(text: str) -> tuple[str, ...]:
    return ("sh", "-c", text)


def test_a_long_command_is_cancelled_within_seconds_though_its_lease_lasts_for_minutes(node: HandNode) -> None:
    """It took 79 s, until the next renewal."""
    running = node.begun(*AT)
    with Cronce(node.url) as cron:
        cron.cancel(f"sync@{SLOT}", "wrong customers", by="ada")
    assert ended(running)[0] == NOT_DONE
    record = node.record()
    why = "asked to stop: cancelled by ada: wrong customers"
    assert (record.outcome, record.reason) == (Outcome.FAILED, why)


# --- once -----------------------------------------------------------------------------------------------------------


def test_twelve_at_once_are_one_body_and_eleven_quiet_exits(node: HandNode) -> None:
    node.let_go()
    codes = [ended(process) for process in [node.exec(*AT) for _ in range(12)]]
    assert codes == [(0, "", "")] * 12
    assert [line.what for line in node.lines()] == ["start", "done"]


def test_a_slot_stays_closed(node: HandNode) -> None:
    node.let_go()
    for _ in range(3):
        assert ended(node.exec(*AT)) == (0, "", "")
    assert len(node.lines("done")) == 1


def test_the_command_knows_its_slot_its_key_and_its_fence(node: HandNode) -> None:
    text = 'echo "$CRONCE_JOB $CRONCE_SLOT $CRONCE_KEY $CRONCE_ATTEMPT $CRONCE_FENCE"'
    code, out, err = ended(node.exec(*AT, command=sh(text)))
    job, slot, key, attempt, fence = out.split()
    assert (code, err, job, slot, key, attempt) == (0, "", "sync", SLOT, f"sync@{SLOT}", "1")
    assert len(fence) == 27


def test_the_schedule_gives_the_slot(node: HandNode) -> None:
    code, out, _ = ended(node.exec("--schedule", "@yearly", command=sh("echo $CRONCE_SLOT")))
    assert code == 0
    assert out.endswith("-01-01T00:00:00Z\n")


# --- exit codes -----------------------------------------------------------------------------------------------------


def test_the_exit_code_is_the_commands_and_who_comes_later_learns_that_it_failed(node: HandNode) -> None:
    assert ended(node.exec(*AT, command=sh("echo trouble >&2; exit 3"))) == (3, "", "trouble\n")
    record = node.record()
    assert (record.outcome, record.reason, record.output) == (Outcome.FAILED, "exit code 3", "trouble\n")
    why = f"failed already (exit code 3, on {record.holder.partition(':')[0]}). It was not run again."
    store = f"--store {node.url}"
    further = f"Run it again: `cronce rerun {store} sync@{SLOT}`. Why: `cronce why {store} sync@{SLOT}`"
    assert ended(node.exec(*AT)) == (76, "", f"cronce exec: sync@{SLOT} {why} {further}\n")
    assert ended(node.exec("--schedule", "@monthly", command=sh("exit 3")))[0] == 3
    code, out, err = ended(node.exec("--schedule", "@monthly"))
    assert (code, out, why in err) == (76, "", True)  # cron, too: it was silent


def test_a_command_without_dashes_is_told_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    """It was told of unrecognized arguments."""
    with pytest.raises(SystemExit) as end:
        main(["exec", "sync", "--schedule", "@daily", "echo", "hi"])
    assert end.value.code == 2
    missing = "unrecognized arguments: echo hi; the command goes after two dashes: cronce exec NAME --schedule …"
    assert capsys.readouterr().err.endswith(f"{missing} -- COMMAND\n")


def test_a_loser_says_why_only_when_it_is_asked(node: HandNode) -> None:
    ended(node.exec(*AT, command=("true",)))
    code, out, err = ended(node.exec(*AT, "-v", command=("true",)))
    assert (code, out) == (0, "")
    assert err == f"cronce exec: sync@{SLOT} succeeded already. It was not run again.\n"


def test_a_call_that_ran_a_rerun_is_not_among_those_that_did_not_run(node: HandNode) -> None:
    """It was told and counted as refused, though it ran the command."""
    ended(node.exec(*AT, command=("true",)))
    with Cronce(node.url) as cron:
        key = cron.rerun(f"sync@{SLOT}", by="ada")
    code, out, _ = ended(node.exec(*AT, command=sh("echo $CRONCE_SLOT")))
    assert (code, out) == (0, f"{SLOT}\n")
    with Cronce(node.url) as cron:
        assert cron.look.why(key)["slots"][0]["case"] == "succeeded"
        assert cron.look.why("sync")["refusals"] == {}
        assert cron.look.status()["prevented"] == 0


def test_a_call_that_ran_a_rerun_has_its_exit_code_and_says_how_it_ended(node: HandNode) -> None:
    """It had 76, and said of the slot that it was not run again."""
    ended(node.exec(*AT, command=sh("exit 3")))
    for number in (1, 2):
        with Cronce(node.url) as cron:
            cron.rerun(f"sync@{SLOT}", by="ada")
        told = f"cronce exec: sync@{SLOT}#rerun-{number} failed: exit code 4\n"
        assert ended(node.exec(*AT, command=sh("exit 4"))) == (4, "", told)
    with Cronce(node.url) as cron:
        cron.rerun(f"sync@{SLOT}", by="ada")
    told = f"cronce exec: sync@{SLOT}#rerun-3 succeeded\n"
    assert ended(node.exec(*AT, "-v", command=sh("exit 0"))) == (0, "", told)


def test_a_call_that_ran_a_backfill_of_its_slot_has_settled_it(node: HandNode) -> None:
    """The slot stayed failed, with the advice to run it again: that did the work twice."""
    fixed = node.folder / "fixed"
    words = (*AT, "--schedule", "* * * * *", "--start-within", "3650d")
    call = partial(node.exec, *words, command=sh(f"test -e {fixed} && echo $CRONCE_KEY"))
    assert ended(call())[0] == 1
    fixed.touch()
    with Cronce(node.url) as cron:
        assert cron.backfill("sync", SLOT, f"{SLOT[:-3]}01Z", by="ada") == [f"sync@{SLOT}#backfill"]
    assert ended(call()) == (0, f"sync@{SLOT}\n", "")
    assert ended(call()) == (0, "", "")
    with Cronce(node.url) as cron:
        (slot,) = cron.look.why(f"sync@{SLOT}")["slots"]
        assert (slot["case"], slot["run"] and slot["run"]["reason"]) == (
            "succeeded",
            f"resolved: by sync@{SLOT}#backfill",
        )
        assert cron.backfill("sync", SLOT, f"{SLOT[:-3]}01Z", by="ada") == []


def test_a_failure_that_cannot_be_noted_either_is_told_after_the_error(node: HandNode) -> None:
    """It came first, without the command's name."""
    (node.folder / "file").touch()
    words = ["exec", "sync", "--store", "postgresql://127.0.0.1:1/x?timeout=1", *AT, "--", "true"]
    done = subprocess.run(
        [sys.executable, "-m", "cronce", *words],
        env={**os.environ, "XDG_STATE_HOME": f"{node.folder}/file"},
        capture_output=True,
        text=True,
        check=False,
    )
    error, note = done.stderr.splitlines()
    assert (done.returncode, error.startswith("cronce exec: ")) == (75, True)
    assert note.startswith("cronce exec: this failure was not noted on this machine either: ")
    remedy = "set XDG_STATE_HOME to a folder that this user may write to"
    assert note.endswith(f"/file cannot be created (File exists); {remedy}")


def test_an_unreachable_store_is_75_and_nothing_runs(node: HandNode) -> None:
    ended(node.exec("--slot", "2026-03-29T00:00:00Z", command=("true",)))
    with sqlite3.connect(node.folder / "cronce.db", isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        node.url += "?timeout=0.2"
        code, out, err = ended(node.exec(*AT))
    other.close()
    assert (code, out) == (75, "")
    assert "cronce.db" in err
    assert node.lines() == []


def test_an_empty_store_that_may_have_forgotten_is_not_passed_over_in_silence(node: HandNode, valkey: Valkey) -> None:
    """Most empty stores are new, and whoever has one wonders why nothing runs."""
    node.url = f"{valkey.url}?namespace=new"
    code, _out, said = ended(node.exec("--schedule", "@daily"))
    assert (code, node.lines()) == (NOT_DONE, [])
    assert " was not run: the store was found empty at " in said
    assert re.search(
        r" To run this one: `cronce rerun --store '\S+' sync --from \S+T00:00:00Z --to \S+T00:00:01Z`\n$", said
    )
    node.url = f"{valkey.url}?namespace=begun"
    assert main(["store", "init", "--store", node.url]) == 0
    node.let_go()
    assert ended(node.exec("--schedule", "@daily"))[0] == 0
    assert [line.what for line in node.lines()] == ["start", "done"]


def test_a_store_that_needs_a_person_is_78(node: HandNode) -> None:
    (node.folder / "cronce.db").write_text("this is not a database, and long enough to be taken for one" * 9)
    code, _, err = ended(node.exec(*AT))
    assert code == 78
    assert "is not an SQLite database" in err
    assert node.lines() == []


def test_a_mistyped_directory_is_an_error_and_is_not_made(node: HandNode) -> None:
    node.url = f"sqlite:///{node.folder}/nodir/cronce.db"
    code, _, err = ended(node.exec(*AT))
    assert code == 78
    assert f"the directory {node.folder}/nodir does not exist" in err
    assert not (node.folder / "nodir").exists()
    assert node.lines() == []


def test_the_directory_of_the_default_store_is_made_when_that_is_initialised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(default, "_refuse_private", lambda *_place: None)
    monkeypatch.delenv("CRONCE_URL", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert main(["store", "init"]) == 0
    assert (tmp_path / ".local/state/cronce/cronce.db").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "give --schedule '*/15 * * * *', as in the crontab"),
        (("--schedule", "61 * * * *"), "minute"),
        (("--slot", "noon"), "'noon' is not an instant"),
        ((*AT, "--on-lost", "retry"), "argument --on-lost: 'retry' is not one of skip, rerun"),
        ((*AT, "--timeout", "soon"), "timeout: 'soon' is not a duration"),
        ((*AT, "--retries", "-1"), "retries must be 0 or more"),
        ((*AT, "--store", "memory:"), "every start would run every slot"),
        ((*AT, "--store", "nosuch://user:secret@host"), "no store is called 'nosuch'"),
    ],
)
def test_a_call_that_makes_no_sense_is_2_and_nothing_runs(node: HandNode, options: tuple[str, ...], words: str) -> None:
    code, out, err = ended(node.exec(*options))
    assert (code, out) == (2, "")
    assert words in err
    assert "secret" not in err
    assert node.lines() == []


@pytest.mark.parametrize(("command", "code"), [("nosuch", 127), ("./nosuch", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_be_started_takes_no_slot(node: HandNode, command: str, code: int) -> None:
    assert ended(node.exec(*AT, command=(command,)))[0] == code
    node.let_go()
    assert ended(node.exec(*AT)) == (0, "", "")
    assert len(node.lines("done")) == 1


def test_a_call_whose_command_cannot_be_started_is_told_by_why(
    node: HandNode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It left no trace: `why` said that nobody has claimed the slot."""
    monkeypatch.setenv("XDG_STATE_HOME", str(node.folder))
    trace = "could not start its command: there is no command 'slwo.sh' in /bin; write its full path, or set PATH"

    def call(year: int, start_within: str, command: str) -> int:
        options = ("--schedule", "@yearly", "--slot", f"{year}-01-01T00:00:00Z", "--start-within", start_within)
        return ended(node.exec(*options, command=(command,), env={"PATH": "/bin"}))[0]

    def told() -> str:
        assert main(["why", "sync@2026-01-01T00:00:00Z", "--store", node.url]) == 0
        return re.sub(r"at \S+ \S+ could|\S+  called by \S+: could", "… could", capsys.readouterr().out)

    assert [call(2025, "9999d", "true"), call(2026, "1s", "slwo.sh")] == [0, 127]
    assert f"  in this machine's journal: … {trace}\n" in told()
    assert call(2025, "9999d", "true") == 0
    assert f"  … {trace}\n" in told()


def test_a_call_that_loses_to_another_command_says_so(node: HandNode, capsys: pytest.CaptureFixture[str]) -> None:
    """Two crontab lines with one NAME: the second job never ran, and nothing said so."""
    one, other = ("echo", "one"), ("echo", "another")
    assert ended(node.exec(*AT, command=one)) == (0, "one\n", "")
    assert ended(node.exec(*AT, command=one)) == (0, "", "")
    commands = "another command: command:echo-3d9f1586, here command:echo-43bdccf9"
    remedy = "If these are two jobs, each slot runs only one of them; give one another NAME"
    assert ended(node.exec(*AT, command=other)) == (0, "", f"cronce exec: sync@{SLOT} is of {commands}. {remedy}\n")
    assert main(["why", f"sync@{SLOT}", "--store", node.url]) == 0
    assert capsys.readouterr().out.count(f" did not run it: it had succeeded already (with {commands})\n") == 1


def test_a_command_that_was_changed_is_the_jobs_own_from_its_first_run_on(node: HandNode) -> None:
    slots = [("--slot", f"2026-03-29T0{hour}:00:00Z") for hour in (1, 2)]
    assert ended(node.exec(*slots[0], command=("echo", "one"))) == (0, "one\n", "")
    assert ended(node.exec(*slots[1], command=("echo", "another"))) == (0, "another\n", "")
    assert ended(node.exec(*slots[1], command=("echo", "another"))) == (0, "", "")


def test_a_timeout_stops_the_whole_group_and_is_124(node: HandNode) -> None:
    command = sh('sh -c "trap : TERM; while :; do sleep 0.05; done" & echo $!; wait')
    code, out, _ = ended(node.exec(*AT, "--timeout", "2s", "--grace", "300ms", command=command))
    assert code == 124
    assert node.record().reason == "timed out after 2s"
    wait_until(lambda: gone(int(out)))


def test_retries_run_it_again_and_count_exactly(node: HandNode) -> None:
    command = sh('echo "try $CRONCE_ATTEMPT"; test $CRONCE_ATTEMPT = 3')
    assert ended(node.exec(*AT, *AGAIN, "5", command=command)) == (0, "try 1\ntry 2\ntry 3\n", "")
    assert node.record().outcome is Outcome.SUCCEEDED


def test_retries_end_with_the_commands_own_code(node: HandNode) -> None:
    command = sh('echo "try $CRONCE_ATTEMPT"; exit 7')
    assert ended(node.exec(*AT, *AGAIN, "1", command=command)) == (7, "try 1\ntry 2\n", "")
    assert node.record().outcome is Outcome.FAILED


def test_a_run_longer_than_its_lease_is_renewed(node: HandNode) -> None:
    options = (*AT, "--lease", "4s")
    process = node.exec(*options)
    wait_until(lambda: node.lines("start"))
    first = node.cell().until
    assert first is not None
    assert ended(node.exec(*options)) == (0, "", "")  # held: it does not run
    wait_until(lambda: datetime.now(UTC) > first)
    node.let_go()
    assert ended(process) == (0, "", "")
    assert len(node.lines("done")) == 1


def test_the_default_store_is_said_once_when_it_is_made_and_refused_where_it_would_be_private(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    words = [sys.executable, "-m", "cronce", "exec", "sync", "--slot", SLOT, "--", "echo", "ran"]
    done = [subprocess.run(words, env=env, capture_output=True, text=True, check=False) for _ in range(2)]
    answers = [(one.returncode, one.stdout, one.stderr) for one in done]
    assert answers == expected(env)


def expected(env: dict[str, str]) -> list[tuple[int, str, str]]:
    """In a container whose disk is its own, that is what the answer has to be about."""
    try:
        path = choose(None, env).file
    except StorePrivate as refused:
        return [(78, "", f"cronce exec: {refused}\n")] * 2
    told = f"cronce exec: slots are kept in {path}; set CRONCE_URL to choose another store\n"
    return [(0, "ran\n", told), (0, "", "")]


def test_a_slot_that_is_to_come_is_refused_and_closes_nothing(node: HandNode) -> None:
    code, out, err = ended(node.exec("--slot", "2999-01-01T00:00:00Z"))
    assert (code, out) == (2, "")
    assert "sync@2999-01-01T00:00:00Z is due in" in err
    node.let_go()
    assert ended(node.exec(*AT)) == (0, "", "")
    assert len(node.lines("done")) == 1


def test_a_slot_that_is_none_of_the_schedule_is_refused(node: HandNode) -> None:
    code, _, err = ended(node.exec("--schedule", "*/15 * * * *", "--slot", "2026-03-29T01:01:00Z"))
    assert code == 2
    assert "the nearest: 2026-03-29T01:00:00Z and 2026-03-29T01:15:00Z" in err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--jitter", "2h"], "jitter=2h may delay a slot of 'every 1h' past the next one, which is due 1h later"),
        (["--backoff", "5s"], "backoff is how long to wait before a retry, but this job has no retries"),
    ],
)
def test_policies_that_cannot_be_meant_are_refused_before_anything_runs(
    node: HandNode, options: list[str], words: str
) -> None:
    code, _, err = ended(node.exec("--schedule", "every 1h", *options))
    assert code == 2
    assert words in err
    assert node.lines() == []


def test_whoever_names_a_slot_that_will_not_run_is_told(node: HandNode) -> None:
    assert ended(node.exec(*AT, command=("true",)))[0] == 0
    code, _, err = ended(node.exec("--slot", "2026-03-29T00:00:00Z"))
    assert code == 76
    assert "was not run here: it is too old: slots up to 2026-03-29T00:59:59Z are closed if they have no record" in err
    assert node.lines() == []


def test_the_name_is_never_taken_from_the_command(node: HandNode) -> None:
    words = [sys.executable, "-m", "cronce", "exec", "--schedule", "@daily", "--store", node.url, "--", "echo", "date"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the following arguments are required: NAME" in done.stderr
    words = [sys.executable, "-m", "cronce", "exec", "--slot", SLOT, "--store", node.url, "x"]
    done = subprocess.run([*words, "--", "echo", "a", "--", "b"], capture_output=True, text=True, check=False)
    assert done.stdout == "a -- b\n"


def test_what_looks_meant_in_local_time_is_doubted_aloud(node: HandNode) -> None:
    """cron fires by the machine's zone; a schedule without one is UTC's, and would name yesterday's slot."""
    berlin = {"TZ": ":UTC-5"}  # five hours ahead of UTC
    now = datetime.now(UTC) + timedelta(hours=5)
    soon = now + timedelta(hours=1)  # by when it has surely begun
    options = ("--schedule", f"* {now:%H},{soon:%H} * * *")
    code, _, err = ended(node.exec(*options, command=("true",), env=berlin))
    assert code == 0
    assert "but" in err
    assert "did you mean --tz UTC-5?" in err


@pytest.mark.parametrize("code", [40, 128, 129, 160, 168, 255])
def test_any_exit_code_closes_the_slot(node: HandNode, code: int) -> None:
    """Of the numbers above 128, not all are signals, and not all signals have a name."""
    assert ended(node.exec(*AT, command=sh(f"exit {code}")))[0] == code
    assert node.record().outcome is Outcome.FAILED


def test_closed_standard_streams_are_no_failure(node: HandNode) -> None:
    words = [sys.executable, "-m", "cronce", "exec", "sync", *AT, "--store", node.url, "--", "true"]
    done = subprocess.run(["sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh", *words], check=False)
    assert done.returncode == 0
    assert node.record().outcome is Outcome.SUCCEEDED


def test_a_command_that_ran_while_the_store_went_away_is_76_never_75(node: HandNode) -> None:
    process = node.exec(*AT)
    wait_until(lambda: node.lines("start"))
    Event().wait(0.2)  # for so long after a look at its files, the store takes them to be there
    (node.folder / "cronce.db").unlink()
    node.let_go()
    code, _, err = ended(process)
    assert code == 76
    assert "succeeded, but that could not be recorded" in err


def test_a_watchdog_that_somebody_stopped_does_not_keep_us(node: HandNode) -> None:
    process = node.exec(*AT)
    wait_until(lambda: node.lines("start"))
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    (watchdog,) = {int(child) for child in children} - {node.lines("start")[0].pid}
    os.kill(watchdog, signal.SIGSTOP)
    node.let_go()
    assert ended(process) == (0, "", "")


# --- killed, stopped, told to end -----------------------------------------------------------------------------------


def codes_until_lost(node: HandNode) -> set[int]:
    """It reads as held until its lease has passed on a clock that was watched as long."""
    codes = {ended(node.exec(*SKIP))[0]}
    while 76 not in codes:
        Event().wait(0.3)
        codes.add(ended(node.exec(*SKIP))[0])
    return codes


def test_sigkill_under_skip_no_orphan_and_the_slot_is_lost_never_run_again(node: HandNode) -> None:
    process = node.begun(*SKIP)
    process.kill()
    wait_until(lambda: gone(node.lines("start")[0].pid))
    assert codes_until_lost(node) <= {0, 76}
    assert node.record().outcome is Outcome.LOST
    node.let_go()
    assert ended(node.exec(*SKIP))[0] == 76
    assert [line.what for line in node.lines()] == ["start"]


def test_sigkill_under_rerun_who_stands_by_takes_over(node: HandNode) -> None:
    first = node.begun(*RERUN)
    others = [node.exec(*RERUN, command=BEGUN) for _ in range(2)]
    first.kill()
    wait_until(lambda: len(node.lines("start")) == 2)
    one, two = node.lines("start")
    assert gone(one.pid)
    assert two.fence > one.fence
    node.let_go()
    assert sorted(ended(other) for other in others) == [(0, "", ""), (0, "up\n", "")]
    assert [(line.what, line.attempt) for line in node.lines()] == [("start", 1), ("start", 2), ("done", 2)]


def test_sigkill_under_rerun_the_next_slots_exec_takes_over_first(node: HandNode) -> None:
    """A crontab alone: nobody stands by, and the next minute's exec runs the older slot before its own. On a machine so
    busy that an exec saw too little of the clock it is that of a minute later."""
    first = node.begun(*RERUN)
    first.kill()
    wait_until(lambda: gone(node.lines("start")[0].pid))
    node.let_go()
    ended(node.exec("--slot", "2026-03-29T00:59:00Z"))  # below the floor: it runs nothing, but it looks at the clock
    Event().wait(3.5)  # its lease
    later: list[str] = []
    while SLOT not in [line.slot for line in node.lines("done")]:
        later.append(f"2026-03-29T01:{len(later) + 1:02}:00Z")
        options = ("--slot", later[-1], "--on-lost", "rerun", "--lease", "3s")
        assert ended(node.exec(*options)) == (0, "", "")
    assert [line.slot for line in node.lines("done")] == [*later[:-1], SLOT, later[-1]]
    assert node.record().outcome is Outcome.SUCCEEDED


def test_sigstop_past_the_lease_under_rerun_the_group_ends_before_another_begins(node: HandNode) -> None:
    first = node.begun(*RERUN)
    other = node.exec(*RERUN)
    first.send_signal(signal.SIGSTOP)
    wait_until(lambda: len(node.lines("start")) == 2)
    assert gone(node.lines("start")[0].pid)
    node.let_go()
    assert ended(other) == (0, "", "")
    first.send_signal(signal.SIGCONT)
    assert ended(first)[0] == 76
    assert [(line.what, line.attempt) for line in node.lines()] == [("start", 1), ("start", 2), ("done", 2)]


def test_sigstop_past_the_lease_under_skip_the_one_body_goes_on(node: HandNode) -> None:
    first = node.begun(*SKIP)
    first.send_signal(signal.SIGSTOP)
    codes_until_lost(node)
    node.let_go()
    wait_until(lambda: node.lines("done"))
    first.send_signal(signal.SIGCONT)
    assert ended(first)[0] == 76  # it ran to its end, but by the record it was lost: somebody has to look
    assert [(line.what, line.attempt) for line in node.lines()] == [("start", 1), ("done", 1)]
    assert node.record().outcome is Outcome.LOST


def test_sigterm_under_skip_ends_the_command_and_closes_the_slot(node: HandNode) -> None:
    first = node.exec(*AT)
    wait_until(lambda: node.lines("start"))
    first.terminate()
    assert ended(first)[0] == 128 + signal.SIGTERM
    assert gone(node.lines("start")[0].pid)
    record = node.record()
    assert (record.outcome, record.reason) == (Outcome.FAILED, "stopped by SIGTERM")
    node.let_go()
    assert ended(node.exec(*AT))[0] == 76
    assert len(node.lines()) == 1


def test_sigterm_under_rerun_hands_over_at_once(node: HandNode) -> None:
    first = node.exec(*HANDED_OVER)
    wait_until(lambda: node.lines("start"))
    other = node.exec(*HANDED_OVER)
    first.terminate()
    assert ended(first)[0] == 128 + signal.SIGTERM
    wait_until(lambda: len(node.lines("start")) == 2)
    node.let_go()
    assert ended(other) == (0, "", "")
    assert [(line.what, line.attempt) for line in node.lines()] == [("start", 1), ("start", 2), ("done", 2)]


def test_a_command_that_ends_well_after_sigterm_has_succeeded(node: HandNode) -> None:
    command = sh('trap "echo bye; exit 0" TERM; echo up; while :; do sleep 0.05; done')
    process = node.exec(*AT, command=command)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.terminate()
    assert ended(process)[:2] == (0, "bye\n")
    assert node.record().outcome is Outcome.SUCCEEDED


def has_open(pid: int, path: Path) -> bool:
    with suppress(FileNotFoundError):  # closed just now: whoever waits looks again
        return any(os.path.realpath(fd) == str(path) for fd in Path(f"/proc/{pid}/fd").iterdir())
    return False


def test_sigterm_while_standing_by_leaves_the_slot_alone(node: HandNode) -> None:
    first = node.exec(*HANDED_OVER)
    wait_until(lambda: node.lines("start"))
    other = node.exec(*HANDED_OVER)
    wait_until(lambda: has_open(other.pid, node.folder / "cronce.db"))  # it stands by, and takes signals
    other.terminate()
    assert ended(other)[0] == 128 + signal.SIGTERM
    node.let_go()
    assert ended(first) == (0, "", "")
    assert len(node.lines()) == 2


def test_the_output_is_kept_and_passed_on(node: HandNode) -> None:
    code, out, err = ended(node.exec(*AT, command=sh("echo out; echo err >&2; seq 2000")))
    assert (code, err) == (0, "err\n")
    assert out.startswith("out\n1\n2\n")
    assert "1999\n2000\n" in node.record().output
    assert len(node.record().output) == 2000


# --- process 1 ------------------------------------------------------------------------------------------------------

NAMESPACE = ("unshare", "--user", "--map-root-user", "--fork", "--pid", "--mount-proc")


def test_as_process_1_of_a_container_a_sigterm_reaches_the_command(node: HandNode) -> None:
    """The kernel ignores signals for process 1 that it has no handler for; and nobody else forwards them."""
    tool("unshare", "apt-get install util-linux")
    if subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode:
        needs("user namespaces", "sysctl kernel.unprivileged_userns_clone=1")
    command = sh('trap "echo bye; exit 4" TERM; echo "up $PPID"; while :; do sleep 0.05; done')
    process = node.exec(*AT, command=command, before=NAMESPACE)
    assert process.stdout is not None
    assert process.stdout.readline() == "up 1\n"
    inside = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(inside[0]), signal.SIGTERM)
    assert ended(process)[:2] == (4, "bye\n")
    assert node.record().reason == "stopped by SIGTERM"
