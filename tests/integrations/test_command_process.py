"""Running one command, supervised: real processes, real signals."""

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import pytest

from cronce.errors import CannotStart
from cronce.runtime.processes.process_group import find_command
from tests.house import needs
from tests.house.wait import PATIENCE, wait_until

ROOT = Path(__file__).parents[2]
LONG = 3_600.0

Facts = dict[str, Any]


class Supervised:
    """A process that supervises commands (`supervised.py`), the pipes to it, and a broom for all it started."""

    def __init__(
        self,
        *steps: Facts,
        grace: float = LONG,
        before: Sequence[str] = (),
        signals: Facts | None = None,
        **options: Any,
    ) -> None:
        heard, say = os.pipe()
        listen, self.told = os.pipe()
        plan = {"steps": steps, "grace": grace, "ignored": [], "blocked": [], **(signals or {})}
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        self.process = subprocess.Popen(
            [*before, *words(say, listen, plan)],
            cwd=ROOT,
            pass_fds=(say, listen),
            start_new_session=True,
            text=True,
            **streams,
        )
        os.close(say)
        os.close(listen)
        self.reports = os.fdopen(heard)
        self.early: list[Facts] = []
        self.watchdog: int = self.report()["watchdog"]

    def report(self) -> Facts:
        """What it says next; nothing when it has ended."""
        return self.early.pop(0) if self.early else self.read()

    def read(self) -> Facts:
        facts: Facts = json.loads(self.reports.readline() or "{}")
        return facts

    def stop(self, why: str, grace: float) -> None:
        os.write(self.told, f"stop {why} {grace}\n".encode())

    def move_deadline(self, seconds: float, *, word: str = "deadline") -> None:
        """Return when the watchdog was told, even if the command is gone by then."""
        os.write(self.told, f"{word} {seconds}\n".encode())
        while "moved" not in (report := self.read()):
            self.early.append(report)

    def line(self) -> str:
        """The next line the command printed, through us."""
        return pipe(self.process.stdout).readline().rstrip("\n")

    def answer(self, text: str) -> None:
        pipe(self.process.stdin).write(text + "\n")
        pipe(self.process.stdin).flush()

    def ended(self) -> Facts:
        """How the only command ended, after which all must be as if nothing had been."""
        report = self.report()
        self.finish()
        ended: Facts = report["ended"]
        return ended

    def finish(self) -> None:
        assert self.report() == {"clean": True}
        assert self.report() == {"left": self.process.pid}  # once: the watchdog runs none of our cleanup
        assert self.report() == {}
        assert self.process.wait(PATIENCE) == 0
        assert not Path(f"/proc/{self.watchdog}").exists()

    def sweep(self) -> None:
        kill_all(self.process.pid)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr, self.reports):
            if stream:
                with suppress(BrokenPipeError):
                    stream.close()
        os.close(self.told)


def words(say: int, listen: int, plan: Facts) -> list[str]:
    return [sys.executable, "-m", "tests.integrations.supervised", str(say), str(listen), json.dumps(plan)]


Start = Callable[..., Supervised]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Supervised] = []

    def one(*steps: Facts, **options: Any) -> Supervised:
        started.append(Supervised(*steps, **options))
        return started[-1]

    yield one
    for each in started:
        each.sweep()


def sh(script: str, **more: Any) -> Facts:
    return {"run": ["sh", "-c", script], **more}


def python(script: str, **more: Any) -> Facts:
    return {"run": [sys.executable, "-S", "-c", script], **more}


def answers(name: str, then: str) -> Facts:
    """A command that waits for a signal, and what it does then."""
    wait = (
        f"signal.pthread_sigmask(0, [signal.SIG{name}]); print('ready', flush=True); signal.sigwait([signal.SIG{name}])"
    )
    return python(f"import signal, sys; {wait}; {then}")


def pipe(stream: IO[str] | None) -> IO[str]:
    assert stream
    return stream


def unread(stream: IO[str] | None) -> int:
    """How many bytes are in a pipe."""
    found: tuple[int] = struct.unpack("i", fcntl.ioctl(pipe(stream), termios.FIONREAD, bytes(4)))
    return found[0]


