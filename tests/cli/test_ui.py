"""cronce ui: what it tells before it gives up."""

import json
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from cronce.stores import open_store


def test_a_copied_store_is_told_before_it_is_refused(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/one.db")):
        pass
    shutil.copy(tmp_path / "one.db", tmp_path / "two.db")
    tee = f"tee {tmp_path}/told.json"
    command = [sys.executable, "-m", "cronce", "ui", "--listen", "0", "--store", f"sqlite:///{tmp_path}/two.db"]
    ended = subprocess.run([*command, "--alert-command", tee], capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 78, ended.stderr
    assert "copy" in ended.stderr
    told = json.loads((tmp_path / "told.json").read_text())
    assert (told["alert"]["kind"], told["alert"]["state"]) == ("copied", "raised")
