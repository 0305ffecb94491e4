"""The metrics: what each event counts, that they stay bounded, and that a text comes out that Prometheus reads."""

import os
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cronce import Cronce, LockHeld, __version__
from cronce.events import Event, What
from cronce.model import Fence
from cronce.monitor.metrics import (
    HALF,
    JOB_LABELS,
    METRICS,
    Key,
    Metrics,
    ProcessSnapshots,
    Registry,
    Snapshot,
    Value,
    Values,
    exposition,
    merged,
    without_gauges,
)
from cronce.protocol.record import Outcome
from cronce.stores.memory import MemoryStore
from tests.house.wait import PATIENCE, wait_until
from tests.monitor import metrics_page
from tests.runtime.shelf import START

SLOT = "2026-03-01T00:00:00Z"
CELL = f"run/billing/{SLOT}"


def parsed(text: str) -> dict[tuple[str, ...], float]:
    """Every sample of an exposition, by its name and its labels in order, as Prometheus's own library reads it."""
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def counted(*events: Event) -> dict[tuple[str, ...], float]:
    """What is counted of these, without what stands still."""
    metrics = Metrics(Cronce(store=MemoryStore()))
    for event in events:
        metrics.hear(event)
    return {key: value for key, value in parsed(metrics.text()).items() if value and key[0] != "cronce_build_info"}


def event(what: What, detail: str = "", *, cell: str = CELL, seconds: float | None = None) -> Event:
    return Event(what, cell, "web-1:1:a", START, Fence(1, 1), detail, seconds)


# --- what is counted ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "detail", "cell", "counts"),
    [
        (What.GRANTED, "", CELL, {("cronce_claims_total", "job=billing", "result=won"): 1}),
        (
            What.TAKEN_OVER,
            "from web-2:7:b",
            CELL,
            {("cronce_claims_total", "job=billing", "result=won"): 1, ("cronce_takeovers_total", "job=billing"): 1},
        ),
        (What.REFUSED, "held by web-2:7:b", CELL, {("cronce_claims_total", "job=billing", "result=lost"): 1}),
        (What.REFUSED, "succeeded: ", CELL, {("cronce_claims_total", "job=billing", "result=lost"): 1}),
        (What.REFUSED, "too old: up to…", CELL, {("cronce_claims_total", "job=billing", "result=refused"): 1}),
        (What.REFUSED, "paused", CELL, {("cronce_claims_total", "job=billing", "result=refused"): 1}),
        (What.REFUSED, "superseded by …", CELL, {("cronce_claims_total", "job=billing", "result=refused"): 1}),
        (What.CLOSED, "lost: its holder …", CELL, {("cronce_slots_lost_total", "job=billing"): 1}),
        (What.CLOSED, "unknown: nobody…", CELL, {("cronce_slots_unknown_total", "job=billing"): 1}),
        (What.CLOSED, "succeeded", CELL, {}),
        (What.LATE, "by 7s", CELL, {("cronce_late_total", "job=billing"): 1}),
        (What.OVERRUN, "runs for longer", CELL, {("cronce_overrun_total", "job=billing"): 1}),
        (What.STALE, "web-2:7:b", CELL, {("cronce_stale_total",): 1}),
        (What.STALE, "web-2:7:b", "lock/reindex", {("cronce_stale_total",): 1}),
        (What.MISSED, "8 slots up to …", "job/billing", {("cronce_slots_missed_total", "job=billing"): 8}),
        (What.MISSED, "1 slot up to …", "job/billing", {("cronce_slots_missed_total", "job=billing"): 1}),
        (What.GRANTED, "", "lock/reindex", {("cronce_lock_claims_total", "kind=lock", "result=won"): 1}),
        (What.REFUSED, "held by x", "lock/a", {("cronce_lock_claims_total", "kind=lock", "result=lost"): 1}),
        (What.TAKEN_OVER, "from x", "leader/a", {("cronce_lock_claims_total", "kind=leader", "result=won"): 1}),
        (What.DOUBLED, "2 within 10s", "observed/billing", {("cronce_doubled_total", "job=billing"): 1}),
        (What.SILENT, "no route", "the store", {("cronce_store_silent_total",): 1}),
        (What.REGISTERED, "be5b0c1d", "job/billing", {}),
        (What.FORGOT, "found", "meta", {}),
    ],
)
def test_what_an_event_counts(what: What, detail: str, cell: str, counts: Mapping[tuple[str, ...], float]) -> None:
    assert counted(event(what, detail, cell=cell)) == counts