def state(pid: int) -> str:
    """A letter as in ps; Z, a zombie, for one that is gone, too: whoever inherited it reaps it in his own time."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def session(leader: int) -> list[int]:
    """The living members of a session."""
    members = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = (folder / "stat").read_text().rpartition(") ")[2].split()
            if fields[0] != "Z" and int(fields[3]) == leader:
                members.append(int(folder.name))
    return members


def kill_all(leader: int) -> None:
    for pid in session(leader):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def wait_gone(*pids: int) -> None:
    wait_until(lambda: all(state(pid) == "Z" for pid in pids))


# A child whose parent is gone is a zombie until process 1 reaps it, which may take as long as it likes, and is a member
# of its group till then. So tests in which that happens give a grace that they can afford to wait for.
FAMILY = 'sh -c "echo \\$\\$; exec sleep 1000" & echo $$; wait'  # prints the ids of both, in some order
STUBBORN = "trap '' TERM; echo $$; while :; do sleep 1000; done"
OBEYS = 'echo ready; read word; exit "$word"'


# --- running --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 42", 42), ("kill -9 $$", 137), ("kill $$", 143)])
def test_the_exit_status_comes_back_as_a_shell_would_say_it(start: Start, script: str, code: int) -> None:
    assert start(sh(script)).ended() == {"code": code, "stopped": "", "signalled": 0, "output": ""}


def test_output_is_forwarded_apart_and_kept_together(start: Start) -> None:
    run = start(sh("echo to out; sleep 0.1; echo to err >&2"))
    ended = run.ended()
    assert ended["output"] == "to out\nto err\n"
    assert (pipe(run.process.stdout).read(), pipe(run.process.stderr).read()) == ("to out\n", "to err\n")


def test_a_line_is_forwarded_while_the_command_runs_and_its_stdin_is_ours(start: Start) -> None:
    run = start(sh('echo ready; read word; echo "$word"'))
    assert run.line() == "ready"
    run.answer("hello")
    assert run.line() == "hello"
    assert run.ended()["output"] == "ready\nhello\n"


def test_the_command_leads_a_group_of_its_own_and_has_the_environment_it_was_given(start: Start) -> None:
    code = "import os; print(os.getpgrp() == os.getpid(), os.environ['CRONCE_KEY'])"
    assert start(python(code, env={"CRONCE_KEY": "billing@1"})).ended()["output"] == "True billing@1\n"


def test_the_command_ignores_and_blocks_no_signal(start: Start) -> None:
    status = start(sh("grep -E 'Sig(Blk|Ign)' /proc/self/status")).ended()["output"].split()
    reserved = 0b11 << 31  # 32 and 33: glibc keeps them for its threads, and lets posix_spawn ignore them
    assert (int(status[1], 16), int(status[3], 16) & ~reserved) == (0, 0)


def test_a_signal_that_our_caller_ignores_stays_ignored_as_nohup_means_it(start: Start) -> None:
    run = start(sh(OBEYS), signals={"ignored": ["SIGHUP"]})
    assert run.line() == "ready"
    os.kill(run.process.pid, signal.SIGHUP)
    run.answer("5")
    report = run.report()
    assert (report["ended"]["code"], report["interrupted"]) == (5, 0)


def test_of_a_long_output_the_last_2000_characters_are_kept(start: Start) -> None:
    written = python("print('é' * 5000 + '🙂' * 1998 + '!')")
    assert start(written, env={"PYTHONIOENCODING": "utf-8"}).ended()["output"] == "🙂" * 1998 + "!\n"


def test_a_character_that_was_cut_in_half_leaves_no_trace(start: Start) -> None:
    run = start(*(python(f"import os; os.write(1, '🙂'.encode() * 3000 + b'!' * {more})") for more in range(4)))
    assert [run.report()["ended"]["output"] for _ in range(4)] == ["🙂" * (2_000 - n) + "!" * n for n in range(4)]


def test_output_that_is_no_text_is_kept_as_far_as_it_is(start: Start) -> None:
    run = start(sh(r"printf 'a\377b\n'"), errors="surrogateescape")
    assert run.ended()["output"] == "a\ufffdb\n"
    assert run.line() == "a\udcffb"


def test_a_hundred_megabytes_pass_in_constant_memory(start: Start, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        run = start(sh("head -c 100M /dev/zero; echo end"), stdout=out)
        report = run.report()
    assert report["ended"]["output"] == "\0" * 1996 + "end\n"
    assert report["grown"] < 10_000  # KiB
    assert (tmp_path / "out").stat().st_size == 100 * 2**20 + 4


def test_a_slow_reader_gets_everything(start: Start) -> None:
    run = start(sh("head -c 1M /dev/zero; echo end"))
    wait_until(lambda: state(run.process.pid) == "S")
    assert len(pipe(run.process.stdout).read()) == 2**20 + 4
    assert run.ended()["code"] == 0


def test_the_last_words_on_stderr_are_kept_also_where_stdout_is_read_later(start: Start) -> None:
    """They were read at once, and what had been printed before them pushed them out of what is kept."""
    run = start(sh("head -c 70000 /dev/zero; read word; head -c 5000 /dev/zero; echo it broke >&2; exit 3"))
    wait_until(lambda: unread(run.process.stdout) >= 60_000)  # no more fits in
    wait_until(lambda: state(run.process.pid) == "S")
    run.answer("go on")
    assert pipe(run.process.stderr).readline() == "it broke\n"
    assert pipe(run.process.stdout).read() == "\0" * 75_000
    assert run.ended() == {"code": 3, "stopped": "", "signalled": 0, "output": "\0" * 1991 + "it broke\n"}


def test_a_reader_that_went_away_does_not_hurt_the_command(start: Start) -> None:
    run = start(sh("echo ready; read word; echo still here; head -c 1M /dev/zero; echo end; exit 5"))
    assert run.line() == "ready"
    pipe(run.process.stdout).close()
    run.answer("go on")
    ended = run.ended()
    assert (ended["code"], ended["output"][-4:]) == (5, "end\n")


def test_a_reader_that_takes_nothing_does_not_keep_us_from_stopping_the_command(start: Start) -> None:
    run = start({"run": ["yes"]}, grace=0.2)
    assert run.line() == "y"  # and no more is read
    run.stop("enough", 0.2)
    ended = run.ended()
    assert (ended["code"], ended["stopped"], ended["output"][-4:]) == (143, "enough", "y\ny\n")


@pytest.mark.parametrize("left", ["sleep 1000", "yes"])
def test_the_run_ends_with_the_command_whoever_still_holds_its_output(start: Start, left: str, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        ended = start(sh(f"echo done; {left} & exit 3"), stdout=out).ended()
    assert ended["code"] == 3
    assert (tmp_path / "out").read_text().startswith("done\n")


def test_what_a_command_leaves_running_is_not_stopped_as_under_cron(start: Start) -> None:
    run = start(sh("sleep 1000 >/dev/null 2>&1 & echo $!"))
    left = int(run.ended()["output"])
    assert state(left) != "Z"


def test_standard_streams_that_our_caller_closed_are_not_mistaken_for_pipes(start: Start, tmp_path: Path) -> None:
    more = "yes | head -c 200000"  # than a pipe holds: we read, so the watchdog was told of the command
    pid = f"echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid"
    script = f"echo out; echo err >&2; {more}; {pid}; exec sleep 1000"
    run = start(sh(script), before=["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"], grace=0.1)
    wait_until((tmp_path / "pid").exists)
    run.process.kill()
    wait_gone(int((tmp_path / "pid").read_text()), run.watchdog)  # who would not have understood "out"


# --- not starting ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("no-such", 127, "there is no command 'no-such' in /usr/bin:/bin; write its full path, or set PATH"),
        ("./no-such", 127, "there is no file ./no-such to run; write its full path"),
        ("/no/such", 127, "there is no file /no/such to run"),
        ("/etc", 127, "there is no file /etc to run"),
        ("/etc/passwd", 126, "/etc/passwd is not executable; run chmod +x on it"),
    ],
)
def test_a_command_that_cannot_be_started_is_refused_and_nothing_is_left(
    start: Start, name: str, code: int, message: str
) -> None:
    run = start({"run": [name], "env": {"PATH": "/usr/bin:/bin"}})
    assert run.report() == {"cannot": message, "code": code}
    run.finish()


def test_a_script_whose_interpreter_is_missing_is_refused(start: Start, tmp_path: Path) -> None:
    script = executable(tmp_path / "script", "#!/no/such\n")
    run = start({"run": [script]})
    assert run.report() == {"cannot": f"{script} cannot be started: its interpreter is missing", "code": 126}
    run.finish()


def test_a_script_that_names_no_interpreter_is_run_by_the_shell(start: Start, tmp_path: Path) -> None:
    script = executable(tmp_path / "script", 'echo "$1"; exit 6')
    ended = start({"run": [script, "word"]}).ended()
    assert (ended["code"], ended["output"]) == (6, "word\n")


def test_a_command_is_found_as_a_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    (first / "folder").mkdir(parents=True)
    second.mkdir()
    (first / "plain").write_text("")
    for name in ("folder", "plain"):
        executable(second / name, "")
        assert find_command(name, {"PATH": f"{first}:{second}"}) == str(second / name)
    with pytest.raises(CannotStart) as refused:
        find_command("plain", {"PATH": str(first)})
    assert refused.value.code == 126
    monkeypatch.chdir(second)
    assert find_command("plain", {"PATH": f"{first}:"}) == "./plain"


def executable(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


# --- signals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"])
def test_a_signal_is_forwarded_and_the_commands_own_answer_comes_back(start: Start, name: str) -> None:
    run = start(answers(name, f"print({name!r}); sys.exit(7)"))
    assert run.line() == "ready"
    os.kill(run.process.pid, signal.Signals[f"SIG{name}"])
    report = run.report()
    remembered = 0 if name.startswith("USR") else int(signal.Signals[f"SIG{name}"])
    assert report["ended"] == {"code": 7, "stopped": "", "signalled": remembered, "output": f"ready\n{name}\n"}
    assert report["interrupted"] == remembered
    run.finish()


def test_signals_that_our_caller_blocked_reach_us_all_the_same(start: Start) -> None:
    run = start(answers("TERM", "sys.exit(7)"), signals={"blocked": ["SIGTERM", "SIGCHLD"]})
    assert run.line() == "ready"
    os.kill(run.process.pid, signal.SIGTERM)
    assert run.ended()["code"] == 7


def test_a_signal_reaches_the_whole_group(start: Start) -> None:
    run = start(sh(FAMILY))
    family = [int(run.line()), int(run.line())]
    os.kill(run.process.pid, signal.SIGTERM)
    assert run.ended()["code"] == 143
    wait_gone(*family)


def test_a_stop_signal_before_the_start_lets_nothing_start(start: Start, tmp_path: Path) -> None:
    run = start({"raise": "SIGTERM"}, sh(f"touch {tmp_path}/ran"), {"wait": LONG})
    report = run.report()
    assert (report["not_started"], report["interrupted"]) == ({"stopped": "", "signalled": 15}, 15)
    assert run.report() == {"waiting": True}
    assert run.report() == {"waited": False, "interrupted": 15}
    run.finish()
    assert list(tmp_path.iterdir()) == []


def test_a_wait_lasts_unless_a_stop_signal_ends_it(start: Start) -> None:
    run = start({"raise": "SIGUSR1"}, {"wait": 0.05}, {"wait": LONG})
    assert [run.report(), run.report()] == [{"waiting": True}, {"waited": True, "interrupted": 0}]
    assert run.report() == {"waiting": True}
    os.kill(run.process.pid, signal.SIGHUP)
    assert run.report() == {"waited": False, "interrupted": 1}
    run.finish()


# --- stopping -------------------------------------------------------------------------------------------------------


def test_a_stop_from_another_thread_ends_the_group_and_says_why(start: Start) -> None:
    run = start(sh(FAMILY))
    family = [int(run.line()), int(run.line())]
    run.stop("trust-ended", 0.3)
    ended = run.ended()
    assert (ended["code"], ended["stopped"], ended["signalled"]) == (143, "trust-ended", 0)
    wait_gone(*family)


def test_a_command_may_answer_a_stop_in_its_own_way(start: Start) -> None:
    run = start(answers("TERM", "print('cleaned up'); sys.exit(9)"))
    assert run.line() == "ready"
    run.stop("enough", LONG)
    assert run.ended() == {"code": 9, "stopped": "enough", "signalled": 0, "output": "ready\ncleaned up\n"}


def test_a_command_that_ignores_a_stop_is_killed_after_the_grace(start: Start) -> None:
    run = start(sh(STUBBORN))
    run.line()
    run.stop("enough", 0.1)
    ended = run.ended()
    assert (ended["code"], ended["stopped"]) == (137, "enough")


def test_a_later_stop_brings_the_kill_nearer_and_the_first_reason_stays(start: Start) -> None:
    run = start(sh(STUBBORN))
    run.line()
    run.stop("first", LONG)
    run.stop("second", 0.1)
    ended = run.ended()
    assert (ended["code"], ended["stopped"]) == (137, "first")


def test_what_a_stopped_command_leaves_in_its_group_is_killed_after_the_grace(start: Start) -> None:
    run = start(sh(f'sh -c "{STUBBORN.replace("$", chr(92) + "$")}" & wait'))
    stubborn = int(run.line())
    run.stop("enough", 0.1)
    assert run.ended()["code"] == 143
    wait_gone(stubborn)


def test_a_paused_command_is_woken_to_hear_that_it_must_stop(start: Start) -> None:
    run = start(sh("echo $$; exec sleep 1000"))
    paused = int(run.line())
    os.kill(paused, signal.SIGSTOP)
    wait_until(lambda: state(paused) == "T")
    run.stop("enough", LONG)
    assert run.ended()["code"] == 143


def test_a_command_that_was_stopped_before_its_start_never_starts(start: Start, tmp_path: Path) -> None:
    run = start(sh(f"touch {tmp_path}/ran", stop="trust ended"))
    assert run.report()["not_started"] == {"stopped": "trust ended", "signalled": 0}
    run.finish()
    assert list(tmp_path.iterdir()) == []


def test_what_came_too_late_for_one_command_does_not_hurt_the_next(start: Start) -> None:
    run = start(sh("exit 1", deadline=LONG), sh(OBEYS))
    assert run.report()["ended"]["code"] == 1
    assert run.line() == "ready"
    run.move_deadline(-1.0, word="late")
    wait_until(lambda: state(run.watchdog) == "S")
    run.answer("2")
    assert run.ended() == {"code": 2, "stopped": "", "signalled": 0, "output": "ready\n"}


# --- the watchdog ---------------------------------------------------------------------------------------------------


def test_when_we_are_killed_the_group_ends_and_so_does_the_watchdog(start: Start) -> None:
    run = start(sh(FAMILY), grace=0.3)
    family = [int(run.line()), int(run.line())]
    run.process.kill()
    wait_gone(*family, run.watchdog)


def test_when_we_are_killed_the_group_may_clean_up_first(start: Start, tmp_path: Path) -> None:
    run = start(answers("TERM", f"open('{tmp_path}/clean', 'x')"))
    assert run.line() == "ready"
    run.process.kill()
    wait_until((tmp_path / "clean").exists)


def test_when_we_are_killed_a_group_that_ignores_it_is_killed_after_the_grace(start: Start) -> None:
    run = start(sh(STUBBORN), grace=0.1)
    stubborn = int(run.line())
    run.process.kill()
    wait_gone(stubborn, run.watchdog)


def test_when_we_are_killed_a_deadline_cuts_the_grace_short(start: Start) -> None:
    run = start(sh(STUBBORN))
    stubborn = int(run.line())
    run.move_deadline(0.3)
    run.process.kill()
    wait_gone(stubborn, run.watchdog)


def test_when_we_are_killed_with_nothing_to_guard_the_watchdog_just_goes(start: Start) -> None:
    run = start(sh("sleep 1000 >/dev/null 2>&1 & echo $!"), {"wait": LONG})
    left = int(run.line())
    assert run.report()["ended"]["code"] == 0
    run.process.kill()
    wait_gone(run.watchdog)
    assert state(left) != "Z"


def test_a_stopped_supervisor_loses_its_command_at_the_deadline_and_only_then(start: Start) -> None:
    bound, free = start(sh(FAMILY)), start(sh('echo $$; read word; exit "$word"'))
    family = [int(bound.line()), int(bound.line())]
    alone = int(free.line())
    bound.move_deadline(0.3)
    for each in (bound, free):
        each.process.send_signal(signal.SIGSTOP)
    wait_gone(*family)
    assert state(alone) != "Z"
    for each in (bound, free):
        each.process.send_signal(signal.SIGCONT)
    free.answer("8")
    assert free.ended()["code"] == 8
    ended = bound.ended()
    assert (ended["code"], ended["stopped"]) == (137, "its deadline passed, and the watchdog killed it")


def test_a_deadline_counts_as_moved_on_though_the_watchdog_hears_of_it_late(start: Start) -> None:
    run = start(sh(OBEYS))
    assert run.line() == "ready"
    os.kill(run.watchdog, signal.SIGSTOP)
    for seconds in (0.0, -1.0, LONG):
        run.move_deadline(seconds)
    os.kill(run.watchdog, signal.SIGCONT)
    wait_until(lambda: state(run.watchdog) == "S")
    run.answer("5")
    assert run.ended()["code"] == 5


def test_a_deadline_known_before_the_start_holds_and_one_that_comes_nearer_kills(start: Start) -> None:
    known, nearer = start(sh(STUBBORN, deadline=0.3)), start(sh(STUBBORN, deadline=LONG))
    nearer.line()
    nearer.move_deadline(0.05)
    assert (known.ended()["code"], nearer.ended()["code"]) == (137, 137)


def test_the_watchdog_has_a_session_of_its_own_and_holds_nothing_of_ours(start: Start) -> None:
    run = start(sh(OBEYS))
    assert run.line() == "ready"
    assert session(run.watchdog) == [run.watchdog]
    held = {fd.name: str(fd.readlink()).partition(":")[0] for fd in Path(f"/proc/{run.watchdog}/fd").iterdir()}
    assert held == {"0": "pipe", "1": "/dev/null", "2": "/dev/null"}
    run.answer("0")
    run.ended()


def test_the_watchdog_survives_what_ends_everybody_else(start: Start) -> None:
    run = start(sh(STUBBORN), grace=0.1)
    stubborn = int(run.line())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGTSTP):
        os.kill(run.watchdog, number)
    assert state(run.watchdog) != "Z"
    os.killpg(run.process.pid, signal.SIGKILL)
    wait_gone(stubborn, run.watchdog)


def test_a_run_goes_on_when_somebody_kills_the_watchdog(start: Start) -> None:
    run = start(sh(OBEYS))
    assert run.line() == "ready"
    os.kill(run.watchdog, signal.SIGKILL)
    run.move_deadline(LONG)
    run.answer("3")
    assert run.ended()["code"] == 3


def test_a_process_that_left_the_group_is_out_of_reach(start: Start) -> None:
    run = start(sh('setsid sh -c "echo \\$\\$; exec sleep 1000" & wait'), grace=0.1)
    outside = int(run.line())
    run.process.kill()
    wait_gone(run.watchdog)
    assert state(outside) != "Z"
    os.kill(outside, signal.SIGKILL)


# --- process 1 ------------------------------------------------------------------------------------------------------

ORPHAN = """
import os, sys, time
read, write = os.pipe()
if not os.fork():
    if not os.fork():
        os.write(write, b"%d" % os.getpid())
    os._exit(0)
