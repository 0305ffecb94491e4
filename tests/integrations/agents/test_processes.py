"""Three processes with one nightly agent, killed in the middle of a paid call, or right after: each is paid once."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integrations.agents.market import market


@pytest.mark.parametrize(("kind", "killed"), [("plain", 1), ("graph", 2)])
def test_each_thought_and_each_tool_is_paid_once(tmp_path: Path, kind: str, killed: int) -> None:
    with market(fatal="charge") as shop:
        env = {
            **os.environ,
            "CRONCE_URL": f"sqlite:///{tmp_path}/cronce.db",
            "MARKET": shop.url,
            "NIGHT": str(tmp_path),
        }
        words = [sys.executable, "-m", "tests.integrations.agents.agent", kind]
        done = subprocess.run(words, env=env, stdout=subprocess.PIPE, text=True, timeout=110, check=True)
    *said, codes = done.stdout.splitlines()
    late = ["it is closed: succeeded"] * (2 - killed)
    assert sorted(said) == ["['search 2', 'charge 4', 'mail 6']", *late]
    assert codes == str([-signal.SIGKILL] * killed + [0] * (3 - killed))
    assert shop.bill == {"thought": 4, "search": 1, "charge": 1, "mail": 1}
    assert len(set(shop.buyers)) == killed + 1  # whoever came later had nothing to do
