"""The program that ends process groups: how it starts, and how it is let go. What it does to groups is in
test_process_group.py and test_child.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cronce.clock import SystemClock
from cronce.runtime.processes import watchdog
from cronce.runtime.processes.process_group import Watchdog
from tests.house.wait import wait_until


def test_it_imports_nothing_of_cronce_and_nothing_slow() -> None:
    folder = str(Path(watchdog.__file__).parent)
    code = f"import sys; sys.path.insert(0, {folder!r}); import watchdog; print(*sys.modules)"
    words = [sys.executable, "-S", "-P", "-c", code]
    loaded = set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())
    assert "watchdog" in loaded
    assert loaded & {"cronce", "collections", "contextlib", "enum", "site", "threading", "typing"} == set()


def test_a_module_of_that_name_in_pythonpath_is_not_started_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "watchdog.py").write_text("def main(): print('not this one')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    one = Watchdog.spawn(grace=0.1)
    with subprocess.Popen(["sleep", "1000"], process_group=0) as sleeper:
        one.guard(sleeper.pid, SystemClock().boot())
        assert sleeper.wait(20) == -9
    one.close()


def test_with_nothing_to_guard_it_is_not_waited_for() -> None:
    """Not even until it has started."""
    one = Watchdog.spawn(grace=1000.0)
    one.guard(os.getpid())  # not a group that it could end: it is done before it is read
    one.done(os.getpid())
    one.close()
    with pytest.raises(ProcessLookupError):
        os.kill(one.pid, 0)


def test_one_that_was_killed_is_closed_like_any_other() -> None:
    one = Watchdog.spawn(grace=1.0)
    os.kill(one.pid, 9)
    wait_until(lambda: one.gone)
    one.close()
    with pytest.raises(ProcessLookupError):
        os.kill(one.pid, 0)
