"""What is found in logs, and what is not: starts and ends, paired and judged."""

from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.audit.logs.reading import found, log, report, says

UUID = "5b3b4a5e-6f0a-4b6f-9a53-0d8f3c3b1a{:02d}"
OVERLAP, TWICE, NEVER, LATE = "overlapping", "twice-started", "never-ended", "overdue"
CERTAIN, POSSIBLE = "certain", "possible"


TWO_STARTS_BEFORE_THE_FIRST_END = log("""
    14:00:00,123 INFO job_id=ORDER_SYNC START run={0}
    14:00:05,456 INFO job_id=ORDER_SYNC START run={1}
    14:00:40,000 INFO job_id=ORDER_SYNC END run={0}
    14:00:41,000 INFO job_id=ORDER_SYNC END run={1}
""")


@pytest.mark.parametrize("ids", [("1", "2"), (UUID.format(1), UUID.format(2))])
def test_a_second_start_before_the_first_end_is_certain_by_run_ids(ids: tuple[str, str]) -> None:
    text = TWO_STARTS_BEFORE_THE_FIRST_END.format(*ids)
    assert found(text) == [(OVERLAP, CERTAIN, "ORDER_SYNC", "app.log:2")]
    assert says(text) == ["started 5s333ms after that of app.log (app.log:1), which went on for 35s"]


def _pods(line: str) -> str:
    """Eight slots of two pods, pod after pod, as `kubectl logs -l app=shop --timestamps --prefix` has them."""
    lines = [
        line.format(
            pod=pod, at=f"2026-11-01T{10 + slot}:{minute:02d}:0{seconds}.000000000Z", word=word, run=f"{pod}-{slot}"
        )
        for pod, seconds in (("shop-a", 0), ("shop-b", 5))
        for slot in range(8)
        for minute, word in ((0, "START"), (1, "END"))
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "line",
    [
        "[pod/{pod}/app] {at} INFO job_id=ORDER_SYNC {word} run={run}",
        '{{"time": "{at}", "host": "{pod}", "job": "ORDER_SYNC", "event": "{word}", "run": "{run}"}}',
    ],
)
def test_pods_one_after_the_other_are_read_side_by_side(line: str) -> None:
    """Before, 8 of 8 overlaps were missed, and spans below zero were told."""
    text = _pods(line)
    assert [one[:3] for one in found(text)] == [(OVERLAP, CERTAIN, "ORDER_SYNC")] * 8
    assert all("after that of" in one and "-" not in one.split(" after")[0] for one in says(text))


def test_it_is_certain_by_host_and_process_too() -> None:
    lines = TWO_STARTS_BEFORE_THE_FIRST_END.replace("run={0}", "host=web-1 pid=7").replace(
        "run={1}", "host=web-1 pid=8"
    )
    assert found(lines) == [(OVERLAP, CERTAIN, "ORDER_SYNC", "app.log:2")]
    assert says(lines) == ["started 5s333ms after that of web-1 pid 7 (app.log:1), which went on for 35s"]


def test_without_ids_it_is_certain_once_both_ends_are_seen_and_possible_before() -> None:
    lines = TWO_STARTS_BEFORE_THE_FIRST_END.replace(" run={0}", "").replace(" run={1}", "")
    assert found(lines) == [(OVERLAP, CERTAIN, "ORDER_SYNC", "app.log:2")]
    one_end = "".join(lines.splitlines(keepends=True)[:3])
    assert found(one_end) == [(OVERLAP, POSSIBLE, "ORDER_SYNC", "app.log:2")]


def test_runs_one_after_the_other_are_no_finding_and_nor_are_two_jobs_at_once() -> None:
    assert found(log("""
        14:00:00 job=a START
        14:00:01 job=b START
        14:00:02 job=b END
        14:14:59 job=a END
        14:15:00 job=a START
        14:15:01 job=a END
    """)) == []  # fmt: skip


