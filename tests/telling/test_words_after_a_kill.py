"""A host is killed with a long run on it: what is told of that run, wherever one looks, is one story."""

import json
import re
import time
import urllib.request
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, Final

import pytest

from cronce.cli import main
from tests.house.wait import PATIENCE, wait_until
from tests.web.browser.cluster import Cluster, kill
from tests.web.served import Stream

APP: Final = """
import time

from cronce import Cronce

cron = Cronce("sqlite:///cronce.db")


@cron.job(every="4s", lease="10s", overlap="skip")
def voyage() -> None:
    while True:
        time.sleep(0.05)
"""

RUNNING, GONE, ENDED, LOST = "running", "its scheduler is gone", "its lease has expired", "lost"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, schedulers=2, app=APP) as cluster:
        yield cluster


def test_everything_tells_one_story_of_a_run_whose_host_was_killed(cluster: Cluster) -> None:
    """The host was dead on the page while its run was shown as running for minutes, and the next slot was on record as
    skipped because it "still ran"."""
    wait_until(lambda: cluster.holder_of("voyage"))
    holder, slot = str(cluster.holder_of("voyage")), str(cluster.latest("voyage", "running"))
    with Stream(int(cluster.url.rpartition(":")[2])) as page_is_open:
        page_is_open.tally()
        cluster.wait_for_beats(holder, 4)  # each second, since somebody looks on
        kill(holder)
        killed = time.monotonic()
        told: list[tuple[float, str]] = []
        while not told or told[-1][1] != LOST:
            began = time.monotonic()
            told += [(began - killed, one) for one in _sampled(cluster, slot)]
            assert began - killed < PATIENCE
            time.sleep(max(0.0, began + 1 - time.monotonic()))
    stages = list(dict.fromkeys(stage for _, stage in told))
    assert [one for one in (RUNNING, GONE, ENDED, LOST) if one in stages] == stages  # it never goes back
    assert min(at for at, stage in told if stage == GONE) < 4
    _check_next_slot(cluster, slot)
    wait_until(lambda: [one["kind"] for one in cluster.ask("alerts")["alerts"]].count("lost") == 1)


def _sampled(cluster: Cluster, slot: str) -> list[str]:
    """At what stage each of them says the run is, if they were all read within one stage."""
    before = _of_runs(cluster, slot)
    others = {
        "why": _stage(_cronce(cluster, "why", slot)["slots"][0]["sentence"]),
        "page": _stage(_page(cluster, f"/runs/{slot}", 'class="verdict">(.*?)<')),
        "row": _stage(_page(cluster, "/runs?job=voyage", rf"runs/{slot}.*?</tr>")),
        "timeline": _stage(_page(cluster, "/timeline?job=voyage&by=job", rf"<title>{slot}: (?!refused)(.*?)</title>")),
        "alert": _of_alerts(cluster, slot, before),
    }
    if _of_runs(cluster, slot) != before:
        return []
    assert set(others.values()) == {before}, (before, others)
    return [before]


def _of_runs(cluster: Cluster, slot: str) -> str:
    (run,) = [one for one in _cronce(cluster, "runs", "voyage")["runs"] if one["slot"] == slot]
    assert run["host_gone"] == (GONE in str(run["fate"]))
    return _stage(f"{run['outcome']} {run['fate']}")


def _of_alerts(cluster: Cluster, slot: str, now: str) -> str:
    """An alert comes a few seconds later: none says anything else of the run."""
    texts = [one["text"] for one in cluster.ask("alerts")["alerts"] if slot in one["text"] and not one["cleared"]]
    return _stage(texts[0]) if texts else now


def _check_next_slot(cluster: Cluster, slot: str) -> None:
    later = [one for one in _cronce(cluster, "runs", "voyage")["runs"] if one["outcome"] == "skipped"]
    assert {one["reason"] for one in later if one["slot"] > slot} == {f"{slot} had not ended"}
    sentence = _cronce(cluster, "why", later[-1]["slot"])["slots"][0]["sentence"]
    assert "was gone; it was closed as lost)" in sentence


def _stage(text: str) -> str:
    if ENDED in text or "lapsed" in text:
        return ENDED
    if GONE in text:
        assert re.search(r"the lease ends in [\d.]+m?s; then it is closed as lost", text), text
        return GONE
    return LOST if re.search(r"(?<!closes it as )\blost\b", text) else RUNNING


def _cronce(cluster: Cluster, *words: str) -> dict[str, list[dict[str, Any]]]:
    printed = StringIO()
    with redirect_stdout(printed):
        assert main([*words, "--json", "--store", f"sqlite:///{cluster.folder}/cronce.db"]) == 0
    found: dict[str, list[dict[str, Any]]] = json.loads(printed.getvalue())
    return found


def _page(cluster: Cluster, way: str, pattern: str) -> str:
    with urllib.request.urlopen(f"{cluster.url}{way}", timeout=PATIENCE) as answer:
        page = answer.read().decode()
    found = re.search(pattern, page, re.DOTALL)
    assert found, page
    return found[0]
