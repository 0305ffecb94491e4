"""How sure a finding in logs is: what speaks against it is said."""

import pytest

from tests.audit.logs.reading import found, log, says

OVERLAP, TWICE, NEVER, LATE = "overlapping", "twice-started", "never-ended", "overdue"
CERTAIN, POSSIBLE = "certain", "possible"


def test_two_hosts_have_two_clocks_which_are_trusted_to_within() -> None:
    first = log("14:00:00.000 job=sync START\n14:01:00.000 job=sync END")
    second = log("14:00:{} job=sync START\n14:02:00.000 job=sync END")
    assert found({"web-1/a.log": first, "web-2/a.log": second.format("57.000")}) == [
        (OVERLAP, CERTAIN, "sync", "web-2/a.log:1")
    ]
    assert found({"web-1/a.log": first, "web-2/a.log": second.format("59.500")}) == [
        (OVERLAP, POSSIBLE, "sync", "web-2/a.log:1")
    ]
    at_once = second.replace("14:00:{}", "14:01:00.000")
    assert found({"web-1/a.log": first, "web-2/a.log": at_once}) == []
    assert found({"web-2/a.log": at_once, "web-1/a.log": first}) == []


def test_in_one_file_the_order_of_lines_counts_where_stamps_are_too_coarse() -> None:
    lines = log("""
        14:00:00 job=sync START run=1
        14:00:00 job=sync START run=2
        14:00:00 job=sync END run=1
        14:00:00 job=sync END run=2
    """)
    assert found(lines) == [(OVERLAP, CERTAIN, "sync", "app.log:2")]


@pytest.mark.parametrize(
    ("one", "two", "sure"),
    [
        ("tenant=a", "tenant=b", POSSIBLE),
        ("tenant=a rows=3", "tenant=a", CERTAIN),
        ("tenant=a", "", CERTAIN),
        ("vendor=a account=1", "vendor=a account=2", POSSIBLE),
        ("thread=1 trace_id=5 requestId=7", "thread=2 trace_id=6 requestId=8", CERTAIN),
    ],
)
def test_runs_that_differ_in_what_else_is_named_may_be_meant_to_run_at_once(one: str, two: str, sure: str) -> None:
    lines = log(f"""
        02:00:00 Job import {one} started
        02:00:05 Job import {two} started
        02:10:00 Job import {one} finished
        02:11:00 Job import {two} finished
    """)
    assert found(lines) == [(OVERLAP, sure, "import", "app.log:2")]
    if sure == POSSIBLE:
        differ = one.rpartition("=")[0].rpartition(" ")[2]
        assert says(lines)[0].endswith(f"; they differ in {differ}: are they meant to run at once?")


def test_how_near_is_said_by_within() -> None:
    lines = {"web-1.log": log("14:00:00 job=sync START"), "web-2.log": log("14:00:03 job=sync START")}
    assert found(lines, within=3) == [(TWICE, POSSIBLE, "sync", "web-2.log:1")]
    assert [kind for kind, *_ in found(lines, within=2)] == [OVERLAP]


def test_the_same_line_twice_may_be_two_handlers_of_one_log_and_is_never_certain() -> None:
    lines = log("14:00:00.123 job=sync START\n" * 2 + "14:00:09.456 job=sync END\n" * 2)
    assert [one[:2] for one in found(lines)] == [(OVERLAP, POSSIBLE)]
    assert says(lines)[0].endswith("; the same line twice: two runs, or two handlers of one log")


def test_where_no_run_of_the_job_shows_an_end_it_is_only_possible() -> None:
    lines = log("14:00:00 job=sync START\n15:30:00 something else")
    assert found(lines, expected=20) == [(NEVER, POSSIBLE, "sync", "app.log:1")]
    assert found(lines) == [(NEVER, POSSIBLE, "sync", "app.log:1")]


def test_a_log_that_breaks_off_while_others_go_on_is_possible() -> None:
    broken = log("13:00:00 job=sync START\n13:01:00 job=sync END\n14:00:00 job=sync START")
    logs = {"web-1.log": broken, "web-2.log": log("16:00:00 all is well")}
    assert found(logs, expected=20) == [(NEVER, POSSIBLE, "sync", "web-1.log:3")]
    assert found({"web-1.log": broken, "web-2.log": log("14:10:00 all is well")}, expected=20) == []


def test_an_end_that_comes_late_is_overdue_if_somebody_said_what_is_expected() -> None:
    lines = log("14:00:00 job=sync START\n16:00:00 job=sync END")
    assert found(lines, expected=20) == [(LATE, CERTAIN, "sync", "app.log:1")]
    assert says(lines, expected=20) == ["ended after 2h, and 20m were expected"]
    assert found(lines) == found(lines, expected=120) == []