def test_a_run_that_died_makes_only_the_next_start_doubtful() -> None:
    """It shows no end, so the next may have overlapped; those after that say nothing new."""
    lines = log("""
        14:00:00 pid=1 job=sync START
        14:15:00 pid=2 job=sync START
        14:15:30 pid=2 job=sync END
        14:30:00 pid=2 job=sync START
        14:30:30 pid=2 job=sync END
    """)
    assert found(lines, expected=60) == [(OVERLAP, POSSIBLE, "sync", "app.log:2")]
    assert found(lines, expected=10) == [(NEVER, CERTAIN, "sync", "app.log:1")]


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12), st.sampled_from("ab")), max_size=12))
def test_exactly_the_starts_within_another_run_are_told_and_no_other(runs: list[tuple[int, int, str]]) -> None:
    """Held against counting by hand: runs of some minutes on two hosts, each start at a second of its own."""
    spans = [(60 * start + n, 60 * (start + took) + n, host) for n, (start, took, host) in enumerate(runs)]
    lines = [(start, f"host={host} job=sync START run=r{n}") for n, (start, _, host) in enumerate(spans)]
    lines += [(end, f"host={host} job=sync END run=r{n}") for n, (_, end, host) in enumerate(spans)]
    text = "".join(f"{14 + at // 3600}:{at // 60 % 60:02d}:{at % 60:02d} {line}\n" for at, line in sorted(lines))
    told = report(log(text) if text else "", within=0).findings
    overlapping = {start for start, *_ in spans if any(one < start < end for one, end, _ in spans)}
    assert {(one.kind, one.sure) for one in told} <= {(OVERLAP, CERTAIN)}
    assert sorted(
        one.mark.at.hour * 3600 + one.mark.at.minute * 60 + one.mark.at.second - 14 * 3600 for one in told
    ) == (sorted(overlapping))


def test_two_hosts_that_start_the_same_slot_are_certain_and_nearness_alone_is_possible() -> None:
    line = '{{"time":"2026-11-01T14:00:00.{}Z","event":"job_started","job":"sync","host":"web-{}"{}}}\n'
    slot = ',"slot":"2026-11-01T14:00:00Z"'
    assert found(line.format("1", 1, slot) + line.format("9", 2, slot)) == [(TWICE, CERTAIN, "sync", "app.log:2")]
    assert found(line.format("1", 1, "") + line.format("9", 2, "")) == [(TWICE, POSSIBLE, "sync", "app.log:2")]
    assert says(line.format("1", 1, slot) + line.format("9", 2, slot)) == [
        "started again for the slot 2026-11-01T14:00:00Z, 800ms after that of web-1 (app.log:1)"
    ]


def test_a_quick_run_on_each_of_two_hosts_is_seen_though_the_first_was_over() -> None:
    one, two = log("14:00:00.1 job=sync START\n14:00:00.2 job=sync END"), log("14:00:00.9 job=sync START")
    assert found({"web-1.log": one, "web-2.log": two}) == [(TWICE, POSSIBLE, "sync", "web-2.log:1")]


def test_a_job_that_runs_each_second_in_one_process_is_not_started_twice() -> None:
    lines = "".join(f"14:00:{n:02d}.0 job=tick START\n14:00:{n:02d}.1 job=tick END\n" for n in range(20))
    assert found(log(lines)) == []


def test_slots_that_are_caught_up_at_once_are_different_slots() -> None:
    line = "14:00:00.{0} host=h{0} job=sync START slot=2026-11-01T1{0}:00:00Z\n14:00:00.{0}5 host=h{0} job=sync END\n"
    assert found(log("".join(line.format(n) for n in range(1, 4)))) == []


def test_the_next_try_of_a_slot_that_failed_is_no_second_start_and_one_that_had_succeeded_is() -> None:
    lines = log("""
        14:00:00 host=a job=sync START slot=2026-11-01T14:00:00Z
        14:00:05 host=a job=sync {}
        14:01:00 host=b job=sync START slot=2026-11-01T14:00:00Z
        14:01:05 host=b job=sync END
    """)
    assert found(lines.format("FAILED")) == []
    assert found(lines.format("END")) == [(TWICE, CERTAIN, "sync", "app.log:3")]


