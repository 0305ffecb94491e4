"""The scheduler's benchmark counts runs exactly, whatever the scheduler says, and misses a limit when it should."""

from pathlib import Path

import pytest

from bench.harness import AtMost, Within
from bench.scheduler import __main__ as cli
from bench.scheduler import burst
from bench.scheduler.book import Entry, Tally, exactly_once, note, percentile, read, tally
from bench.scheduler.report import Line

SLOT = 1_000.0


def starts(*at: tuple[str, float]) -> list[Entry]:
    return [Entry("start", job, instant, pid=1) for job, instant in at]


def test_a_job_that_ran_twice_and_one_that_never_ran_are_counted() -> None:
    entries = starts(("a", SLOT + 0.5), ("a", SLOT + 0.25), ("c", SLOT + 0.75))
    counted = tally(entries, ["a", "b", "c", "d"], SLOT, SLOT + 1)
    assert counted == Tally([0.25, 0.5, 0.75], extra=1, missed=2)
    with pytest.raises(AssertionError, match=r"of 2 slots 2 went wrong; .*\[\(1, 2\), \(1, 2\)\]"):
        exactly_once([counted, counted])


def test_what_belongs_to_another_slot_or_is_no_start_does_not_count() -> None:
    entries = [
        *starts(("a", SLOT - 0.1), ("a", SLOT), ("a", SLOT + 1), ("canary", SLOT)), Entry("end", "a", SLOT + 0.1, pid=1)
    ]  # fmt: skip
    counted = tally(entries, ["a"], SLOT, SLOT + 1)
    assert counted == Tally([0.0], extra=0, missed=0)
    assert exactly_once([counted]) == [counted]


@pytest.mark.parametrize(("percent", "value"), [(50, 50), (99, 99), (99.5, 100), (100, 100), (0, 1)])
def test_a_percentile_is_the_smallest_that_so_many_do_not_exceed(percent: float, value: float) -> None:
    assert percentile(range(1, 101), percent) == value


def test_a_body_appends_a_line(tmp_path: Path) -> None:
    book = tmp_path / "book"
    assert read(book) == []
    note(str(book), "a")
    note(str(book), "a", "end")
    assert [(entry.what, entry.job) for entry in read(book)] == [("start", "a"), ("end", "a")]


def test_a_ratio_is_judged_cycle_by_cycle_and_a_figure_of_a_peer_is_not_judged() -> None:
    assert Line("p99", [1.0, 4.0, 1.0], [1.0, 2.0, 1.0], AtMost(1.5)).ok
    assert not Line("p99", [2.0, 4.0, 1.0], [1.0, 2.0, 1.0], AtMost(1.5)).ok
    assert not Line("start", [2.5], limit=Within(2)).ok
    assert Line("start", peer=[40.0]).ok


def test_a_missed_limit_is_exit_code_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    slow = cli.Case(lambda size: iter([Line("start", [size], limit=Within(2))]), full=3.0, small=1.0)
    monkeypatch.setattr(cli, "CASES", {"start": slow})
    assert cli.main([]) == 1
    assert " ".join(capsys.readouterr().out.splitlines()[1].split()) == "start 3 s 3 s 3 s – 3 s ≤ 2 s MISSED"
    assert cli.main(["--small", "start"]) == 0


@pytest.mark.slow
def test_ours_is_measured_without_its_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(burst, "installed", lambda *_: False)
    p50, p99 = burst.same_second(burst.Size(jobs=20, cycles=1, period=1, shares={}))
    assert 0 < p50.ours[0] <= p99.ours[0] < 1
