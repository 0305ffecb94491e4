"""Looking from Python: the documents of the command line, and the types that they are said to have."""

import json
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from types import UnionType
from typing import Any, Final, get_args, get_type_hints

import pytest

from bench.fleet import Fleet, fill
from cronce import Cronce, CronceError, slot
from cronce.cli import main
from cronce.errors import BadInput
from cronce.look import ActDocument, RunDocument, SlotDocument, StatusDocument, Upcoming, WhyDocument
from cronce.runtime.run_lists import Order
from cronce.schedule import parse_instant
from cronce.stores.base import Loaded, Page, Scan
from cronce.stores.memory import MemoryStore


@pytest.fixture
def cron(tmp_path: Path) -> Cronce:
    """A job that ran twice, one that failed, a lock that is held, and everything paused by ada."""
    cron = Cronce(f"sqlite:///{tmp_path}/cronce.db")
    sync = cron.job("*/15 * * * *", name="sync", start_within="3650d")(lambda: None)
    sync.at("2026-03-29T01:00:00Z")()
    sync.at("2026-03-29T01:15:00Z")()

    @cron.job("@daily", name="report", start_within="3650d")
    def report() -> None:
        raise RuntimeError("no paper")

    with pytest.raises(RuntimeError):
        report.at("2026-03-28T00:00:00Z")()
    cron.pause_all("a move", by="ada")
    return cron


def printed(cron: Cronce, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert main([*words, "--json", "--store", cron.place]) == 0
    return json.loads(capsys.readouterr().out)


def test_runs_are_those_of_the_command_line(cron: Cronce, capsys: pytest.CaptureFixture[str]) -> None:
    assert [run["slot"] for run in cron.look.runs()] == [
        "report@2026-03-28T00:00:00Z",
        "sync@2026-03-29T01:15:00Z",
        "sync@2026-03-29T01:00:00Z",
    ]
    assert {"runs": cron.look.runs()} == printed(cron, capsys, "runs")
    assert {"runs": cron.look.runs("sync", limit=1)} == printed(cron, capsys, "runs", "sync", "-n", "1")
    assert {"runs": cron.look.runs(by="slot")} == printed(cron, capsys, "runs", "--by", "slot")
    assert [run["reason"] for run in cron.look.runs(state="failed")] == ["RuntimeError: no paper"]


class NotingStore(MemoryStore):
    """Notes what is asked of it."""

    asked: Final[list[str]] = []

    def load(self, keys: Sequence[str]) -> Loaded:
        self.asked.append("load")
        return super().load(keys)

    def scan(self, scan: Scan) -> Page:
        self.asked.append(f"{scan.prefix} by {scan.by}")
        return super().scan(scan)


@pytest.mark.parametrize(
    ("job", "by", "asked"),
    [
        (None, "slot", ["run/ by at"]),  # it was a scan for each job
        ("reindex-00007", "ran", ["run/reindex-00007/ by key"]),  # it listed all jobs first
        ("reindex-00007", "slot", ["run/reindex-00007/ by key"]),
    ],
)
def test_runs_ask_the_store_once_however_many_jobs_there_are(job: str | None, by: Order, asked: list[str]) -> None:
    noon = datetime(2026, 3, 29, 12, tzinfo=UTC)
    store = NotingStore(clock=lambda: noon)
    fill(store, Fleet(jobs=50, runs=3, open=0, attention=0, effects=0, refused=0), noon)
    with closing(Cronce(store=store)) as cron:
        cron.look.runs(limit=1)
        store.asked.clear()
        assert len(cron.look.runs(job, by=by, limit=2)) == 2
    assert store.asked == asked


def test_why_is_that_of_the_command_line(cron: Cronce, capsys: pytest.CaptureFixture[str]) -> None:
    key = "sync@2026-03-29T01:15:00Z"
    assert cron.look.why(key) == printed(cron, capsys, "why", key)
    assert cron.look.why(slot("sync", parse_instant("2026-03-29T01:15:00Z"))) == cron.look.why(key)
    assert [one["slot"] for one in cron.look.why("report")["slots"]] == [
        one["slot"] for one in printed(cron, capsys, "why", "report")["slots"]
    ]


def test_status_is_that_of_the_command_line(cron: Cronce, capsys: pytest.CaptureFixture[str]) -> None:
    with cron.lock("reindex"):
        seen, told = cron.look.status(), printed(cron, capsys, "status")
        assert [one["name"] for one in seen["locks"]] == ["reindex"]
    assert {**seen, "now": ""} == {**told, "now": ""}
    assert seen["halted"] is not None
    assert (seen["halted"]["by"], seen["halted"]["reason"]) == ("ada", "a move")
    assert [one["job"] for one in seen["next"]] == ["sync", "report"]
    assert (seen["open"]["count"], seen["attention"]["count"], len(seen["newest"])) == (0, 0, 3)


def test_the_documents_have_the_keys_and_types_that_are_promised(cron: Cronce) -> None:
    status, why = cron.look.status(), cron.look.why("sync")
    check(RunDocument, cron.look.runs()[0])
    check(WhyDocument, why)
    check(SlotDocument, why["slots"][0])
    check(StatusDocument, status)
    check(ActDocument, status["halted"])
    check(Upcoming, status["next"][0])


def check(kind: Any, document: Any) -> None:
    """The very keys, and of each that is a plain type, or None, its type."""
    hints = get_type_hints(kind)
    assert list(document) == list(hints)
    for key, hint in hints.items():
        kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        plain = all(one in (str, int, bool, type(None)) for one in kinds)
        assert not plain or isinstance(document[key], kinds), key


def test_what_makes_no_sense_is_refused(cron: Cronce) -> None:
    with pytest.raises(CronceError, match="no job is called 'snyc'; did you mean 'sync'"):
        cron.look.runs("snyc")
    with pytest.raises(CronceError, match="no job is called 'snyc'; did you mean 'sync'"):
        cron.look.why("snyc")
    with pytest.raises(BadInput, match="'fine' is not a state or an outcome"):
        cron.look.runs(state="fine")
    with pytest.raises(BadInput, match="limit must be from 1 to 10,000, not 0"):
        cron.look.runs(limit=0)
