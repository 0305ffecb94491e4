"""/metrics of `cronce run`, and its log, over a life: slots run, a process is killed, another takes its place."""

import json
import os
import re
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

import cronce.cli.health
from cronce import Cronce
from cronce.cli import main
from cronce.cli.health import ANSWER_FRESH, ProcessHealth
from cronce.clock import SystemClock
from cronce.monitor.metrics import METRICS, Snapshot
from cronce.runtime.scheduling.scheduler import SchedulerHealth
from cronce.stores.memory import MemoryStore
from tests.house.wait import PATIENCE, wait_until
from tests.runtime.scheduling.life.town import Line, Town, children, ended

Samples = dict[tuple[str, ...], float]
JOBS = 2

pytestmark = pytest.mark.xdist_group("metrics")  # they share a life of several seconds


class Life(NamedTuple):
    """Three processes of two applications whose slots come to an end: two that are asked for numbers and log JSON, and
    one that logs text."""

    town: Town
    foreman: subprocess.Popen[str]
    url: str
    log: Path
    alone: Town
    text: Path

    def metrics(self) -> Samples:
        return samples(asked(self.url)[1])

    def done(self) -> list[Line]:
        return self.town.lines("end")


def asked(url: str, method: str = "GET") -> tuple[str, str]:
    """The content type and the text."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)
    try:
        connection.request(method, "/metrics")
        answer = connection.getresponse()
        assert answer.status == 200
        return answer.headers["Content-Type"], answer.read().decode()
    finally:
        connection.close()


def samples(text: str) -> Samples:
    """As Prometheus's own library reads them, by name and labels in order."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def counters(found: Samples) -> Samples:
    return {key: value for key, value in found.items() if key[0].endswith(("_total", "_count", "_sum", "_bucket"))}


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    """Its slots come to an end after some seconds; after more of them where the processes were not up in time."""
    for seconds in (4, 12, 36):
        with lived(tmp_path_factory, timedelta(seconds=seconds)) as life:
            if {line.job for line in life.done()} == {"job0", "job1"} and life.alone.lines("end"):
                yield life
                return
    raise AssertionError("they never ran anything")


@contextmanager
def lived(folders: pytest.TempPathFactory, long: timedelta) -> Iterator[Life]:
    end = datetime.now(UTC) + long
    last = end.isoformat(timespec="seconds")
    town = Town(folders.mktemp("town"), jobs=JOBS, end=last)
    alone = Town(folders.mktemp("alone"), end=last)
    log, text = town.folder / "log", alone.folder / "log"
    try:
        with log.open("w") as stream, text.open("w") as other:
            foreman = town.run("-n", "2", "--health", "0", "--log-json", stdout=stream, stderr=stream)
            alone.run(stdout=other, stderr=other)
        wait_until(lambda: "report their health" in log.read_text())
        url = re.findall(r"http://\S+(?=/healthz)", log.read_text())[0]
        wait_until(lambda: datetime.now(UTC) > end and is_over(town, end, 2) and is_over(alone, end, 1))
        wait_until(lambda: is_logged(town, log) and is_logged(alone, text))
        yield Life(town, foreman, url, log, alone, text)
    finally:
        town.close()
        alone.close()


def is_logged(town: Town, log: Path) -> bool:
    """A line in the log comes after that in the book."""
    return log.read_text().count("Z ended: ") == len(town.lines("end"))


def is_over(town: Town, end: datetime, schedulers: int) -> bool:
    """All are there, and have run the last slot of each job; or none, since they came too late for any."""
    over = town.lines("end")
    last = {line.job for line in over if datetime.fromisoformat(line.slot) == end.replace(microsecond=0)}
    done = len(over) == len(town.lines("start")) and last == {line.job for line in over}
    return done and (town.folder / "cronce.db").exists() and len(town.holders()) == schedulers


def test_as_many_as_ran_are_counted_and_none_is_forgotten_when_a_process_is_killed(life: Life) -> None:
    ran = {f"job{number}": sum(line.job == f"job{number}" for line in life.done()) for number in range(JOBS)}
    exact = {
        (name, job, *label): number
        for job, number in ran.items()
        for name, *label in (
            ("cronce_claims_total", "won"),
            ("cronce_runs_started_total",),
            ("cronce_runs_ended_total", "succeeded"),
            ("cronce_slot_to_start_seconds_count",),
            ("cronce_run_duration_seconds_count",),
        )
    }
    assert all(ran.values())

    def counted() -> bool:
        return {key: life.metrics().get(key) for key in exact} == exact

    wait_until(counted)
    gauges = (("cronce_schedulers_live",), ("cronce_store_up",), ("cronce_leases_held", "run"))
    wait_until(lambda: [life.metrics().get(gauge) for gauge in gauges] == [2, 1, 0])
    seen = [counters(life.metrics())]
    killed = life.done()[0].pid
    assert killed in children(life.foreman.pid)
    os.kill(killed, signal.SIGKILL)

    def replaced() -> bool:
        seen.append(counters(life.metrics()))
        return len(life.town.holders().keys() & set(children(life.foreman.pid)) - {killed}) == 2

    wait_until(replaced)
    for before, after in pairwise(seen):
        assert {key: (value, after.get(key)) for key, value in before.items() if after.get(key, -1) < value} == {}
    assert counted()


