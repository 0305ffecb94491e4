"""Two beats over django-celery-beat's database."""

import json
import subprocess
import sys
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from pathlib import Path

from tests.integrations.celery.shop import ROOT, gapless, instants
from tests.servers.valkey import Valkey

SECOND = timedelta(seconds=1)


def test_the_entries_of_the_database_are_sent_once_and_its_rows_stay_true(valkey: Valkey, tmp_path: Path) -> None:
    """One process, for one Django; the beats have a store of their own each, and know nothing of each other."""
    broker = f"{valkey.url.rpartition('/')[0]}/9"
    command = [
        sys.executable,
        "-m",
        "tests.integrations.celery.site",
        str(tmp_path),
        broker,
        f"sqlite:///{tmp_path}/c.db",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    start, rows = datetime.fromisoformat(told["start"]), told["rows"]
    sent: defaultdict[str, list[datetime]] = defaultdict(list)
    for text in messages(valkey):
        key = json.loads(text)["headers"]["cronce_slot"].partition("#")[0]
        sent[key.partition("@")[0].removeprefix("site:")] += instants([key])

    assert Counter(sent["tick"]) == Counter(gapless(sent["tick"], SECOND))
    assert start in sent["tick"]
    assert sorted(sent["bounded"]) == [start + 2 * SECOND, start + 3 * SECOND]
    assert {name: len(sent[name]) for name in ("one", "past", "soon", "late", "expired", "disabled", "conf")} == {
        "one": 1, "past": 1, "soon": 1, "late": 1, "expired": 0, "disabled": 0, "conf": 0,
    }  # fmt: skip
    assert sent["soon"][0] >= start + 3 * SECOND
    assert max(sent["stopped"]) < max(sent["tick"])
    assert {name: row["enabled"] for name, row in rows.items()} == {
        "tick": True, "bounded": True, "disabled": False, "one": False, "past": True, "soon": False, "late": False,
        "expired": True, "in Berlin": True, "conf": True,
    }  # fmt: skip
    for name in ("tick", "bounded"):
        assert rows[name]["total_run_count"] == len(sent[name])
        assert datetime.fromisoformat(rows[name]["last_run_at"]) == max(sent[name])
    assert told["is_ours"]


def messages(valkey: Valkey) -> list[str]:
    import redis  # noqa: PLC0415

    with redis.Redis(port=valkey.port, db=9, decode_responses=True) as client:
        return list(client.lrange("celery", 0, -1))
