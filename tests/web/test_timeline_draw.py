"""The timeline as SVG: well-formed whatever stands in it, and understood without its colours."""

from xml.etree import ElementTree

import pytest

from cronce.protocol.notices import Refused
from cronce.protocol.record import Outcome
from cronce.runtime.queries import RunSeen
from cronce.web.timeline import draw, key
from cronce.web.timeline_layout import BAR, PIECE_LOOKS, gather, lay_out
from tests.web.pictures import END, NOW, START, A, B, ago, lapsed, ran, runs, skipped
from tests.web.scene import HOSTILE


def drawn(*given: RunSeen, refused: tuple[Refused, ...] = ()) -> ElementTree.Element:
    facts = gather(given, [("web-2", one) for one in refused], START, END, NOW)
    return ElementTree.fromstring(str(draw(lay_out(facts), "")))


def classes(svg: ElementTree.Element) -> list[str]:
    return [element.get("class", "") for element in svg.iter()]


def titles(svg: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in svg.iter("title")]


def test_a_bar_leads_to_its_run_and_says_what_it_is() -> None:
    run = ran("billing", 300, started=290, ended=200)
    svg = drawn(run)
    (link,) = [element for element in svg.iter("a") if element.get("class") == "piece"]
    assert link.get("href") == f"/runs/{run.slot.key}"
    assert link.get("tabindex") == "-1"  # who goes by keys has the table
    assert titles(svg)[-1].startswith(f"{run.slot.key}: succeeded on {A}")


def test_lateness_lease_takeover_ghost_and_mark_are_all_there() -> None:
    taken = ran("sync", 300, B, started=260, ended=200, past=(lapsed(A, 290, 260),))
    refused = Refused(taken.slot.key, ago(299), f"{B}: held")
    svg = drawn(taken, runs("now", 50, A, started=40, until=-30), skipped("x", 20), refused=(refused,))
    found = classes(svg)
    wanted = ("late", "lease", "handover", "ghost refused", "mark skipped", "bar lapsed", "bar running", "now")
    assert {name: found.count(name) for name in wanted} == {**dict.fromkeys(wanted, 1), "late": 2}
    assert f"{taken.slot.key}: taken over by {B} at 2026-03-29T11:55:40Z" in titles(svg)


def test_now_is_drawn_only_where_it_is_in_sight() -> None:
    facts = gather([ran("a", 300)], [], START, ago(100), NOW)
    assert "now" not in classes(ElementTree.fromstring(str(draw(lay_out(facts), ""))))


@pytest.mark.parametrize(("first", "second"), [(A, B), (B, A)])
def test_an_arrow_goes_from_edge_to_edge_up_or_down(first: str, second: str) -> None:
    run = ran("sync", 300, second, started=260, ended=200, past=(lapsed(first, 290, 260),))
    picture = lay_out(gather([run], [], START, END, NOW))
    ((earlier, later),) = picture.arrows
    svg = ElementTree.fromstring(str(draw(picture, "")))
    (line,) = (line for group in svg.iter("g") if group.get("class") == "handover" for line in group.iter("line"))
    y1, y2 = float(line.get("y1", "")), float(line.get("y2", ""))
    assert line.get("x1") == line.get("x2")
    assert (y1, y2) == ((earlier.top + BAR, later.top) if first == A else (earlier.top, later.top + BAR))


def test_what_strangers_wrote_is_shown_as_it_stands() -> None:
    run = ran("x", 300, HOSTILE, reason=HOSTILE, outcome=Outcome.FAILED)
    text = str(draw(lay_out(gather([run], [], START, END, NOW)), ""))
    assert "<script" not in text
    assert "<img" not in text
    assert HOSTILE in "".join(titles(ElementTree.fromstring(text)))


def test_no_look_rests_on_its_colour_alone() -> None:
    """Without their classes no two looks that mean something else look alike."""
    bare = {
        look: "".join(f"<{one.tag} {one.get('d')} {one.get('fill')}>{one.text}" for one in _shapes(look))
        for look in PIECE_LOOKS
    }
    assert (
        len({bare[look] for look in ("succeeded", "failed", "lost", "unknown", "lapsed", "retrying", "skipped")}) == 7
    )
    assert "ghost refused" in classes(ElementTree.fromstring(str(key("refused"))))  # dashed by its class


def _shapes(look: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(str(key(look))).iter())


def test_of_pieces_that_lie_on_one_another_the_worst_is_on_top() -> None:
    crowd = [ran(f"j{place}", 300, A, ended=200) for place in range(30)]
    svg = drawn(ran("bad", 300, A, ended=200, outcome=Outcome.FAILED), *crowd)
    told = [title for title in titles(svg) if "@" in title]
    assert (len(told), told[-1].startswith("bad@")) == (31, True)
