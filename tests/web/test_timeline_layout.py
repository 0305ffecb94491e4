"""Where things stand on a timeline: nothing lies on another, nothing is dropped, and it never gets out of hand."""

from datetime import UTC, datetime, timedelta

import pytest

from cronce.model import Instant
from cronce.protocol.notices import Refused
from cronce.protocol.record import Outcome
from cronce.runtime.queries import RunSeen
from cronce.web.timeline_layout import (
    GHOST_ROWS,
    HEAD,
    MOST_LANES,
    MOST_LINES,
    MOST_ROWS,
    NAME,
    OTHERS,
    ROW,
    Picture,
    counted,
    gather,
    lay_out,
    lay_out_small,
    lines,
)
from tests.web.pictures import END, NOW, START, A, B, ago, lapsed, ran, runs, skipped


def picture(*given: RunSeen, refused: tuple[Refused, ...] = ()) -> Picture:
    return lay_out(gather(given, [("web-2", one) for one in refused], START, END, NOW))


# --- a small one ----------------------------------------------------------------------------------------------------


def test_a_small_picture_has_whole_lanes_and_first_those_of_what_went_wrong() -> None:
    """The last lane was cut: the box of the overview ended in the middle of it."""
    hosts = [f"web-{number}:1:a" for number in range(1, 8)]
    given = [ran("sync", 300, host) for host in hosts[:-1]] + [ran("sync", 200, hosts[-1], outcome=Outcome.FAILED)]
    facts = gather(given, [], START, END, NOW)
    whole, small = lay_out(facts), lay_out_small(facts, 260)
    drawn, left_out = small
    assert [lane.name for lane in drawn.lanes] == [*hosts[:3], hosts[-1]]
    assert (left_out, drawn.height) == (3, HEAD + 4 * whole.lanes[0].height)
    assert drawn.height <= 260
    assert drawn.counted == whole.counted == "6 succeeded, 1 failed"
    assert lay_out_small(facts, whole.height) == (whole, 0)
    assert [len(lay_out_small(facts, 1)[0].lanes)] == [1]  # whatever its height


# --- places ---------------------------------------------------------------------------------------------------------


def test_a_bar_stands_where_its_time_is() -> None:
    ((placed,),) = [lane.placed for lane in picture(ran("a", 460, started=425, ended=250)).lanes]
    assert (placed.due, placed.left, placed.right) == pytest.approx((20.0, 25.0, 50.0))


def test_what_begins_before_or_goes_on_behind_the_picture_is_cut_at_its_edges() -> None:
    ((placed,),) = [lane.placed for lane in picture(runs("a", 900, A, started=800, until=-500)).lanes]
    assert (placed.due, placed.left, placed.until) == (0.0, 0.0, 100.0)


def test_what_happens_at_once_in_one_lane_stands_in_rows_and_what_follows_in_the_first_again() -> None:
    both = picture(ran("a", 400, ended=300), ran("b", 390, ended=350), ran("c", 300, ended=250))
    (lane,) = both.lanes
    tops = {placed.piece.job: placed.top for placed in lane.placed}
    assert tops["b"] - tops["a"] == ROW
    assert tops["c"] == tops["a"]


def test_what_was_taken_over_and_what_followed_stand_in_two_rows_of_a_lane() -> None:
    taken = picture(ran("sync", 300, A, started=260, ended=200, past=(lapsed(A, 299, 260),)))
    ((earlier, later),) = taken.arrows
    assert later.top - earlier.top == ROW


def test_lanes_are_in_order_then_who_was_only_refused_and_what_is_nobodys_comes_last() -> None:
    run = ran("a", 100, B)
    refused = Refused(run.slot.key, ago(99), "web-2:10:f: held")
    drawn = picture(skipped("x", 50), run, ran("a", 200, A), ran("a", 300, "web-10:1:f"), refused=(refused,))
    assert [lane.name for lane in drawn.lanes] == [A, B, "web-10:1:f", "web-2:10:f", ""]
    ends = [lane.top + lane.height for lane in drawn.lanes]
    assert [lane.top for lane in drawn.lanes][1:] == ends[:-1]
    assert drawn.height == ends[-1]


