"""The page of figures: what is drawn, and that the page shows what was measured."""

import json
from xml.etree import ElementTree

import pytest

from bench import figures
from bench.figures import Bar, Chart

CHART = Chart("speed", "Speed", "a second", (Bar("ours", "bench", "a", "ours"), Bar("raw", "bench", "a", "raw")))
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("ours", "raw", "widths"),
    [(50.0, 100.0, [210, 420]), (10.0, 10_000.0, [2, 420])],
    ids=["side by side", "on a scale of tens"],
)
def test_bars_are_as_long_as_their_figures(ours: float, raw: float, widths: list[int]) -> None:
    tree = ElementTree.fromstring(figures.drawn(CHART, {"speed: ours": ours, "speed: raw": raw}))
    assert [int(bar.attrib["width"]) for bar in tree.iter(f"{SVG}rect")] == widths


def test_what_was_not_measured_is_not_drawn() -> None:
    tree = ElementTree.fromstring(figures.drawn(CHART, {"speed: ours": 3.0}))
    assert [text.text for text in tree.iter(f"{SVG}text")] == ["Speed", "a second", "ours", "3.0"]


@pytest.mark.parametrize(
    ("amount", "text"), [(1234567.0, "1,234,567"), (250.0, "250"), (12.34, "12"), (1.5, "1.5"), (0.0123, "0.012")]
)
def test_figures_have_two_digits_that_count(amount: float, text: str) -> None:
    assert figures.spelled(amount) == text


def test_beyond_what_was_started_is_arithmetic_from_both_ends() -> None:
    told = figures.beyond(
        {"processes: 1 processes": 3.0, "processes: 2 processes": 9.0, "processes: 64 processes": 66.0}
    )
    assert "3.0 + 1.00 × (N − 1)" in told
    assert "1,002 a second for 1,000 of them" in told


def test_the_page_and_its_plots_show_what_was_measured() -> None:
    document = json.loads(figures.KEPT.read_text())
    assert figures.PAGE.read_text(encoding="utf-8") == "".join(figures.page(document))
    drawn = {path.name: path.read_text(encoding="utf-8") for path in figures.PICTURES.glob("figures-*.svg")}
    assert drawn == {
        f"figures-{chart.name}.svg": figures.drawn(chart, document["figures"])
        for chart in figures.CHARTS
        if any(key.startswith(f"{chart.name}: ") for key in document["figures"])
    }
