"""Leadership, and the end of a process."""

import subprocess
import sys
from pathlib import Path

from cronce import Cronce


def test_a_process_that_exits_resigns(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/cronce.db"
    code = f"""
from cronce import Cronce
leader = Cronce({url!r}).leader("indexer", on_elected=lambda _term: go.set())
import threading
go = threading.Event()
leader.start()
assert go.wait(60)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    with Cronce(url) as cron, cron.leader("indexer").elected() as term:
        assert term.trusted