def test_a_mark_takes_the_room_that_it_needs_to_be_seen() -> None:
    (lane,) = picture(skipped("a", 50), skipped("b", 49), skipped("c", 10)).lanes
    assert [placed.top for placed in lane.placed] == [lane.placed[0].top, lane.placed[0].top + ROW, lane.placed[0].top]


def test_ghosts_stand_below_what_there_was_and_take_no_row_from_it() -> None:
    run = ran("a", 300, B, ended=200)
    refused = tuple(Refused(run.slot.key, ago(299 - place), f"{B}: held") for place in range(GHOST_ROWS + 2))
    (lane,) = picture(run, ran("b", 250, B, ended=150), refused=refused).lanes
    solid = [placed.top for placed in lane.placed if placed.piece.shape == "bar"]
    ghosts = sorted({placed.top for placed in lane.placed if placed.piece.shape == "ghost"})
    assert max(solid) < ghosts[0]
    assert len(ghosts) == GHOST_ROWS  # beyond that they lie on one another, and are all there
    assert len(lane.placed) == 2 + len(refused)


def test_the_sign_beside_a_short_bar_has_its_room() -> None:
    both = (ran("a", 300, ended=299, outcome=Outcome.FAILED), ran("b", 298, ended=290))
    (lane,) = picture(*both).lanes
    assert lane.placed[1].top - lane.placed[0].top == ROW
    (lane,) = picture(ran("a", 300, ended=299), both[1]).lanes
    assert lane.placed[1].top == lane.placed[0].top


# --- too much -------------------------------------------------------------------------------------------------------


def test_beyond_the_rows_of_a_lane_pieces_lie_on_one_another_and_are_all_there() -> None:
    (lane,) = picture(*(ran(f"j{place}", 300, A, ended=200) for place in range(MOST_ROWS + 2))).lanes
    assert [one.top for one in lane.placed] == [HEAD + NAME + ROW * min(row, MOST_ROWS - 1) for row in range(8)]


def test_calls_from_a_crontab_are_a_holder_each_and_share_the_lane_of_their_host() -> None:
    calls = [ran("sync", 500 - place, f"box:{place}:f") for place in range(MOST_LANES + 1)]
    (lane,) = picture(*calls, ran("sync", 100, "box:1:f")).lanes
    assert (lane.name, lane.members) == ("box", MOST_LANES + 1)


def test_of_too_many_hosts_those_with_most_have_a_lane_and_the_others_share_one() -> None:
    calls = [ran("sync", 500 - place, f"box{place:02}:1:f") for place in range(MOST_LANES + 5)]
    drawn = picture(*calls, ran("sync", 20, "box27:1:f"))
    assert len(drawn.lanes) == MOST_LANES
    assert (drawn.lanes[-1].name, drawn.lanes[-1].members) == (OTHERS, 6)
    assert "box27" in {lane.name for lane in drawn.lanes}


def test_what_there_is_most_of_is_said_first() -> None:
    assert counted({"failed": 3, "succeeded": 1204}) == "1,204 succeeded, 3 failed"


# --- the axis -------------------------------------------------------------------------------------------------------


def at(text: str) -> Instant:
    return datetime.fromisoformat(text).astimezone(UTC)


def labels(start: str, end: str) -> list[str]:
    return [line.label for line in lines(at(start), at(end))]


def test_lines_are_at_round_times() -> None:
    assert labels("2026-03-01T11:50:20Z", "2026-03-01T12:00:20Z") == ["11:52", "11:54", "11:56", "11:58", "12:00"]
    assert labels("2026-03-01T11:59:58Z", "2026-03-01T12:00:11Z")[:2] == ["11:59:58", "12:00:00"]


def test_midnight_says_which_day_it_is() -> None:
    assert labels("2026-03-01T20:00:00Z", "2026-03-02T02:00:00Z") == [
        *("20:00", "21:00", "22:00", "23:00"),
        *("Mon 02 Mar", "01:00", "02:00"),
    ]


@pytest.mark.parametrize("seconds", [10, 59, 600, 700, 3600, 86_400, 7 * 86_400, 92 * 86_400])
def test_there_are_a_few_lines_whatever_the_span(seconds: int) -> None:
    found = list(lines(START, START + timedelta(seconds=seconds)))
    assert 3 <= len(found) <= MOST_LINES + 1
