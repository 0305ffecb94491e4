"""Every example runs, and says what it should."""

import runpy
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from tests.faults.billing.servers import database
from tests.servers.postgres import Postgres

ROOT = Path(__file__).parents[2]
VERDICTS = {
    "agent.py": "everything was paid for once",
    "billing.py": "every invoice was charged once",
    "guard.py": "each slot ran once, and nobody was in the lock with another",
    "order_sync.py": "each order has one e-mail and one reservation",
    "scheduler.py": "each slot ran once, in whichever process",
}
LOOKED_INTO = {"agent.py", "order_sync.py"}
"""Run once, below, with a look into their books."""

Play = Callable[[str], Path]


def test_no_example_is_left_out() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(VERDICTS)


@pytest.mark.parametrize("name", sorted(VERDICTS.keys() - LOOKED_INTO))
def test_the_example_ends_with_its_verdict(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / name)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == VERDICTS[name]


# In the books of those whom the effects reach: each example is killed with SIGKILL in the middle.


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Play:
    """Runs the example as `python -W error` does, and leaves the folder that it would remove."""

    def play(name: str) -> Path:
        monkeypatch.setenv("PYTHONWARNINGS", "error")
        monkeypatch.setattr("sys.argv", [name])
        monkeypatch.setattr("tempfile.TemporaryDirectory", lambda: nullcontext(str(tmp_path)))
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
        printed = capfd.readouterr()
        assert (end.value.code, printed.err) == (0, "")
        assert printed.out.splitlines()[-1] == VERDICTS[name]
        assert (tmp_path / "lost-power").exists()
        return tmp_path

    return play


def test_billing_on_postgresql(postgres: Postgres, play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    with database(postgres.url) as url:
        monkeypatch.setenv("CRONCE_URL", url)
        folder = play("billing.py")
    with closing(sqlite3.connect(folder / "payments.db")) as books:
        rows = books.execute("SELECT invoice FROM charges").fetchall()
    assert Counter(invoice for (invoice,) in rows) == Counter(range(1, 501))
    assert not (folder / "cronce.db").exists()


def test_order_sync(play: Play) -> None:
    folder = play("order_sync.py")
    for book in ("emails", "reservations"):
        assert sorted(map(int, (folder / book).read_text().split())) == [*range(1, 21)]


def test_a_nightly_agent(play: Play) -> None:
    bill = (play("agent.py") / "bill").read_text().split()
    assert bill == ["think", "search", "think", "summarise", "think", "send", "think"]