def test_every_outcome_of_a_run_has_a_label_and_its_duration_a_place_in_a_histogram() -> None:
    outcomes = [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.UNKNOWN, "given back"]
    found = counted(*(event(What.ENDED, outcome, seconds=3.0) for outcome in outcomes))
    assert {key: value for key, value in found.items() if key[0] == "cronce_runs_ended_total"} == {
        ("cronce_runs_ended_total", "job=billing", f"outcome={outcome}"): 1 for outcome in outcomes
    }
    buckets = {key[-1]: value for key, value in found.items() if key[0] == "cronce_run_duration_seconds_bucket"}
    assert (buckets.get("le=1.0"), buckets["le=5.0"], buckets["le=+Inf"]) == (None, 4, 4)
    assert found["cronce_run_duration_seconds_sum", "job=billing"] == 12
    assert found["cronce_run_duration_seconds_count", "job=billing"] == 4


def test_only_the_first_start_of_a_slot_of_the_schedule_tells_how_late_it_was() -> None:
    found = counted(
        event(What.STARTED, "attempt 1", seconds=0.025),  # on the edge of a bucket: within it
        event(What.STARTED, "attempt 2", seconds=70.0),
        event(What.STARTED, "attempt 1", cell=f"{CELL}#rerun-1", seconds=86_400.0),
    )
    assert found["cronce_runs_started_total", "job=billing"] == 3
    assert found["cronce_slot_to_start_seconds_count", "job=billing"] == 1
    assert found["cronce_slot_to_start_seconds_bucket", "job=billing", "le=0.025"] == 1
    assert ("cronce_slot_to_start_seconds_bucket", "job=billing", "le=0.01") not in found


# --- a real application, whose events are real ----------------------------------------------------------------------


def test_what_an_application_does_is_counted_exactly(tmp_path: Path) -> None:
    cron, began = Cronce(f"sqlite:///{tmp_path}/cronce.db"), time.monotonic()
    metrics = Metrics(cron)
    good = cron.job("0 0 1 3 *", name="good", start_within="3650d")(lambda: None)
    bad = cron.job("0 0 1 3 *", name="bad", start_within="3650d")(lambda: 1 / 0)
    slots = ["2025-03-01T00:00:00Z", "2026-03-01T00:00:00Z"]
    with cron:
        for at in slots:
            good.at(at)()
        good.at(slots[0])()
        with pytest.raises(ZeroDivisionError):
            bad.at(slots[1])()
        cron.pause("good")
        good.at("2024-03-01T00:00:00Z")()
        with cron.lock("reindex"):
            with pytest.raises(LockHeld):
                cron.lock("reindex").__enter__()
            held = parsed(metrics.text())
        found = parsed(metrics.text())
    took = time.monotonic() - began
    for labels, number in {
        ("cronce_claims_total", "job=good", "result=won"): 2,
        ("cronce_claims_total", "job=good", "result=lost"): 1,
        ("cronce_claims_total", "job=good", "result=refused"): 1,
        ("cronce_claims_total", "job=bad", "result=won"): 1,
        ("cronce_runs_ended_total", "job=good", "outcome=succeeded"): 2,
        ("cronce_runs_ended_total", "job=bad", "outcome=failed"): 1,
        ("cronce_lock_claims_total", "kind=lock", "result=won"): 1,
        ("cronce_lock_claims_total", "kind=lock", "result=lost"): 1,
        ("cronce_leases_held", "kind=run"): 0,
        ("cronce_leases_held", "kind=lock"): 0,
        ("cronce_store_up",): 1,
        ("cronce_build_info", f"version={__version__}"): 1,
    }.items():
        assert (labels, found.get(labels)) == (labels, number)
    assert held["cronce_leases_held", "kind=lock"] == 1
    assert held["cronce_lease_age_seconds", "kind=lock"] > 0 == found["cronce_lease_age_seconds", "kind=lock"]
    assert 0.4 < held["cronce_lease_left_ratio", "kind=lock"] < 1
    assert ("cronce_lease_left_ratio", "kind=lock") not in found
    assert abs(found["cronce_clock_skew_seconds",]) < 1 + took  # one machine, of which an answer may take its time
    calls = {key[1] for key in found if key[0] == "cronce_store_round_trip_seconds_count"}
    assert calls >= {"call=load", "call=swap"}
    assert 0 < found["cronce_store_round_trip_seconds_sum", "call=swap"] < took