os.wait()
orphan = int(os.read(read, 20))
until = time.monotonic() + 30
while os.path.exists(f"/proc/{orphan}") and time.monotonic() < until:
    time.sleep(0.005)
print(os.getppid(), os.path.exists(f"/proc/{orphan}"))
sys.exit(7)
"""
NAMESPACE = ["unshare", "--user", "--map-root-user", "--fork", "--pid", "--mount-proc"]


def test_as_process_1_of_a_container_we_reap_what_is_left_to_us_and_lose_no_status(start: Start) -> None:
    needs.tool("unshare", "apt-get install util-linux")
    if subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode:
        needs.needs("user namespaces", "sysctl kernel.unprivileged_userns_clone=1")
    run = start(python(ORPHAN), before=NAMESPACE)
    assert run.report()["ended"] == {"code": 7, "stopped": "", "signalled": 0, "output": "1 False\n"}


# --- terminals ------------------------------------------------------------------------------------------------------

COUNTS_INTERRUPTS = """
import signal, sys
heard = [signal.SIGINT, signal.SIGUSR1]
signal.pthread_sigmask(signal.SIG_BLOCK, heard)
print("ready", flush=True)
count = 0
while signal.sigwait(heard) == signal.SIGINT:
    count += 1
    print("heard", flush=True)