def test_it_says_what_it_is_and_shows_only_what_is_declared(life: Life) -> None:
    kind, text = asked(life.url)
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    assert asked(life.url, "HEAD") == (kind, "")
    families = {family.name for family in text_string_to_metric_families(text)}
    assert families == {name.removesuffix("_total") for name in METRICS}
    assert "sqlite" not in text
    assert os.uname().nodename not in text


def test_of_one_that_is_gone_or_silent_only_what_it_counted_is_told() -> None:
    health, boot = ProcessHealth(2), SystemClock().boot
    for place in (0, 1):
        health._slates.write(place, Snapshot(boot(), {("cronce_stale_total",): 2, ("cronce_leases_held", "run"): 3}))
    both: Samples = {("cronce_stale_total",): 4}
    assert samples(health.metrics()) == both
    health.note(0, SchedulerHealth(boot(), boot(), joined=True, claims=True))
    assert samples(health.metrics()) == {**both, ("cronce_leases_held", "run"): 3}
    health._slates.write(
        0, Snapshot(boot() - ANSWER_FRESH - 1, {("cronce_stale_total",): 3, ("cronce_leases_held", "run"): 3})
    )
    assert samples(health.metrics()) == {("cronce_stale_total",): 5}


def test_who_cannot_count_still_says_that_it_lives(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cronce.cli.health, "PULSE", 0.01)
    health, cron = ProcessHealth(1), Cronce(store=MemoryStore())
    begin = health.watch(0, cron)
    monkeypatch.setattr(health, "_slates", None)
    with cron:
        scheduler = cron.start()
        begin(scheduler)
        wait_until(lambda: health.read()[0].joined)
    assert "the metrics of this process cannot be read" in caplog.text


def test_what_it_counted_is_noted_at_its_end_too(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[int] = []
    cron, health = Cronce(store=MemoryStore()), ProcessHealth(1)
    monkeypatch.setattr(health._slates, "write", lambda _place, _snapshot: noted.append(threading.get_ident()))
    begin = health.watch(0, cron)
    with cron:
        begin(cron.start())
        wait_until(lambda: noted)
    assert noted[-1] != noted[0]


def logged(capsys: pytest.CaptureFixture[str], log: Path) -> tuple[int, list[object], dict[str, tuple[int, int]]]:
    """What `cronce logs` says of it: its exit code, what it found, and how often each job started and ended."""
    code = main(["logs", "--json", str(log)])
    told = json.loads(capsys.readouterr().out)
    return code, told["findings"], {one["job"]: (one["starts"], one["ends"]) for one in told["jobs"]}


def test_the_log_of_one_process_is_paired_by_cronce_logs(life: Life, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for line in life.text.read_text().splitlines() if "@" in line]
    number = len(life.alone.lines("end"))
    started, over = (
        [line for line in lines if re.search(rf" INFO job0@\S+Z {word} fence=\S+ holder=\S+$", line)]
        for word in (r"started: attempt 1, -?\d+\.\d{3}s after it was due", r"ended: succeeded after \d+\.\d{3}s")
    )
    assert (len(started), len(over)) == (number, number)
    assert logged(capsys, life.text) == (0, [], {"job0": (number, number)})


def test_the_log_of_several_in_json_is_paired_too(life: Life, capsys: pytest.CaptureFixture[str]) -> None:
    objects = [json.loads(line) for line in life.log.read_text().splitlines() if line.startswith("{")]
    facts = [one for one in objects if one.get("what") in ("started", "ended")]
    lines = {(line.job, line.slot, line.pid) for line in life.done()}
    for what in ("started", "ended"):
        assert {(one["job"], one["slot"], one["pid"]) for one in facts if one["what"] == what} == lines
    for one in facts:
        assert one["run"] == f"{one['job']}@{one['slot']}"
        assert one["holder"].split(":")[1] == str(one["pid"])
        assert one["logger"] == "cronce"
        assert one["level"] == "INFO"
        assert isinstance(one["seconds"], float)
        assert re.fullmatch(r"[0-9a-f]{14}-[0-9a-f]{12}", one["fence"])
    numbers = Counter(line.job for line in life.done())
    assert logged(capsys, life.log) == (0, [], {job: (number, number) for job, number in numbers.items()})


def test_it_ends_in_peace(life: Life) -> None:
    life.foreman.send_signal(signal.SIGTERM)
    assert ended(life.foreman)[0] == 0
