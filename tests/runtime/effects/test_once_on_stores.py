"""Effects on every kind of store: the same answers, and nothing twice with several processes at it."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from cronce import Cronce, InDoubt, InProgress, Run, Skipped
from cronce.stores.redis import init
from tests.house.wait import wait_until
from tests.stores.places import name_of

STORES = ("sqlite", "postgres", "valkey", "mariadb", "etcd")
SLOT = "2026-03-29T12:00:00Z"
ROOT = Path(__file__).parents[3]


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/cronce.db"
    address: str = request.getfixturevalue(request.param).url
    if request.param == "valkey":
        address = f"{address}?namespace={name_of(tmp_path)}"  # others empty theirs
        init(address)  # else it may have forgotten something, and nothing begins for a while
    return address


@pytest.fixture
def name() -> str:
    """One server serves all tests."""
    return f"job-{uuid4().hex[:8]}"


def test_each_step_is_done_once_whatever_the_body_does(url: str, name: str) -> None:
    done: list[object] = []

    def note(what: object) -> object:
        done.append(what)
        return {"did": what}

    with Cronce(url) as cron:

        @cron.job(None, name=name, retries=2, backoff="1ms", on_lost="rerun")
        def body(run: Run) -> object:
            one = run.once("größe/7", note, "one", per="slot")
            many = run.once_each(range(150), key=str, fn=note, unsure="retry", per="slot")
            run.cursor.set([run.attempt, run.cursor.get([0])])
            if run.attempt < 3:
                raise ValueError("again")
            return [one, many[149], run.cursor.get()]

        for _ in range(2):
            with pytest.raises(ValueError, match="again"):
                body(slot=SLOT)  # type: ignore[call-arg]
        assert body(slot=SLOT) == [{"did": "one"}, {"did": 149}, [3, [2, [1, [0]]]]]  # type: ignore[call-arg]
    assert done == ["one", *range(150)]


def test_a_doubt_is_closed_as_unknown_and_a_keyed_function_is_done_once(url: str, name: str) -> None:
    done: list[int] = []
    with Cronce(url) as cron:

        @cron.job(None, name=name, retries=2)
        def body(run: Run) -> None:
            run.once("pay", lambda: 1 / 0, per="slot")

        with pytest.raises(InDoubt):
            body(slot=SLOT)  # type: ignore[call-arg]
        again = body(slot=SLOT)  # type: ignore[call-arg]
        assert isinstance(again, Skipped)
        assert again.outcome == "unknown"

        @cron.idempotent(name, key=lambda message: message)
        def handle(message: int) -> list[int]:
            done.append(message)
            return [message]

        assert [handle(1), handle(2), handle(1)] == [[1], [2], [1]]
        fences = [f"00000000000001-00000000000{number}" for number in (1, 3, 2, 3)]
        assert [cron.admits(name, fence) for fence in fences] == [True, True, False, True]
    assert done == [1, 2]


CONSUMER = """
import sys
from cronce import Cronce, InProgress

url, name, book = sys.argv[1:]
cron = Cronce(url)

@cron.idempotent(name, key=lambda message: message)
def handle(message):
    with open(book, "a") as file:
        file.write(f"{message}\\n")

for message in range(40):
    while True:
        try:
            handle(message)
            break
        except InProgress:
            pass
cron.close()
"""


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
def test_three_consumers_of_the_same_messages_handle_each_once(url: str, name: str, tmp_path: Path) -> None:
    book = tmp_path / "book"
    command = [sys.executable, "-c", CONSUMER, url, name, str(book)]
    consumers = [subprocess.Popen(command, cwd=ROOT) for _ in range(3)]
    assert [consumer.wait(60) for consumer in consumers] == [0, 0, 0]
    assert sorted(map(int, book.read_text().split())) == list(range(40))


KILLED = """
import os, signal, sys
from cronce import Cronce

url, name, book = sys.argv[1:]
cron = Cronce(url)

def pay():
    with open(book, "a") as file:
        file.write("paid\\n")
    os.kill(os.getpid(), signal.SIGKILL)

@cron.job(None, name=name, on_lost="rerun", lease="2s")
def body(run):
    run.once("pay", pay, per="slot")

body(slot="2026-03-29T12:00:00Z")
"""


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_process_that_is_killed_in_a_step_leaves_a_doubt_and_nobody_pays_again(
    url: str, name: str, tmp_path: Path
) -> None:
    book = tmp_path / "book"
    killed = subprocess.run([sys.executable, "-c", KILLED, url, name, str(book)], cwd=ROOT, check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    with Cronce(url) as cron:

        @cron.job(None, name=name, on_lost="rerun")
        def body(run: Run) -> None:
            run.once("pay", lambda: book.write_text("paid twice"), per="slot")

        def taken_over() -> bool:
            """By this call, or in the background since the first one was refused."""
            try:
                told = body(slot=SLOT)  # type: ignore[call-arg]
            except InDoubt:
                return True
            return not isinstance(told, Skipped) or told.outcome == "unknown"

        wait_until(taken_over)
        told = body(slot=SLOT)  # type: ignore[call-arg]
        assert isinstance(told, Skipped)
        assert told.outcome == "unknown"
    assert book.read_text() == "paid\n"


# --- a body in a process of its own -----------------------------------------------------------------------------------

ISOLATED = """
import os, sqlite3, sys
from cronce import Cronce

folder = os.environ["FOLDER"]
cron = Cronce(f"sqlite:///{folder}/cronce.db")

def note(what):
    with open(f"{folder}/book", "a") as file:
        file.write(f"{what} ")
    return what

@cron.job(None, name="isolated", isolate=True, retries=1, backoff="1ms", timeout="1h", transaction=f"sqlite:///{folder}/app.db")
def body(run):
    done = run.once("one", note, "one", per="slot")
    run.cursor.set(run.attempt)
    assert run.deadline is not None
    if run.attempt == 1:
        raise ValueError
    app = sqlite3.connect(f"{folder}/app.db")
    app.execute("create table if not exists rows (n)")
    with run.transaction(app) as tx:
        tx.execute("insert into rows values (1)")
    return [done, run.cursor.get()]

@cron.job(None, name="doubt", isolate=True, retries=1)
def doubt(run):
    run.once("pay", lambda: 1 / 0, per="slot")

if __name__ == "__main__":
    for _ in range(2):
        try:
            print(body(slot="2026-03-29T12:00:00Z"))
        except Exception as error:
            print(type(error).__name__)
    try:
        doubt(slot="2026-03-29T12:00:00Z")
    except Exception as error:
        print(type(error).__name__)
    print(doubt(slot="2026-03-29T12:00:00Z").outcome)
    cron.close()
"""


def test_an_isolated_body_has_steps_a_cursor_and_transactions(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(ISOLATED)
    env = {**os.environ, "FOLDER": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(program)], env=env, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.splitlines() == ["BodyFailed", "['one', 2]", "BodyFailed", "unknown"], done.stderr
    assert (tmp_path / "book").read_text() == "one "


def test_in_progress_is_told_across_processes(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/cronce.db"
    with Cronce(url) as one, Cronce(url) as other:

        @other.idempotent("mail", key=str)
        def again(_message: int) -> None: ...

        @one.idempotent("mail", key=str)
        def handle(message: int) -> str:
            with pytest.raises(InProgress):
                again(message)
            return "handled"

        assert handle(1) == "handled"
