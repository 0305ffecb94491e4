"""How long runs took, as a picture and in words."""

from datetime import timedelta
from xml.etree import ElementTree

import pytest

from cronce.protocol.record import Outcome
from cronce.web.markup import HEIGHT, RUNS_PLOTTED, PlotLimit, duration_svg, in_words, points_of, scale_of
from tests.web.pictures import ran, runs, skipped

SECOND = timedelta(seconds=1)


def took(*seconds: float, outcome: Outcome = Outcome.SUCCEEDED):  # type: ignore[no-untyped-def]
    return [
        ran("job", 100_000 - place * 100, started=90_000, ended=90_000 - one, outcome=outcome)
        for place, one in enumerate(seconds)
    ]


def test_a_job_that_never_ended_a_run_has_no_plot() -> None:
    assert duration_svg([runs("a", 50, "x", started=40, until=-30), skipped("a", 90)]) == ""


def test_median_and_percentile_are_those_of_the_nearest_rank() -> None:
    words = in_words(points_of(took(*range(1, 101))), [])
    assert words == (
        "The latest 100 runs that ended took 50s at the median, 1m 35s at the 95th percentile, 1m 40s at most."
        " The scale is in powers of ten."
    )


def test_one_run_is_its_own_median() -> None:
    assert in_words(points_of(took(3)), []).startswith("The latest run took 3s at the median, 3s at")


def test_it_is_said_how_many_took_longer_than_they_may() -> None:
    words = in_words(points_of(took(1, 5, 9)), [PlotLimit("lease", 4 * SECOND), PlotLimit("timeout", 60 * SECOND)])
    said = "2 of them took longer than the lease of 4s. None of them took longer than the timeout of 1m. The scale"
    assert said in words


def test_only_the_latest_are_shown_in_the_order_of_their_slots() -> None:
    points = points_of(reversed(took(*range(1, RUNS_PLOTTED + 51))))
    assert [point.took / SECOND for point in points] == list(range(51, RUNS_PLOTTED + 51))


@pytest.mark.parametrize("seconds", [(1, 2, 3), (0.001, 500), (0, 0), (90_000, 100_000)])
def test_every_point_and_line_is_within_the_picture(seconds: tuple[float, ...]) -> None:
    svg = ElementTree.fromstring(str(duration_svg(took(*seconds), 60 * SECOND, 7200 * SECOND)))
    places = [float(value) for element in svg.iter() for name in ("y", "y1") if (value := element.get(name))]
    inner = [value for value in places if value != -4.0]  # of a square around its point
    assert min(inner) >= 0
    assert max(inner) <= HEIGHT


def test_longer_is_higher() -> None:
    for seconds in ((1, 5), (1, 500)):
        scale = scale_of(points_of(took(*seconds)), [])
        assert scale(seconds[1] * SECOND) < scale(seconds[0] * SECOND)


def test_outcomes_are_told_apart_by_their_shapes() -> None:
    def shape(outcome: Outcome) -> str:
        svg = ElementTree.fromstring(str(duration_svg(took(3, outcome=outcome))))
        (found,) = [element for element in svg.iter() if element.get("class", "").startswith("point ")]
        return found.tag

    assert [shape(one) for one in (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.LOST)] == ["circle", "path", "rect"]


def test_a_point_leads_to_its_run() -> None:
    (run,) = took(3)
    svg = ElementTree.fromstring(str(duration_svg([run], link=lambda slot: f"/runs/{slot}")))
    assert [element.get("href") for element in svg.iter("a")] == [f"/runs/{run.slot.key}"]
