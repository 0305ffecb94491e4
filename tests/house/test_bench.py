"""The benchmark harness measures what it says it does, and misses a limit when it should."""

import gc
import importlib
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import pytest

from bench import __main__ as cli
from bench import harness
from bench.harness import (
    MIN_CYCLES,
    THREAD_CPU,
    WARM_UP,
    AtLeast,
    AtMost,
    Benchmark,
    Limit,
    Meter,
    Result,
    Sides,
    Slice,
    Unavailable,
    Within,
    measure,
    orders,
)

FROZEN_HEAP = harness._frozen_heap


class Odometer:
    """A meter under the test's control: a slice costs exactly what it says it does."""

    def __init__(self) -> None:
        self.reading = 0.0
        self.meter = Meter("odometer", lambda: self.reading, unit="km")

    def drive(self, distance: float) -> Callable[[], None]:
        def run() -> None:
            self.reading += distance

        return run

    def benchmark(self, ours: float, bare: float | None, limit: Limit) -> Benchmark:
        sides = Sides(Slice(self.drive(ours)), None if bare is None else Slice(self.drive(bare)))
        return Benchmark("drive", sides, limit, note="the straight road", meter=self.meter)


@pytest.fixture(scope="module", autouse=True)
def frozen_heap(settled_heap: None) -> Iterator[None]:
    """It is frozen once: where the whole suite is loaded, each walk of it takes a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(harness, "_frozen_heap", nullcontext)
        yield


@pytest.fixture
def odometer() -> Odometer:
    return Odometer()


def spin(rounds: int) -> Callable[[], object]:
    return lambda: sum(range(rounds))


def test_a_side_that_works_three_times_as_much_is_seen_to_cost_more_than_twice() -> None:
    one, three = Slice(spin(20_000)), Slice(spin(60_000))
    slow = measure(Benchmark("slow", Sides(three, one), AtMost(2), note="a third of the rounds", meter=THREAD_CPU))
    fast = measure(Benchmark("fast", Sides(one, three), AtLeast(2), note="three times the rounds", meter=THREAD_CPU))
    assert (slow.ok, fast.ok) == (False, True)
    assert slow.figure > 2 < fast.figure


@pytest.mark.parametrize(
    ("ours", "bare", "limit", "figure", "ok"),
    [
        (2.0, 1.0, AtLeast(0.5), 0.5, True),
        (2.5, 1.0, AtLeast(0.5), 0.4, False),
        (1.0, 6.0, AtLeast(6), 6.0, True),
        (6.0, 5.0, AtMost(1.2), 1.2, True),
        (6.5, 5.0, AtMost(1.2), 1.3, False),
        (0.1, None, Within(0.125), 0.1, True),
        (0.2, None, Within(0.125), 0.2, False),
    ],
)
def test_a_limit_holds_up_to_its_bound(
    odometer: Odometer, ours: float, bare: float | None, limit: Limit, figure: float, ok: bool
) -> None:
    result = measure(odometer.benchmark(ours, bare, limit))
    assert result.figure == pytest.approx(figure)
    assert result.ok is ok
    assert result.steady


def test_sides_that_do_different_numbers_of_operations_are_compared_by_the_operation(odometer: Odometer) -> None:
    sides = Sides(ours=Slice(odometer.drive(1000), ops=1000), bare=Slice(odometer.drive(60), ops=10))
    result = measure(Benchmark("batch", sides, AtLeast(6), note="one by one", meter=odometer.meter))
    assert result.figure == pytest.approx(6)


def test_the_verdict_is_the_median_of_the_ratios_of_each_cycle() -> None:
    """The machine is four times slower in the later half, for both: only the pairs know that nothing changed."""
    result = Result(AtMost(2.5), ours=[2.0, 2.0, 8.0, 8.0, 8.0], bare=[1.0, 1.0, 4.0, 1.0, 4.0])
    assert result.figure == 2.0
    assert result.of_medians == 8.0
    assert result.quartiles == (2.0, 2.0)
    assert result.ok
    assert not result.steady


def test_what_surrounds_a_slice_is_not_counted_and_warm_up_is_not_either(odometer: Odometer) -> None:
    log: list[str] = []

    def side(name: str) -> Slice:
        def run() -> None:
            log.append(name)
            odometer.reading += 1 if len(log) > 2 * WARM_UP else 1_000_000

        return Slice(run, before=odometer.drive(500), after=odometer.drive(500))

    @contextmanager
    def opened() -> Iterator[Sides]:
        log.clear()
        yield Sides(side("ours"), side("bare"))
        log.append("closed")

    result = measure(Benchmark("hooks", opened, AtMost(1), note="the same", meter=odometer.meter))
    assert result.ours == result.bare == [1.0] * MIN_CYCLES
    assert log.pop() == "closed"
    assert log.count("ours") == log.count("bare") == MIN_CYCLES + WARM_UP


def test_the_sides_take_turns_within_every_cycle_and_lead_equally_often() -> None:
    drawn = list(orders(["ours", "bare"], 40, seed=1))
    assert all(sorted(order) == ["bare", "ours"] for order in drawn)
    assert [order[0] for order in drawn].count("ours") == 20
    assert drawn == list(orders(["ours", "bare"], 40, seed=1))
    assert drawn != list(orders(["ours", "bare"], 40, seed=2))


def test_the_garbage_collector_rests_within_a_slice_and_only_there(odometer: Odometer) -> None:
    seen: set[bool] = set()

    def run() -> None:
        seen.add(gc.isenabled())
        odometer.reading += 1

    around: set[bool] = set()
    piece = Slice(run, before=lambda: around.add(gc.isenabled()), after=lambda: around.add(gc.isenabled()))
    measure(Benchmark("gc", Sides(piece), Within(1), note="none", meter=odometer.meter))
    assert (seen, around) == ({False}, {True})


def test_the_collector_passes_over_what_was_there_before_and_only_meanwhile() -> None:
    before = gc.get_freeze_count()
    with FROZEN_HEAP():
        assert gc.get_freeze_count() > before
    assert gc.get_freeze_count() == 0
    gc.freeze()  # as the other tests have it


def test_fewer_than_forty_cycles_are_refused(odometer: Odometer) -> None:
    with pytest.raises(ValueError, match="39 cycles are too few"):
        measure(odometer.benchmark(1, 1, AtMost(1)), cycles=39)


def test_a_ratio_without_a_bare_side_is_refused(odometer: Odometer) -> None:
    with pytest.raises(ValueError, match="compares with a bare side"):
        measure(odometer.benchmark(1, None, AtMost(1)))


def test_a_slice_that_the_meter_cannot_see_is_refused(odometer: Odometer) -> None:
    with pytest.raises(ValueError, match="too short for the odometer meter"):
        measure(odometer.benchmark(0, 1, AtMost(1)))


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch, odometer: Odometer) -> dict[str, Benchmark]:
    def nowhere() -> AbstractContextManager[Sides]:
        raise Unavailable("needs a road: build one")

    known = {
        "road.good": odometer.benchmark(1, 1, AtMost(1.2)),
        "road.bad": odometer.benchmark(3, 1, AtMost(1.2)),
        "sea.absent": Benchmark("absent", nowhere, AtMost(1), note="the coast", meter=odometer.meter),
    }
    monkeypatch.setattr(cli, "discover", lambda _: known)
    return known


@pytest.mark.usefixtures("known")
class TestCommandLine:
    def test_a_missed_limit_is_exit_code_1_and_stands_in_the_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main([]) == 1
        good, bad, absent = capsys.readouterr().out.splitlines()[1:4]
        assert " ".join(good.split()) == "road.good 1 km 1 km 1.00 1.00 – 1.00 1.00 ≤ 1.2 × cost ok"
        assert bad.endswith("MISSED")
        assert absent.endswith("NOT MEASURED")

    def test_limits_that_hold_are_exit_code_0(self) -> None:
        assert cli.main(["road.good"]) == 0

    def test_what_could_not_be_measured_says_what_it_needs(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["sea"]) == 0
        assert "NOT MEASURED: needs a road: build one" in capsys.readouterr().out

    def test_json_is_one_document(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["--json", "--cycles", "50", "--seed", "7"]) == 1
        document = json.loads(capsys.readouterr().out)
        assert (document["ok"], document["cycles"], document["seed"]) == (False, 50, 7)
        assert [entry["ok"] for entry in document["benchmarks"]] == [True, False, None]
        assert document["benchmarks"][1]["figure"] == 3.0

    def test_an_unknown_name_is_exit_code_2_and_lists_the_known_ones(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["air"]) == 2
        assert capsys.readouterr().err == "no benchmark 'air'; there are: road.good, road.bad, sea.absent\n"

    def test_too_few_cycles_are_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as refused:
            cli.main(["--cycles", "5"])
        assert refused.value.code == 2
        assert "at least 40" in capsys.readouterr().err


def test_a_module_is_chosen_whole_and_the_order_stays() -> None:
    names = ["a.x", "a.y", "ab.z"]
    assert cli.select(names, []) == names
    assert cli.select(names, ["ab.z", "a"]) == names
    assert cli.select(names, ["a"]) == ["a.x", "a.y"]


def test_benchmarks_are_found_in_every_module_of_the_package(pytester: pytest.Pytester) -> None:
    package = pytester.mkpydir("some_benches")
    (package / "tools.py").write_text("NOTHING = []")
    (package / "road.py").write_text(
        "from bench.harness import *\n"
        "BENCHMARKS = [Benchmark(name, Sides(Slice(print)), Within(1), note='none') for name in ('short', 'long')]"
    )
    pytester.syspathinsert()
    assert list(cli.discover(importlib.import_module("some_benches"))) == ["road.short", "road.long"]


@pytest.mark.parametrize(
    ("amount", "text"),
    [(2.5, "2.5 s"), (0.0123, "12.3 ms"), (0.000456, "456 µs"), (7.89e-7, "789 ns"), (1e-10, "0.1 ns")],
)
def test_costs_are_told_in_a_unit_that_suits_them(amount: float, text: str) -> None:
    assert cli.cost(amount, THREAD_CPU) == text