def test_a_run_id_in_two_places_is_certain_unless_it_is_a_small_number() -> None:
    lines = log("14:00:00 host=a job=sync START run={0}\n14:00:05 host=a job=sync END run={0}\n") + log(
        "16:00:00 host=b job=sync START run={0}\n16:00:05 host=b job=sync END run={0}"
    )
    assert found(lines.format(UUID.format(1))) == [(TWICE, CERTAIN, "sync", "app.log:3")]
    assert found(lines.format("17")) == []


def test_a_small_number_is_a_run_of_its_own_on_each_host() -> None:
    lines = log("""
        14:00:00 host=a job=sync START run=1
        14:05:00 host=b job=sync START run=1
        14:06:00 host=b job=sync END run=1
        14:09:00 host=a job=sync END run=1
    """)
    assert says(lines) == ["started 5m after that of a (app.log:1), which went on for 4m"]


def test_a_log_and_its_copy_are_one_log() -> None:
    lines = log(f"14:00:00.123 job=sync START run={UUID.format(1)}\n14:00:09.456 job=sync END run={UUID.format(1)}")
    assert found({"app.log": lines, "app.log.1": lines}) == []


def test_starting_and_started_are_one_start() -> None:
    assert found(log("""
        14:00:00.1 Starting job order-sync
        14:00:00.2 Job order-sync started
        14:00:09 Job order-sync finished
    """)) == []  # fmt: skip


def test_a_start_without_an_end_within_the_expected_time_is_found_if_the_log_goes_on_for_longer() -> None:
    lines = log("""
        13:45:00 job=sync START
        13:46:00 job=sync END
        14:00:00 job=sync START
        14:{}:00 something else
    """)
    assert found(lines.format("21"), expected=20) == [(NEVER, CERTAIN, "sync", "app.log:3")]
    assert says(lines.format("21"), expected=20) == ["no end within 20m; the log goes on for 21m after the start"]
    assert found(lines.format("19"), expected=20) == []


def test_an_end_without_a_start_is_from_before_the_log() -> None:
    assert found(log("14:00:00 job=sync END\n14:15:00 job=sync START\n14:16:00 job=sync END\n18:00:00 idle")) == []


def test_an_end_that_names_only_its_run_ends_it() -> None:
    run = UUID.format(1)
    lines = log(f"14:00:00 job=sync START run={run}\n14:01:00 task=upload END run={run}\n18:00:00 idle")
    assert found(lines) == []


def test_a_run_that_goes_over_a_rotation_is_one_run() -> None:
    for old, new in (
        ("app.log.1", "app.log"),
        ("app-20261101.log", "app-20261102.log"),
        ("a/x.log.2.gz", "a/x.log.1.gz"),
    ):
        logs = {new: log("14:05:00 job=sync END\n18:00:00 idle"), old: log("14:00:00 job=sync START")}
        assert found(logs, expected=20) == []


def test_files_of_two_hosts_are_two_places_by_their_names() -> None:
    logs = {"web-1": log("14:00:00 job=sync START"), "web-2": log("14:00:01 job=sync START\n14:00:02 job=sync END")}
    assert found(logs) == [(TWICE, POSSIBLE, "sync", "web-2:1")]


def many(jobs: int) -> Iterator[str]:
    for n in count():
        yield f"2026-11-01 {n // 3600 % 24:02d}:{n // 60 % 60:02d}:{n % 60:02d} host=h{n} job=j{n % jobs} START\n"


def test_findings_are_counted_beyond_those_that_are_kept() -> None:
    lines = "".join(line for line, _ in zip(many(1), range(500), strict=False))
    told = report(lines, most=3)
    kept = [(one.kind, one.mark.line) for one in told.findings]
    assert kept == [(TWICE, 2), (TWICE, 3), (TWICE, 4)]
    assert told.counts == {(TWICE, POSSIBLE): 499}
    (job,) = told.jobs
    assert (job.starts, job.ends, job.open, job.possible) == (500, 0, 500, 499)


def test_what_is_only_possible_can_be_left_out() -> None:
    lines = log("14:00:00 host=a job=sync START\n14:00:01 host=b job=sync START\n18:00:00 idle")
    assert len(report(lines).findings) == 3
    assert report(lines, certain=True).findings == []
    assert report(lines, certain=True).counts == {}
