"""The picture shows every run, every slot and every fault, and needs nothing but itself."""

from collections import Counter
from xml.etree import ElementTree

import pytest

from cronce.torture.picture import Bar, bars, html, outcome, svg
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
    skip = "on_lost=skip: 5 slots, 1 runs, extra 0, missed 2, lost 1, unknown 0, overlapping 0, stale accepted 0"
    assert texts[f"{skip}, taken over 0"] == "bad-text"
    assert [tone for text, tone in texts.items() if text and text.startswith("on_lost=rerun")] == ["good-text"]


@pytest.mark.parametrize("draw", [svg, html])
def test_it_needs_nothing_but_itself_and_is_light_and_dark(draw: object) -> None:
    text = svg(result()) if draw is svg else html(result())
    assert text.count("http") == 1  # the name of the language
    assert "prefers-color-scheme: dark" in text
    assert "<script" not in text
    assert ("<!doctype html>" in text) is (draw is html)


def test_a_torture_in_which_nothing_happened_is_drawn_too() -> None:
    counts = drawn(svg(result(lines=(), records={}, deeds=())))
    assert counts == {"missed": 10}
