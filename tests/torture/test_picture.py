"""The picture shows every run, every slot and every fault, and needs nothing but itself."""

import re
from collections import Counter
from collections.abc import Iterable
from xml.etree import ElementTree

import pytest

from cronce.testing.ledger_file import parse
from cronce.torture.picture import FAULT_LEGEND, RUN_LEGEND, SLOT_LEGEND, STYLE, Bar, bars, html, outcome, svg
from tests.torture.results import RERUN, SKIP, key, result

SVG = "{http://www.w3.org/2000/svg}"


def drawn(text: str) -> Counter[str]:
    """How many boxes there are of each kind, beside those of the legend."""
    boxes = ElementTree.fromstring(text).iter(f"{SVG}rect")
    return Counter(box.get("class") or "" for box in boxes if box.find(f"{SVG}title") is not None)


def test_every_run_is_a_bar_from_its_start_to_its_end() -> None:
    assert list(bars(result(), SKIP)) == [
        Bar("w1", key(SKIP, 0), 100.1, 100.5, "succeeded"),
        Bar("w2", key(SKIP, 1), 101.1, 101.5, "ended"),  # when it was killed
    ]
    assert list(bars(result(), RERUN)) == [
        Bar("w2", key(RERUN, 0), 100.1, 100.2, "succeeded"),
        Bar("w1", key(RERUN, 1), 101.0, 103.0, "overtaken"),
        Bar("w3", key(RERUN, 1), 103.5, 103.9, "again"),
    ]


def test_everything_is_drawn_once() -> None:
    counts = drawn(svg(result()))
    assert {kind: counts[kind] for kind in ("ended", "overtaken", "again")} == {"ended": 1, "overtaken": 1, "again": 1}
    assert counts["succeeded"] == 2 + 6  # runs, and slots on record
    assert {kind: counts[kind] for kind in ("lost", "skipped", "missed")} == {"lost": 1, "skipped": 1, "missed": 2}
    assert [counts[f"deed {kind}"] for kind in ("kill", "pause", "outage")] == [1, 1, 1]


def test_a_slot_without_a_record_is_missed_or_forgotten() -> None:
    assert outcome(result(), key(SKIP, 4)) == "missed"
    assert outcome(result(forgot=True), key(SKIP, 4)) == "unknown"
    assert outcome(result(), key(SKIP, 1)) == "lost"


def test_the_verdicts_stand_above_it_good_and_bad() -> None:
    texts = {text.text: text.get("class") for text in ElementTree.fromstring(svg(result())).iter(f"{SVG}text")}
    skip = "on_lost=skip: 5 slots: 1 ran, 1 skipped, 0 failed, 1 lost, 0 unknown, 2 missed; extra 0, overlapping 0"
    assert texts[f"{skip}, stale accepted 0, taken over 0"] == "bad-text"
    assert [tone for text, tone in texts.items() if text and text.startswith("on_lost=rerun")] == ["good-text"]


@pytest.mark.parametrize("draw", [svg, html])
def test_it_needs_nothing_but_itself_and_is_light_and_dark(draw: object) -> None:
    text = svg(result()) if draw is svg else html(result())
    assert text.count("http") == 1  # the name of the language
    assert "prefers-color-scheme: dark" in text
    assert "<script" not in text
    assert ("<!doctype html>" in text) is (draw is html)


def placed(text: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(text).iter(f"{SVG}{tag}"))


def test_no_line_is_cut_off_however_short_it_was() -> None:
    drawing = svg(result())
    width = float(ElementTree.fromstring(drawing).get("width", ""))
    started = [text for text in placed(drawing, "text") if text.get("text-anchor") == "start"]
    ends = [float(text.get("x", "")) + 7 * len(text.text or "") for text in started]
    assert [end for end in ends if end > width] == []


def test_what_happens_before_the_first_slot_and_after_the_last_is_within_the_grid() -> None:
    """A clock that is read by the second lets the first runs seem early; the last are taken over late."""
    early = parse(f"{what} w1 {key(SKIP, 0)} f1 1 {when}" for what, when in (("start", 99.3), ("done", 99.9)))
    late = parse(f"{what} w2 {key(RERUN, 2)} f4 1 {when}" for what, when in (("start", 111.0), ("done", 111.5)))
    drawing = svg(result(lines=(*early, *late)))
    labels = [text.text for text in placed(drawing, "text") if text.get("text-anchor") == "middle"]
    assert labels == [f"{second} s" for second in range(-1, 13)]
    grid = [float(line.get("x1", "")) for line in placed(drawing, "line")]
    boxes = [box for box in placed(drawing, "rect") if box.get("class") in ("succeeded", "lost", "missed")]
    within = [min(grid) <= float(box.get("x", "")) <= max(grid) for box in boxes if box.find(f"{SVG}title") is not None]
    assert within == [True] * (2 + 9)  # runs, and slots on record


def test_the_legend_says_which_bar_is_whose_and_what_stands_beside_a_process() -> None:
    clock = "one row for each process, with the error of its clock: +5 s is five seconds ahead of the store's"
    assert [text.text for text in placed(svg(result()), "text")][-1] == (
        f"{clock}; the upper bar is skip, the lower rerun"
    )
    assert [text.text for text in placed(svg(result(tasks=(RERUN,))), "text")][-1] == clock


@pytest.mark.parametrize("kinds", [FAULT_LEGEND, RUN_LEGEND, SLOT_LEGEND])
def test_no_two_of_a_kind_have_the_same_colour(kinds: Iterable[str]) -> None:
    light, dark = (dict(re.findall(r"\.(\w+) { fill: (#\w+) }", part)) for part in STYLE.split("@media"))
    for colours in (light, {**light, **dark}):
        assert len({colours[kind] for kind in kinds}) == len([*kinds])


def test_a_torture_in_which_nothing_happened_is_drawn_too() -> None:
    counts = drawn(svg(result(lines=(), records={}, deeds=())))
    assert counts == {"missed": 10}
