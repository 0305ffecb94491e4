"""Every example runs, and says what it should."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERDICTS = {
    "guard.py": "each slot ran once, and nobody was in the lock with another",
    "scheduler.py": "each slot ran once, in whichever process",
}


def test_no_example_is_left_out() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(VERDICTS)


@pytest.mark.parametrize("name", VERDICTS)
def test_the_example_ends_with_its_verdict(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / name)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == VERDICTS[name]