sys.exit(count)
"""


class Terminal:
    """A supervised command under a shell (`shell.py`) with a terminal, and the keyboard of it."""

    def __init__(self, step: Facts, *, pager: bool) -> None:
        self.keys, slave = pty.openpty()
        heard, say = os.pipe()
        job_heard, job_say = os.pipe()
        plan = {"steps": [step], "grace": LONG, "ignored": [], "blocked": []}
        job = words(job_say, os.open(os.devnull, os.O_RDONLY), plan)
        job_listen = int(job[-2])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.integrations.shell", str(say), *job],
            cwd=ROOT,
            pass_fds=(say, job_say, job_listen),
            start_new_session=True,
            stdin=slave,
            stdout=subprocess.PIPE if pager else slave,
            stderr=slave,
        )
        for fd in (slave, say, job_say, job_listen):
            os.close(fd)
        self.screen = self.process.stdout.fileno() if self.process.stdout else self.keys
        self.shell, self.reports = os.fdopen(heard), os.fdopen(job_heard)
        self.watchdog: int = json.loads(self.reports.readline())["watchdog"]

    def type(self, keys: str) -> None:
        os.write(self.keys, keys.encode())

    def see(self, text: str) -> None:
        seen = ""
        while text not in seen:
            seen += os.read(self.screen, 1_000).decode()

    def signal_job(self, number: int) -> None:
        os.kill(self.job, number)

    @property
    def job(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text())

    def report(self) -> Facts:
        facts: Facts = json.loads(self.reports.readline())
        return facts

    def sweep(self) -> None:
        kill_all(self.process.pid)
        self.process.wait()
        for stream in (self.process.stdout, self.shell, self.reports):
            if stream:
                stream.close()
        os.close(self.keys)


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def one(step: Facts, *, pager: bool = False) -> Terminal:
        opened.append(Terminal(step, pager=pager))
        return opened[-1]

    yield one
    for each in opened:
        each.sweep()


@pytest.mark.parametrize("pager", [False, True], ids=["to the terminal", "to a pager"])
def test_the_command_may_read_the_terminal(terminal: Callable[..., Terminal], *, pager: bool) -> None:
    screen = terminal(sh('echo ready; read word; echo "got $word"'), pager=pager)
    screen.see("ready")
    screen.type("hello\n")
    screen.see("got hello")
    report = screen.report()
    assert (report["ended"]["code"], report["interrupted"]) == (0, 0)
    assert screen.shell.readline() == "ended 0\n"


def test_an_interrupt_from_the_terminal_reaches_the_command_once(terminal: Callable[..., Terminal]) -> None:
    screen = terminal(python(COUNTS_INTERRUPTS))
    screen.see("ready")
    screen.type("\x03")
    screen.see("heard")
    screen.signal_job(signal.SIGUSR1)
    assert screen.report()["ended"]["code"] == 1


def test_an_interrupt_that_ends_the_command_interrupts_us_too(terminal: Callable[..., Terminal]) -> None:
    screen = terminal(sh("echo ready; exec sleep 1000"))
    screen.see("ready")
    screen.type("\x03")
    report = screen.report()
    assert (report["ended"]["code"], report["interrupted"]) == (130, 2)


def test_the_key_that_stops_a_job_stops_neither_us_nor_the_command(terminal: Callable[..., Terminal]) -> None:
    """If it stopped us alone, the command would go on without its lease."""
    screen = terminal(sh('echo ready; read word; echo "got $word"'))
    screen.see("ready")
    screen.type("\x1a")
    screen.type("hello\n")
    screen.see("got hello")
    assert screen.report()["ended"]["code"] == 0


# --- cost -----------------------------------------------------------------------------------------------------------


def test_importing_it_brings_nothing_slow_along() -> None:
    script = "import sys, cronce.integrations.command; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"subprocess", "asyncio", "logging", "dataclasses", "pathlib", "shutil"} & set(told)
