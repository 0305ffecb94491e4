"""Torture: every promise is kept on every store, and a broken one is seen.

A few seconds on a server and on a file; a minute on each store, many times and worse, is in `torture_proof.py`.
"""

import argparse
import json
import re
from pathlib import Path

import pytest

from cronce.cli import torture as command
from cronce.errors import StoreUnavailable
from cronce.stores import open_store
from cronce.stores.base import Scan
from cronce.torture import harness
from cronce.torture.harness import Torture, TortureResult, TortureSettings
from cronce.torture.plan import NETWORK_FAULTS, SIGNALS, Kind, plan
from cronce.torture.verdict import TortureVerdict
from tests.servers.kubernetes import Kubernetes
from tests.servers.postgres import Postgres
from tests.servers.valkey import DURABLE, Valkey

ROOT = Path(__file__).parents[2]
LEAST = command.SHORTEST_TORTURE


def seed_of(*kinds: Kind, among: tuple[Kind, ...], seconds: int) -> int:
    """Of the seeds whose plan has just these kinds of faults in it, the one whose faults are over first."""
    plans = {seed: plan(seed, seconds, 2.5, among) for seed in range(2_000)}
    ends = {
        seed: max(fault.at + fault.lasts for fault in faults)
        for seed, faults in plans.items()
        if {fault.kind for fault in faults} == {*kinds}
    }
    return min(ends, key=ends.__getitem__)


@pytest.fixture
def right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks are right, nearly: else whoever is five seconds behind is waited for."""
    monkeypatch.setattr(harness, "SKEWS", (0.4, -0.4))


def cells(url: str) -> list[str]:
    store = open_store(url)
    found = [cell.key for cell in store.scan(Scan("")).cells]
    store.close()
    return [key for key in found if "torture-" in key]


def check(result: TortureResult) -> None:
    """Green, and not because nothing happened."""
    assert [(verdict, True) for verdict in result.verdicts] == [
        (verdict, verdict.passed(forgot=result.forgot)) for verdict in result.verdicts
    ]
    skip, rerun = result.verdicts
    assert (skip.slots, rerun.slots) == (len(result.slots), len(result.slots))
    assert skip.runs + skip.lost > 0  # what is lost had begun, and may have come to its end
    assert max(skip.runs, skip.lost) <= skip.slots
    if not result.forgot:
        assert rerun.runs == rerun.slots


# --- a few seconds --------------------------------------------------------------------------------------------------


def test_a_server_behind_failing_connections(postgres: Postgres, tmp_path: Path) -> None:
    """By this seed replies are lost first, and something has run when somebody is cut off, killed and stopped."""
    result = Torture(TortureSettings(postgres.url, 6, processes=4, seed=18837), tmp_path).run()
    check(result)
    assert result.faults.keys() == {"kill", "pause", "drop", "cut"}
    assert (result.forgot, result.left_out) == (False, ())
    assert cells(postgres.url) == []


@pytest.mark.usefixtures("right")
def test_leases_of_kubernetes_behind_failing_connections(tmp_path: Path) -> None:
    """It ended with 1, as if a promise were broken: its job asked for what no Lease can keep."""
    with Kubernetes() as server:
        quiet = seed_of("drop", "delay", among=(*SIGNALS, *NETWORK_FAULTS), seconds=LEAST)
        settings = TortureSettings(server.url("jobs"), LEAST, processes=2, seed=quiet, slow=0.2)
        result = Torture(settings, tmp_path).run()
        check(result)
        assert result.faults.keys() == {"drop", "delay"}
        assert [task.overlap for task in result.tasks] == ["skip", "wait"]
        assert (result.forgot, result.left_out) == (False, ())
        assert server.names("jobs") == ["cronce-store"]


@pytest.mark.usefixtures("right")
def test_a_file_by_the_command_with_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    command.add_torture_arguments(parser)
    url, picture = f"sqlite:///{tmp_path}/cronce.db", tmp_path / "picture.svg"
    seed = seed_of("kill", "pause", "lock", among=(*SIGNALS, "lock"), seconds=LEAST)
    words = ["--url", url, "--seconds", str(LEAST), "--processes", "4", "--seed", str(seed)]
    options = parser.parse_args([*words, "--json", "--picture", str(picture)])
    assert command.run_torture(options) == 0
    told = json.loads(capsys.readouterr().out)
    assert {*TortureVerdict._fields, "seed", "faults", "forgot", "left_out", "jobs"} == told.keys()
    assert (told["slots"], told["extra"], told["missed"], told["overlapping"], told["stale_accepted"]) == (
        10,
        0,
        0,
        0,
        0,
    )
    assert (told["on_lost"], told["seed"], told["forgot"]) == ("both", seed, False)
    assert [(job["on_lost"], job["slots"]) for job in told["jobs"]] == [("skip", LEAST), ("rerun", LEAST)]
    assert told["jobs"][1]["runs"] == LEAST
    assert told["faults"].keys() <= {"kill", "pause", "lock"}
    assert told["left_out"] == ["no lost replies, latency or partitions: a sqlite: store is not reached by TCP"]
    assert picture.read_text().startswith("<svg")
    assert cells(url) == []


@pytest.mark.usefixtures("right")
def test_a_store_that_is_gone_for_good_is_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = seed_of("kill", among=(*SIGNALS, *NETWORK_FAULTS), seconds=2)
    with Valkey(*DURABLE) as server:

        def gone() -> None:
            server.kill()
            monkeypatch.setattr(harness, "SETTLE_TIMEOUT", 0.5)

        torture = Torture(TortureSettings(server.url, 2, processes=2, seed=quiet, restart=gone), tmp_path)
        with pytest.raises(StoreUnavailable) as stopped:
            torture.run()
    said = r"the store stopped answering in the middle, at [\d:]+ UTC \(\d+ s after the first slot\), so there is no"
    assert re.match(said, str(stopped.value)), stopped.value


@pytest.mark.usefixtures("right")
def test_a_broken_promise_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes with a store each run everything twice; two that swallow what they shall do miss everything."""
    monkeypatch.chdir(ROOT)
    url = f"sqlite:///{tmp_path}/cronce.db"
    settings = TortureSettings(url, 2, processes=2, worker="tests.torture.bad_workers", keep=True, slow=0.5)
    quiet = seed_of("lock", among=(*SIGNALS, "lock"), seconds=2)
    result = Torture(settings._replace(seed=quiet), tmp_path).run()
    skip, rerun = result.verdicts
    assert (skip.slots, skip.runs, skip.extra, skip.missed) == (2, 2, 2, 2)
    assert (rerun.slots, rerun.runs, rerun.extra, rerun.missed) == (2, 0, 0, 2)
    assert not result.passed
    assert len([key for key in cells(url) if key.startswith("run/")]) == 2  # kept