class Slow(MemoryStore):
    """A store that takes its time to say how large it is."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may_answer = 0, threading.Event()

    def size(self) -> int:
        self.asked += 1
        assert self.may_answer.wait(60)
        return 42


def test_how_large_the_store_is_is_asked_once_a_minute_and_nobody_waits_for_it() -> None:
    store = Slow()
    cron = Cronce(store=store)
    metrics = Metrics(cron)
    with cron:
        assert ("cronce_cells",) not in parsed(metrics.text())
        cron.at_work()
        assert ("cronce_cells",) not in parsed(metrics.text())
        wait_until(lambda: store.asked)
        assert ("cronce_cells",) not in parsed(metrics.text())
        store.may_answer.set()
        wait_until(lambda: parsed(metrics.text()).get(("cronce_cells",)) == 42)
        assert store.asked == 1


# --- bounds ---------------------------------------------------------------------------------------------------------


def test_jobs_beyond_the_first_share_a_label_and_none_ever_changes_over() -> None:
    registry = Registry()
    for number in range(JOB_LABELS + 50):
        registry.count("cronce_late_total", f"job{number}")
    registry.count("cronce_late_total", "job7")
    registry.count("cronce_late_total", f"job{JOB_LABELS}")
    found = registry.read()
    assert len(found) == JOB_LABELS + 1
    assert (found["cronce_late_total", "job7"], found["cronce_late_total", "other"]) == (2, 51)
    successor = Registry(found)
    successor.count("cronce_late_total", "another")
    assert successor.read()["cronce_late_total", "other"] == 52


def test_the_fullest_snapshot_fits_on_its_slate() -> None:
    """All metrics by job, of as many jobs as have a label, with the longest names there can be and large numbers."""
    words = ("succeeded", "failed", "skipped", "lost", "unknown", "given back", "not known yet")
    values: dict[Key, Value] = {}
    for job in (f"{number:0>128}" for number in range(JOB_LABELS + 1)):
        for metric in (metric for metric in METRICS.values() if metric.labels[:1] == ("job",)):
            if metric.kind == "histogram":
                values[metric.name, job] = [1e12 / 3, *[10**12] * (len(metric.buckets) + 1)]
            else:
                values |= {
                    (metric.name, job, word): 10**12 for word in (words if len(metric.labels) > 1 else words[:1])
                }
    slates = ProcessSnapshots(1)
    slates.write(0, Snapshot(1e6 / 3, values))
    assert slates.read(0) == Snapshot(1e6 / 3, values)


def test_many_threads_lose_no_count() -> None:
    registry = Registry()

    def work() -> None:
        for _ in range(2000):
            registry.count("cronce_late_total", "billing")
            registry.observe("cronce_run_duration_seconds", 0.5, "billing")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = registry.read()
    assert found["cronce_late_total", "billing"] == 8000
    assert found["cronce_run_duration_seconds", "billing"] == [4000, 0, 0, 8000, *[0] * 13]


def test_a_forked_child_counts_from_nothing_even_if_a_thread_held_the_lock() -> None:
    metrics = Metrics(Cronce(store=MemoryStore()))
    metrics.hear(event(What.LATE))
    with metrics._registry._lock:
        pid = os.fork()
        if not pid:
            signal.alarm(round(PATIENCE))
            metrics.hear(event(What.LATE))
            os._exit(int(metrics._registry.read() != {("cronce_late_total", "billing"): 1}))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


# --- several processes ----------------------------------------------------------------------------------------------


def test_counters_and_histograms_add_up_and_gauges_go_by_their_rule() -> None:
    histogram = [0.0] * (len(METRICS["cronce_run_duration_seconds"].buckets) + 2)
    one: Values = {
        ("cronce_late_total", "a"): 2,
        ("cronce_run_duration_seconds", "a"): [1.5, 1, *histogram[2:]],
        ("cronce_leases_held", "run"): 2,
        ("cronce_lease_age_seconds", "run"): 7.0,
        ("cronce_store_up",): 1,
        ("cronce_clock_skew_seconds",): 0.1,
        ("cronce_schedulers_live",): 2,
    }
    two: Values = {
        ("cronce_late_total", "a"): 3,
        ("cronce_late_total", "b"): 1,
        ("cronce_run_duration_seconds", "a"): [0.5, 2, *histogram[2:]],
        ("cronce_leases_held", "run"): 1,
        ("cronce_lease_age_seconds", "run"): 3.0,
        ("cronce_store_up",): 0,
        ("cronce_clock_skew_seconds",): -0.3,
        ("cronce_schedulers_live",): 3,
    }
    assert merged([one, two]) == {
        ("cronce_late_total", "a"): 5,
        ("cronce_late_total", "b"): 1,
        ("cronce_run_duration_seconds", "a"): [2.0, 3, *histogram[2:]],
        ("cronce_leases_held", "run"): 3,
        ("cronce_lease_age_seconds", "run"): 7.0,
        ("cronce_store_up",): 0,
        ("cronce_clock_skew_seconds",): -0.3,
        ("cronce_schedulers_live",): 3,
    }
    assert {key[0] for key in without_gauges(one)} == {"cronce_late_total", "cronce_run_duration_seconds"}


def test_a_writer_that_is_killed_in_the_middle_leaves_the_snapshot_before() -> None:
    slates = ProcessSnapshots(2)
    assert slates.read(1) is None
    for number in (1, 2, 3):
        slates.write(1, Snapshot(float(number), {("cronce_stale_total",): number}))
        assert slates.read(1) == Snapshot(float(number), {("cronce_stale_total",): number})
    assert slates.read(0) is None
    older, newer = (slates._memory.find(text, 2 * HALF) for text in (b"[2.0", b"[3.0"))
    slates._memory[older : older + 4] = b"[4.0"  # where the fourth is to stand, and it came as far as this
    assert slates.read(1) == Snapshot(3.0, {("cronce_stale_total",): 3})
    slates._memory[older : older + 4] = b"[2.0"
    slates._memory[newer : newer + 4] = b"[5.0"  # overtaken by two, of which the second is not done
    assert slates.read(1) == Snapshot(2.0, {("cronce_stale_total",): 2})


def test_who_reads_while_another_writes_never_sees_half_of_it() -> None:
    """A process writes as fast as it can, snapshots of which every value is the same number; and is then killed."""
    slates = ProcessSnapshots(1)
    pid = os.fork()
    if not pid:
        number = 0
        while True:
            number += 1
            values: Values = {("cronce_late_total", f"job{place}"): number for place in range(100)}
            slates.write(0, Snapshot(float(number), values))
    seen: list[float] = []
    try:
        wait_until(lambda: slates.read(0) is not None)
        while len(seen) < 300 or seen[0] == seen[-1]:  # whoever writes may have to wait for longer than that takes
            snapshot = slates.read(0)
            if snapshot is not None:
                assert {snapshot.at} == set(snapshot.values.values())
                seen.append(snapshot.at)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    assert seen == sorted(seen)
    assert slates.read(0) is not None


# --- the text -------------------------------------------------------------------------------------------------------


def test_every_metric_is_announced_and_nothing_else() -> None:
    families = list(text_string_to_metric_families(exposition({})))
    suffix = {metric.name.removesuffix("_total"): metric for metric in METRICS.values()}
    assert {family.name: (family.type, family.documentation) for family in families} == {
        name: (metric.kind, metric.help) for name, metric in suffix.items()
    }


def test_labels_are_escaped() -> None:
    text = exposition({("cronce_late_total", 'a\\b"c\nd'): 1})
    assert 'cronce_late_total{job="a\\\\b\\"c\\nd"} 1\n' in text
    assert parsed(text) == {("cronce_late_total", 'job=a\\b"c\nd'): 1}


def test_the_page_of_metrics_is_made_of_the_catalogue() -> None:
    page = Path(metrics_page.PAGE)
    assert page.read_text() == metrics_page.text(), "python -m tests.monitor.metrics_page > docs/reference/metrics.md"
