"""The protocol's table: every cell of it, and the promises that follow from it, as sentences."""

from collections.abc import Callable
from datetime import timedelta
from typing import Literal, NamedTuple, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cronce.model import Cell, Fence, Instant, Mark
from cronce.policy import OnLost
from cronce.protocol import table
from cronce.protocol.commands import (
    Ask,
    Asked,
    Change,
    Claim,
    Closed,
    Command,
    Decision,
    Early,
    Finish,
    Finished,
    Granted,
    Held,
    Nothing,
    Queue,
    Queued,
    Release,
    Released,
    Renew,
    Renewed,
    Resolve,
    Settle,
    Settled,
    Skip,
    Stale,
)
from cronce.protocol.lease import tolerance
from cronce.protocol.record import MOST_LAPSED, PAST_KEPT, Maker, Outcome, Past, Record, State, decode, encode
from cronce.protocol.table import TABLE, Row, ended_as, is_expired
from tests.protocol import strategies
from tests.protocol.one_cell import LEASE, SECOND, OneCell
from tests.protocol.views import AT, Facts, row, rule, view_of

COMMANDS = get_args(Command)
ZERO = timedelta(0)

# --- every cell of the table ----------------------------------------------------------------------------------------
#
# What was read, for each row: one slot, due at AT, looked at by web-2 at NOW. Where it was granted, web-1 got F1 at AT.

NOW = AT + timedelta(seconds=40)
SOON = NOW + timedelta(seconds=20)
DAY = timedelta(days=1)
KEY = "run/billing/2026-03-29T01:00:00Z"
F0, F1 = Fence(1, 3), Fence(1, 7)

BLANK = Cell(KEY, at=AT)
LIVE = Cell(KEY, 7, "…", AT, Mark.OPEN, F1, SOON)
OVER = LIVE._replace(until=NOW)

DUE = Record(State.DUE)
RAN = Record(State.RUNNING, 1, "n1", "web-1", LEASE, "skip", 3, 0, "turn/billing/0", "", AT)
RAN_1 = Past(F1, "web-1", AT, "released", NOW)
IDLE = RAN._replace(state=State.DUE, turn="", past=(RAN_1,))
FAILED_1 = Past(F1, "web-1", AT, "failed: boom", NOW)
RETRYING = RAN._replace(state=State.RETRYING, failures=1, turn="", past=(FAILED_1,))
DONE = RAN._replace(state=State.CLOSED, finished=NOW, outcome=Outcome.SUCCEEDED, reason="fine")


def watched(span: timedelta) -> Callable[[timedelta], timedelta]:
    return lambda _tolerance: span


class Scene(NamedTuple):
    cell: Cell
    record: Record | None
    facts: Facts = Facts(NOW, floor=AT - SECOND, base=0, even=watched(LEASE))


SCENES = {
    Row.NOTHING: Scene(BLANK, None),
    Row.BELOW: Scene(BLANK, None, Facts(NOW, floor=AT)),
    Row.QUEUED: Scene(Cell(KEY, 5, "…", AT, Mark.OPEN, None, AT), DUE),
    Row.IDLE: Scene(OVER, IDLE),
    Row.RESTING: Scene(LIVE, RETRYING),
    Row.HELD: Scene(LIVE, RAN),
    Row.MINE: Scene(LIVE, RAN),
    Row.LAPSED: Scene(OVER, RAN),
    Row.FORGOTTEN: Scene(OVER, RAN, Facts(NOW, floor=AT, base=7)),
    Row.CLOSED: Scene(OVER._replace(mark=Mark.CLOSED), DONE),
    Row.EXPIRED: Scene(OVER._replace(mark=Mark.CLOSED), DONE._replace(keep=DAY, turn="")),
}

# What web-2 says; in the row MINE it is web-1 that speaks, and knows its nonce and its fence.

SAYS: dict[type, Command] = {
    Claim: Claim("n2", "web-2", 2 * LEASE, "rerun", 5),
    Renew: Renew(F0),
    Finish: Finish(F0, Outcome.SUCCEEDED),
    Release: Release(F0, SECOND),
    Queue: Queue(waiting=True),
    Skip: Skip("not today"),
    Settle: Settle(),
    Ask: Ask("replaced"),
    Resolve: Resolve("retry", "fixed"),
}
MINE_SAYS: dict[type, Command] = {
    Claim: Claim("n1", "web-1", LEASE, "skip", 3),
    Renew: Renew(F1),
    Finish: Finish(F1, Outcome.SUCCEEDED, "all sent"),
    Release: Release(F1, SECOND),
}

# What comes of it, in full: the answer and, if something changes, the new record, its mark, ttl and whether a fence is
# drawn. `until` becomes the store's now + ttl; a ttl of None leaves it.

NEW_GRANT = Record(State.RUNNING, 1, "n2", "web-2", 2 * LEASE, "rerun", 5, 0, "", "", NOW)
NEXT_GRANT = NEW_GRANT._replace(grant=2, past=(RAN_1,))
STALE = Decision(Stale("web-1"))
NOBODY = Decision(Stale(""))
IDLY = Decision(Nothing())
TOO_OLD = Decision(Closed(Outcome.TOO_OLD, "slots up to 2026-03-29T01:00:00Z are closed if they have no record"))
HELD = Decision(Held("web-1", SOON))
EARLY = Decision(Early(SOON))
FINE = Decision(Closed(Outcome.SUCCEEDED, "fine"))
WAITING = Queued(waiting=True)
SKIPPED = Closed(Outcome.SKIPPED, "not today")


def closed(record: Record, outcome: Outcome, reason: str, mark: Mark) -> Change:
    return Change(
        record._replace(state=State.CLOSED, outcome=outcome, reason=reason, finished=NOW), mark, ZERO, grant=False
    )


def skipped(record: Record) -> Decision:
    return Decision(SKIPPED, closed(record, Outcome.SKIPPED, "not today", Mark.CLOSED))


LOST = Decision(
    Closed(Outcome.LOST, "its holder web-1 did not renew its lease"),
    closed(RAN, Outcome.LOST, "its holder web-1 did not renew its lease", Mark.ATTENTION),
)
UNKNOWN = Decision(
    Closed(Outcome.UNKNOWN, "the store forgot what became of it"),
    closed(RAN, Outcome.UNKNOWN, "the store forgot what became of it", Mark.ATTENTION),
)

EXPECTED: dict[Row, dict[type, Decision]] = {
    Row.NOTHING: {
        Claim: Decision(Granted(1), Change(NEW_GRANT, Mark.OPEN, 2 * LEASE, grant=True)),
        Renew: NOBODY,
        Finish: NOBODY,
        Release: NOBODY,
        Queue: Decision(WAITING, Change(Record(State.WAITING), Mark.OPEN, ZERO, grant=False)),
        Skip: skipped(DUE),
        Settle: IDLY,
        Ask: IDLY,
        Resolve: IDLY,
    },
    Row.BELOW: {
        Claim: TOO_OLD,
        Renew: NOBODY,
        Finish: NOBODY,
        Release: NOBODY,
        Queue: TOO_OLD,
        Skip: TOO_OLD,
        Settle: IDLY,
        Ask: IDLY,
        Resolve: IDLY,
    },
    Row.QUEUED: {
        Claim: Decision(Granted(1), Change(NEW_GRANT, Mark.OPEN, 2 * LEASE, grant=True)),
        Renew: NOBODY,
        Finish: NOBODY,
        Release: NOBODY,
        Queue: Decision(WAITING, Change(Record(State.WAITING), Mark.OPEN, ZERO, grant=False)),
        Skip: skipped(DUE),
        Settle: IDLY,
        Ask: IDLY,
        Resolve: IDLY,
    },
    Row.IDLE: {
        Claim: Decision(Granted(2), Change(NEXT_GRANT, Mark.OPEN, 2 * LEASE, grant=True)),
        Renew: STALE,
        Finish: STALE,
        Release: STALE,
        Queue: Decision(WAITING, Change(IDLE._replace(state=State.WAITING), Mark.OPEN, ZERO, grant=False)),
        Skip: skipped(IDLE),
        Settle: IDLY,
        Ask: IDLY,
        Resolve: IDLY,
    },
    Row.RESTING: {
        Claim: EARLY,
        Renew: STALE,
        Finish: STALE,
        Release: STALE,
        Queue: EARLY,
        Skip: skipped(RETRYING),
        Settle: IDLY,
        Ask: IDLY,
        Resolve: IDLY,
    },
    Row.HELD: {
        Claim: HELD,
        Renew: STALE,
        Finish: STALE,
        Release: STALE,
        Queue: HELD,
        Skip: HELD,
        Settle: HELD,
        Ask: Decision(Asked(), Change(RAN._replace(ask="replaced"), Mark.OPEN, None, grant=False)),
        Resolve: HELD,
    },
    Row.MINE: {
        Claim: Decision(Granted(1), Change(RAN, Mark.OPEN, LEASE, grant=False)),
        Renew: Decision(Renewed(""), Change(RAN, Mark.OPEN, LEASE, grant=False)),
        Finish: Decision(Finished(Outcome.SUCCEEDED), closed(RAN, Outcome.SUCCEEDED, "all sent", Mark.CLOSED)),
        Release: Decision(Released(), Change(IDLE, Mark.OPEN, SECOND, grant=False)),
    },
    Row.LAPSED: {
        Claim: LOST,
        Renew: STALE,
        Finish: STALE,
        Release: STALE,
        Queue: LOST,
        Skip: LOST,
        Settle: LOST,
        Ask: LOST,
        Resolve: LOST,
    },
    Row.FORGOTTEN: {
        Claim: UNKNOWN,
        Renew: STALE,
        Finish: STALE,
        Release: STALE,
        Queue: UNKNOWN,
        Skip: UNKNOWN,
        Settle: UNKNOWN,
        Ask: UNKNOWN,
        Resolve: UNKNOWN,
    },
    Row.CLOSED: {
        Claim: FINE,
        Renew: STALE,
        Finish: STALE,
        Release: STALE,
        Queue: FINE,
        Skip: FINE,
        Settle: IDLY,
        Ask: IDLY,
        Resolve: FINE,
    },
    Row.EXPIRED: {
        Claim: Decision(Granted(2), Change(NEW_GRANT._replace(grant=2), Mark.OPEN, 2 * LEASE, grant=True)),
        Renew: STALE,
        Finish: STALE,
        Release: STALE,
        Queue: FINE,
        Skip: FINE,
        Settle: IDLY,
        Ask: IDLY,
        Resolve: FINE,
    },
}

# The cells whose answer goes by more than the row: the same, with what else was read or said.

TAKEN_OVER = NEW_GRANT._replace(grant=2, turn="turn/billing/0", past=(Past(F1, "web-1", AT, "lapsed", NOW),))
GIVEN_BACK = RAN._replace(state=State.DUE, on_lost="rerun", turn="", past=(Past(F1, "web-1", AT, "lapsed", NOW),))
REGRANTED = RAN._replace(grant=2, started=NOW, past=(Past(F1, "web-1", AT, "never started", NOW),))
LATE = Closed(Outcome.SKIPPED, "too late to start")
FAILED = DONE._replace(outcome=Outcome.FAILED, reason="boom", finished=NOW - SECOND)
RETRIED = Past(F1, "web-1", AT, "failed: boom, retried: fixed", NOW - SECOND, NOW)
AGAIN = RAN._replace(state=State.DUE, turn="", past=(RETRIED,))
LOOKED_AT = FAILED._replace(past=(RETRIED._replace(end="failed: boom", retried=None),))

ALSO: list[tuple[str, Row, Scene, Command, Decision]] = [
    (
        "too late for its first start", Row.NOTHING, SCENES[Row.NOTHING],
        Claim("n2", "web-2", LEASE, "skip", start_by=NOW - SECOND),
        Decision(LATE, closed(DUE, Outcome.SKIPPED, "too late to start", Mark.CLOSED)),
    ),
    (
        "just in time for its first start", Row.NOTHING, SCENES[Row.NOTHING],
        Claim("n2", "web-2", 2 * LEASE, "rerun", 5, start_by=NOW), EXPECTED[Row.NOTHING][Claim],
    ),
    (
        "a step of a slot that is run again by hand", Row.BELOW, SCENES[Row.BELOW],
        Claim("n2", "web-2", LEASE, "skip", under=Maker("run/a", F1)),
        Decision(
            Closed(Outcome.UNKNOWN, "the store forgot whether it was done, or it is new"),
            closed(DUE, Outcome.UNKNOWN, "the store forgot whether it was done, or it is new", Mark.ATTENTION),
        ),
    ),
    (
        "waiting already", Row.QUEUED, Scene(OVER._replace(fence=None), Record(State.WAITING)), SAYS[Queue],
        Decision(WAITING),
    ),
    ("due already", Row.QUEUED, SCENES[Row.QUEUED], Queue(), Decision(Queued(waiting=False))),
    ("released, and says so again", Row.IDLE, SCENES[Row.IDLE], Release(F1), Decision(Released())),
    ("released, then says finished", Row.IDLE, SCENES[Row.IDLE], Finish(F1, Outcome.SUCCEEDED), STALE),
    (
        "released, waiting for its turn, then says finished", Row.IDLE, Scene(OVER, IDLE._replace(state=State.WAITING)),
        Finish(F1, Outcome.SUCCEEDED), STALE,
    ),
    (
        "failed, and says so again", Row.IDLE, Scene(OVER, RETRYING),
        Finish(F1, Outcome.FAILED, "boom"), Decision(Finished(Outcome.FAILED, retrying=True)),
    ),
    ("failed, then says it succeeded", Row.IDLE, Scene(OVER, RETRYING), Finish(F1, Outcome.SUCCEEDED), STALE),
    (
        "failed, and says so again before its time", Row.RESTING, SCENES[Row.RESTING],
        Finish(F1, Outcome.FAILED, "boom"), Decision(Finished(Outcome.FAILED, retrying=True)),
    ),
    ("released, and says so again before its time", Row.RESTING, Scene(LIVE, IDLE), Release(F1), Decision(Released())),
    ("asked already", Row.HELD, Scene(LIVE, RAN._replace(ask="drain")), SAYS[Ask], Decision(Asked())),
    (
        "asked to stop", Row.MINE, Scene(LIVE, RAN._replace(ask="drain")), Renew(F1),
        Decision(Renewed("drain"), Change(RAN._replace(ask="drain"), Mark.OPEN, LEASE, grant=False)),
    ),
    (
        "failed, and a rerun takes its place", Row.CLOSED, Scene(OVER, FAILED),
        Resolve("superseded", "superseded by #2"), Decision(
            Closed(Outcome.FAILED, "boom; superseded by #2"),
            Change(FAILED._replace(reason="boom; superseded by #2"), Mark.CLOSED),
        ),
    ),
    (
        "failed in words like ours, and a rerun takes its place", Row.CLOSED,
        Scene(OVER, FAILED._replace(reason="endpoint superseded by /v2")), Resolve("superseded", "superseded by #2"),
        Decision(
            Closed(Outcome.FAILED, "endpoint superseded by /v2; superseded by #2"),
            Change(FAILED._replace(reason="endpoint superseded by /v2; superseded by #2"), Mark.CLOSED),
        ),
    ),
    (
        "succeeded, and a rerun takes its place", Row.CLOSED, SCENES[Row.CLOSED],
        Resolve("superseded", "superseded by #2"), Decision(Closed(Outcome.SUCCEEDED, "fine")),
    ),
    (
        "ended by itself, though asked to stop", Row.MINE, Scene(LIVE, RAN._replace(ask="drain")),
        Finish(F1, Outcome.FAILED, "boom"),
        Decision(Finished(Outcome.FAILED), Change(RAN._replace(
            state=State.CLOSED, outcome=Outcome.FAILED, finished=NOW,
            reason="boom; it was asked to stop, but ended by itself: drain",
        ), Mark.CLOSED)),
    ),
    (
        "my claim, its lease over before I read it back", Row.MINE, SCENES[Row.LAPSED], MINE_SAYS[Claim],
        Decision(Granted(2), Change(REGRANTED, Mark.OPEN, LEASE, grant=True)),
    ),
    ("lapsed, mine, and nobody acted", Row.MINE, SCENES[Row.LAPSED], Renew(F1), EXPECTED[Row.MINE][Renew]),
    ("lapsed, mine, and nobody acted", Row.MINE, SCENES[Row.LAPSED], MINE_SAYS[Finish], EXPECTED[Row.MINE][Finish]),
    ("lapsed, mine, and nobody acted", Row.MINE, SCENES[Row.LAPSED], MINE_SAYS[Release], EXPECTED[Row.MINE][Release]),
    (
        "failed with attempts left", Row.MINE, SCENES[Row.MINE],
        Finish(F1, Outcome.FAILED, "boom", 5 * SECOND, output="3 rows"),
        Decision(
            Finished(Outcome.FAILED, retrying=True),
            Change(RETRYING._replace(output="3 rows"), Mark.OPEN, 5 * SECOND, grant=False),
        ),
    ),
    (
        "cut short under skip, no attempts left", Row.MINE, Scene(LIVE, RAN._replace(failures=2)),
        Finish(F1, Outcome.FAILED, "boom", cut_short=True),
        Decision(Finished(Outcome.FAILED), closed(RAN._replace(failures=2), Outcome.FAILED, "boom", Mark.CLOSED)),
    ),
    (
        "cut short under rerun, no attempts left", Row.MINE, Scene(LIVE, RAN._replace(failures=2, on_lost="rerun")),
        Finish(F1, Outcome.FAILED, "boom", cut_short=True),
        Decision(
            Finished(Outcome.FAILED, retrying=True),
            Change(RETRYING._replace(failures=2, on_lost="rerun"), Mark.OPEN, ZERO, grant=False),
        ),
    ),
    (
        "succeeded though it was to be cut short", Row.MINE, Scene(LIVE, RAN._replace(on_lost="rerun")),
        Finish(F1, Outcome.SUCCEEDED, cut_short=True, output="3 rows"),
        Decision(
            Finished(Outcome.SUCCEEDED),
            closed(RAN._replace(on_lost="rerun", output="3 rows"), Outcome.SUCCEEDED, "", Mark.CLOSED),
        ),
    ),
    (
        "a limit before the lease's end", Row.MINE, SCENES[Row.MINE], Renew(F1, 25 * SECOND),
        Decision(Renewed(""), Change(RAN, Mark.OPEN, 25 * SECOND, grant=False)),
    ),
    (
        "a limit before the end it has already", Row.MINE, SCENES[Row.MINE], Renew(F1, timedelta(microseconds=1)),
        Decision(Renewed(""), Change(RAN, Mark.OPEN, None, grant=False)),
    ),
    (
        "a limit after the lease's end", Row.MINE, SCENES[Row.MINE], Renew(F1, 10 * LEASE),
        EXPECTED[Row.MINE][Renew],
    ),
    (
        "failed at the last attempt", Row.MINE, Scene(LIVE, RAN._replace(failures=2)),
        Finish(F1, Outcome.FAILED, "boom"),
        Decision(Finished(Outcome.FAILED), closed(RAN._replace(failures=2), Outcome.FAILED, "boom", Mark.CLOSED)),
    ),
    (
        "under rerun", Row.LAPSED, Scene(OVER, RAN._replace(on_lost="rerun")), SAYS[Claim],
        Decision(Granted(2, "web-1"), Change(TAKEN_OVER, Mark.OPEN, 2 * LEASE, grant=True)),
    ),
    *(
        (
            "under rerun", Row.LAPSED, Scene(OVER, RAN._replace(on_lost="rerun")), SAYS[command],
            Decision(Settled(), Change(GIVEN_BACK, Mark.OPEN, ZERO, grant=False)),
        )
        for command in (Queue, Skip, Settle, Ask, Resolve)
    ),
    (
        "its transaction was committed", Row.LAPSED, SCENES[Row.LAPSED], Settle(F1, committed=True),
        Decision(
            Closed(Outcome.SUCCEEDED, "its transaction was committed"),
            closed(RAN, Outcome.SUCCEEDED, "its transaction was committed", Mark.CLOSED),
        ),
    ),
    *(
        (
            "it may be committed, and nobody asked", Row.LAPSED, Scene(OVER, RAN._replace(joined=True)), said,
            Decision(Held("web-1", NOW)),
        )
        for said in (SAYS[Claim], Settle(), Settle(F0), SAYS[Queue], SAYS[Skip])
    ),
    (
        "it may be committed, and nobody asked", Row.LAPSED, Scene(OVER, RAN._replace(joined=True)), SAYS[Ask],
        Decision(Asked(), Change(RAN._replace(joined=True, ask="replaced"), Mark.OPEN, None, grant=False)),
    ),
    (
        "it may be committed, and is not", Row.LAPSED, Scene(OVER, RAN._replace(joined=True)), Settle(F1),
        Decision(
            Closed(Outcome.LOST, "its holder web-1 did not renew its lease"),
            closed(RAN._replace(joined=True), Outcome.LOST, "its holder web-1 did not renew its lease", Mark.ATTENTION),
        ),
    ),
    ("the transaction of another run was committed", Row.LAPSED, SCENES[Row.LAPSED], Settle(F0, committed=True),
     EXPECTED[Row.LAPSED][Settle]),
    ("the same, when it has expired", Row.EXPIRED, SCENES[Row.EXPIRED], MINE_SAYS[Finish],
     Decision(Finished(Outcome.SUCCEEDED))),
    ("by whom it closed", Row.CLOSED, SCENES[Row.CLOSED], MINE_SAYS[Finish], Decision(Finished(Outcome.SUCCEEDED))),
    ("by whom it closed, with another word", Row.CLOSED, SCENES[Row.CLOSED], Finish(F1, Outcome.FAILED), STALE),
    (
        "failed", Row.CLOSED, Scene(OVER, FAILED), SAYS[Resolve],
        Decision(Queued(waiting=False), Change(AGAIN, Mark.OPEN, ZERO, grant=False)),
    ),
    (
        "failed", Row.CLOSED, Scene(OVER, FAILED), Resolve("done", "sent by hand"),
        Decision(
            Closed(Outcome.SUCCEEDED, "resolved: sent by hand"),
            closed(LOOKED_AT, Outcome.SUCCEEDED, "resolved: sent by hand", Mark.CLOSED),
        ),
    ),
]  # fmt: skip


def named(row: Row, command: type) -> str:
    return f"{row}: {command.__name__.lower()}"


def exactly(decision: Decision) -> tuple[type, Decision]:
    """To Python, answers of different kinds are equal when their fields are."""
    return type(decision.answer), decision


@pytest.mark.parametrize(
    ("row_", "command"),
    [pytest.param(row, command, id=named(row, command)) for row in EXPECTED for command in EXPECTED[row]],
)
def test_every_cell_of_the_table(row_: Row, command: type) -> None:
    said = (MINE_SAYS if row_ is Row.MINE else SAYS)[command]
    scene = SCENES[row_]
    assert row(scene.cell, scene.record, said, scene.facts) is row_
    assert exactly(rule(scene.cell, scene.record, said, scene.facts)) == exactly(EXPECTED[row_][command])


@pytest.mark.parametrize(
    ("row_", "scene", "said", "expected"),
    [
        pytest.param(row, scene, said, expected, id=f"{named(row, type(said))}: {name}")
        for name, row, scene, said, expected in ALSO
    ],
)
def test_what_else_a_cell_of_the_table_goes_by(row_: Row, scene: Scene, said: Command, expected: Decision) -> None:
    assert row(scene.cell, scene.record, said, scene.facts) is row_
    assert exactly(rule(scene.cell, scene.record, said, scene.facts)) == exactly(expected)


def test_no_cell_of_the_table_is_untested() -> None:
    assert {row: set(rules) for row, rules in EXPECTED.items()} == {row: set(rules) for row, rules in TABLE.items()}


def test_the_table_has_an_answer_for_everything_that_can_be_read_and_said() -> None:
    assert set(TABLE) == set(Row)
    holders = {Claim, Renew, Finish, Release}  # only they have a nonce or a fence to be recognised by
    assert {row: set(rules) for row, rules in TABLE.items() if set(rules) != set(COMMANDS)} == {Row.MINE: holders}


# --- where what was read stands -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("until", "even", "expected"),
    [
        (NOW + SECOND, LEASE, Row.HELD),
        (NOW, LEASE, Row.LAPSED),
        (NOW, LEASE - timedelta(microseconds=1), Row.HELD),
        (NOW - timedelta(days=1), ZERO, Row.HELD),
        (None, timedelta(days=1), Row.HELD),
    ],
)
def test_lapsed_is_not_believed_without_a_whole_lease_of_even_clock(
    until: Instant | None, even: timedelta, expected: Row
) -> None:
    facts = Facts(NOW, even=watched(even))
    assert row(LIVE._replace(until=until), RAN, Settle(), facts) is expected


def test_the_watch_is_asked_for_the_tolerance_of_the_lease_written_with_the_grant() -> None:
    asked: list[timedelta] = []

    def even(tolerance: timedelta) -> timedelta:
        asked.append(tolerance)
        return LEASE

    row(OVER, RAN, Claim("n2", "web-2", timedelta(hours=1), "rerun"), Facts(NOW, even=even))
    assert asked == [tolerance(LEASE)]


def test_whoever_watched_nothing_believes_nothing() -> None:
    assert row(OVER, RAN, Settle(), Facts(NOW)) is Row.HELD


@pytest.mark.parametrize(("floor", "expected"), [(AT - SECOND, Row.NOTHING), (AT, Row.BELOW), (None, Row.NOTHING)])
def test_a_slot_without_a_cell_is_below_the_floor_or_open(floor: Instant | None, expected: Row) -> None:
    assert row(BLANK, None, SAYS[Claim], Facts(NOW, floor)) is expected


@pytest.mark.parametrize("known", [Row.QUEUED, Row.IDLE, Row.RESTING, Row.HELD, Row.LAPSED, Row.CLOSED])
def test_a_slot_below_the_floor_with_a_cell_follows_its_own_row(known: Row) -> None:
    cell, record, facts = SCENES[known]
    assert row(cell, record, SAYS[Claim], facts._replace(floor=NOW)) is known


@pytest.mark.parametrize(
    ("base", "floor", "expected"),
    [(6, AT, Row.LAPSED), (7, AT, Row.FORGOTTEN), (7, AT - SECOND, Row.LAPSED), (7, None, Row.FORGOTTEN)],
)
def test_an_open_cell_is_forgotten_if_it_is_from_an_earlier_life_and_may_have_run_since(
    base: int, floor: Instant | None, expected: Row
) -> None:
    assert row(OVER, RAN, SAYS[Claim], Facts(NOW, floor, base, watched(LEASE))) is expected


@pytest.mark.parametrize("open_row", [Row.QUEUED, Row.IDLE, Row.RESTING, Row.HELD, Row.MINE, Row.LAPSED])
def test_forgotten_goes_before_every_other_open_row_even_mine(open_row: Row) -> None:
    cell, record, facts = SCENES[open_row]
    for command in (*SAYS.values(), *MINE_SAYS.values()):
        assert row(cell, record, command, facts._replace(base=cell.version, floor=AT)) is Row.FORGOTTEN


def test_a_closed_cell_of_an_earlier_life_stays_closed() -> None:
    cell, record, facts = SCENES[Row.CLOSED]
    assert row(cell, record, SAYS[Claim], facts._replace(base=cell.version, floor=None)) is Row.CLOSED


def test_a_lock_has_no_instant_and_so_no_floor() -> None:
    assert row(Cell("lock/reindex"), None, SAYS[Claim], Facts(NOW, floor=NOW)) is Row.NOTHING


def test_a_lock_of_an_earlier_life_is_not_forgotten_but_lapses() -> None:
    lock = OVER._replace(key="lock/reindex", at=None)
    view = view_of(lock, RAN, Facts(NOW, None, lock.version, watched(LEASE)))._replace(slot=None)
    assert table.row(view, SAYS[Claim]) is Row.LAPSED


def lapsed_before(times: int, *earlier: str) -> Record:
    past = [Past(F0, "web-0", AT, end, AT) for end in [*earlier, *["lapsed"] * times]]
    return RAN._replace(on_lost="rerun", past=tuple(past))


WORN_OUT = Closed(Outcome.LOST, "its holder web-1 did not renew its lease, nor did those before it")


@pytest.mark.parametrize("command", [Claim, Settle, Queue, Skip, Ask, Resolve])
def test_a_slot_that_ten_holders_in_a_row_have_died_with_is_closed_for_a_person(command: type) -> None:
    """It may be what kills them: it was taken over for ever, and killed one process after the other."""
    scene = Scene(OVER, lapsed_before(MOST_LAPSED))
    ruling = rule(scene.cell, scene.record, SAYS[command], scene.facts)
    assert (ruling.answer, ruling.change and ruling.change.mark) == (WORN_OUT, Mark.ATTENTION)


@pytest.mark.parametrize("earlier", [[], ["lapsed", "failed: boom"], ["lapsed", "lost, retried: fixed"]])
def test_nine_in_a_row_are_not_ten_and_a_person_begins_the_count_anew(earlier: list[str]) -> None:
    assert rule(OVER, lapsed_before(9, *earlier), SAYS[Claim], SCENES[Row.LAPSED].facts).answer == Granted(2, "web-1")


def test_a_lock_is_taken_over_however_many_have_died_with_it() -> None:
    view = view_of(OVER, lapsed_before(20), SCENES[Row.LAPSED].facts)._replace(slot=None)
    assert table.rule(view, SAYS[Claim]).answer == Granted(2, "web-1")


# --- the promises, as sentences -------------------------------------------------------------------------------------


def claim(nonce: str, holder: str, on_lost: OnLost = "rerun", start_by: Instant | None = None) -> Claim:
    return Claim(nonce, holder, LEASE, on_lost, start_by=start_by)


def test_of_two_claimants_one_is_granted_and_the_other_learns_who_and_until_when() -> None:
    slot = OneCell()
    slot.granted()
    assert slot.say(claim("n2", "web-2")) == Held("web-1", AT + LEASE)


def test_a_paused_holder_cannot_finish_after_another_was_granted() -> None:
    slot = OneCell()
    paused = slot.granted("n1", "web-1")
    slot.lapse()
    working = slot.granted("n2", "web-2")
    assert working > paused
    before = slot.cell
    assert slot.say(Finish(paused, Outcome.SUCCEEDED)) == Stale("web-2")
    assert slot.say(Renew(paused)) == Stale("web-2")
    assert slot.say(Release(paused)) == Stale("web-2")
    assert slot.cell == before
    assert slot.say(Finish(working, Outcome.SUCCEEDED)) == Finished(Outcome.SUCCEEDED)


def test_a_paused_holder_may_finish_while_nobody_has_acted() -> None:
    slot = OneCell()
    fence = slot.granted()
    slot.later(timedelta(days=1))
    assert slot.say(Finish(fence, Outcome.SUCCEEDED)) == Finished(Outcome.SUCCEEDED)


def test_a_paused_holder_cannot_finish_what_was_closed_as_lost() -> None:
    slot = OneCell()
    fence = slot.granted(on_lost="skip")
    slot.lapse()
    assert slot.say(Settle()) == Closed(Outcome.LOST, "its holder web-1 did not renew its lease")
    for outcome in (Outcome.SUCCEEDED, Outcome.FAILED):
        assert slot.say(Finish(fence, outcome)) == Stale("web-1")
    assert slot.record.outcome is Outcome.LOST


def test_a_paused_holder_cannot_finish_what_was_given_back_for_it() -> None:
    slot = OneCell()
    fence = slot.granted()
    slot.lapse()
    slot.say(Settle())
    slot.say(Queue(waiting=True))
    assert slot.say(Finish(fence, Outcome.SUCCEEDED)) == Stale("web-1")
    assert slot.record.state is State.WAITING


@pytest.mark.parametrize("readers", get_args(OnLost))
def test_a_takeover_goes_by_the_on_lost_written_with_the_grant(readers: OnLost) -> None:
    rerun, skip = OneCell(), OneCell()
    rerun.granted(on_lost="rerun")
    skip.granted(on_lost="skip")
    rerun.lapse()
    skip.lapse()
    assert rerun.say(claim("n2", "web-2", readers)) == Granted(2, taken_over="web-1")
    assert skip.say(claim("n2", "web-2", readers)) == Closed(Outcome.LOST, "its holder web-1 did not renew its lease")


def test_a_lost_slot_waits_for_a_person() -> None:
    slot = OneCell()
    slot.granted(on_lost="skip")
    slot.lapse()
    slot.say(Settle())
    assert slot.cell.mark is Mark.ATTENTION


def test_a_takeover_keeps_the_turn_and_remembers_who_had_it() -> None:
    slot = OneCell()
    first = slot.granted()
    slot.lapse()
    slot.granted("n2", "web-2")
    assert slot.record.past == (Past(first, "web-1", AT, "lapsed", slot.now),)


def test_nobody_takes_over_who_has_not_watched_for_a_whole_lease() -> None:
    slot = OneCell()
    fence = slot.granted()
    slot.later(timedelta(days=1))  # so says the store's clock
    assert slot.say(claim("n2", "web-2"), watched=LEASE - SECOND) == Held("web-1", AT + LEASE)
    assert slot.say(Settle(), watched=ZERO) == Held("web-1", AT + LEASE)
    assert slot.say(Renew(fence), watched=ZERO) == Renewed("")


def test_a_read_back_gives_the_same_fence_by_a_write_so_that_no_earlier_look_can_still_take_over() -> None:
    slot = OneCell()
    fence = slot.granted("n1")
    looked_at = slot.cell.version
    slot.later(10 * SECOND)
    assert slot.say(claim("n1", "web-1")) == Granted(1)
    assert slot.fence == fence
    assert slot.cell.version > looked_at
    assert slot.cell.until == slot.now + LEASE


def test_two_claimants_of_one_process_are_two() -> None:
    slot = OneCell()
    slot.granted("n1", "web-1")
    assert slot.say(claim("n2", "web-1")) == Held("web-1", AT + LEASE)


def test_a_read_back_after_the_lease_draws_a_new_fence_even_under_skip_since_nothing_ran() -> None:
    slot = OneCell()
    first = slot.granted("n1", on_lost="skip")
    slot.lapse()
    assert slot.say(claim("n1", "web-1", "skip"), watched=ZERO) == Granted(2)
    assert slot.fence > first
    assert slot.cell.until == slot.now + LEASE


def test_a_read_back_after_another_took_over_finds_it_held() -> None:
    slot = OneCell()
    slot.granted("n1", "web-1")
    slot.lapse()
    slot.granted("n2", "web-2")
    assert slot.say(claim("n1", "web-1")) == Held("web-2", slot.now + LEASE)


def test_a_renewal_restarts_the_lease_under_the_same_fence() -> None:
    slot = OneCell()
    fence = slot.granted()
    slot.later(10 * SECOND)
    assert slot.say(Renew(fence)) == Renewed("")
    assert (slot.fence, slot.cell.until, slot.record.grant) == (fence, slot.now + LEASE, 1)


def test_a_finish_by_the_fence_that_closed_it_is_idempotent() -> None:
    slot = OneCell()
    fence = slot.granted()
    done = Finish(fence, Outcome.SUCCEEDED)
    assert slot.say(done) == Finished(Outcome.SUCCEEDED)
    closed = slot.cell
    slot.later(timedelta(days=1))
    assert slot.say(done) == Finished(Outcome.SUCCEEDED)
    assert slot.say(Finish(fence, Outcome.FAILED)) == Stale("web-1")
    assert slot.cell == closed


CLOSED_AS = [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.SKIPPED, Outcome.LOST, Outcome.UNKNOWN]


@pytest.mark.parametrize("outcome", CLOSED_AS)
def test_closed_has_no_way_back_but_resolve(outcome: Outcome) -> None:
    slot = OneCell()
    fence = slot.granted()
    slot.say(Finish(fence, outcome, "said so"))
    closed = slot.cell
    slot.later(timedelta(days=1))
    for command in (*SAYS.values(), *MINE_SAYS.values(), Renew(fence), Release(fence), Finish(fence, outcome)):
        if not isinstance(command, Resolve):
            slot.say(command)
    assert slot.cell == closed


@pytest.mark.parametrize("outcome", CLOSED_AS)
def test_a_person_resolves_what_failed_or_is_uncertain_and_nothing_else(outcome: Outcome) -> None:
    slot = OneCell()
    slot.say(Finish(slot.granted(), outcome, "said so"))
    told = slot.say(Resolve("retry", "fixed"))
    if outcome in (Outcome.SUCCEEDED, Outcome.SKIPPED):
        assert told == Closed(outcome, "said so")
    else:
        assert told == Queued(waiting=False)
        assert slot.record.past[-1].end == f"{outcome}: said so, retried: fixed"
        assert slot.granted("n2", "web-2") > Fence(1, 1)


def test_what_a_person_retries_has_all_its_attempts_again() -> None:
    slot = OneCell()
    for nonce in ("n1", "n2"):
        slot.say(Finish(slot.granted(nonce, attempts=2), Outcome.FAILED))
    slot.say(Resolve("retry", "fixed"))
    assert slot.say(Finish(slot.granted("n3", attempts=2), Outcome.FAILED)) == Finished(Outcome.FAILED, retrying=True)


def test_what_a_person_resolved_as_done_is_closed_for_everybody() -> None:
    slot = OneCell()
    fence = slot.granted()
    slot.say(Finish(fence, Outcome.FAILED, "boom"))
    assert slot.say(Resolve("done", "by hand")) == Closed(Outcome.SUCCEEDED, "resolved: by hand")
    assert slot.say(claim("n2", "web-2")) == Closed(Outcome.SUCCEEDED, "resolved: by hand")


@pytest.mark.parametrize("queued", [None, Queue(), Queue(waiting=True)])
def test_a_retry_that_nobody_has_begun_may_be_done_after_all_and_both_words_are_on_record(queued: Queue | None) -> None:
    """A wrong retry could not be taken back, and the next slot charged again."""
    slot = OneCell()
    slot.say(Finish(slot.granted(), Outcome.UNKNOWN, "no answer"))
    slot.say(Resolve("retry", "by ada"))
    if queued:
        slot.say(queued)
    slot.later(SECOND)
    assert slot.say(Resolve("done", "by bob: it is in the bank's books", '"p-7"')) == Closed(
        Outcome.SUCCEEDED, "resolved: by bob: it is in the bank's books"
    )
    (past,) = slot.record.past
    assert past.end == "unknown: no answer, retried: by ada"
    assert (slot.record.result, slot.cell.mark) == ('"p-7"', Mark.CLOSED)
    assert slot.say(claim("n2", "web-2")) == Closed(Outcome.SUCCEEDED, slot.record.reason)


def test_done_by_a_persons_word_may_be_taken_back_as_often_as_people_change_their_minds() -> None:
    slot = OneCell()
    slot.say(Finish(slot.granted(), Outcome.UNKNOWN, "no answer"))
    slot.say(Resolve("done", "by ada", '"p-7"'))
    assert slot.say(Resolve("retry", "by bob")) == Queued(waiting=False)
    assert (slot.record.result, slot.record.past[-1].retried) == ("", slot.now)
    slot.say(Resolve("done", "by cay"))
    assert slot.say(Resolve("done", "by dan")) == Closed(Outcome.SUCCEEDED, "resolved: by cay")
    slot.say(Resolve("retry", "by eve"))
    (past,) = slot.record.past
    words = "unknown: no answer, resolved: by ada, retried: by bob, resolved: by cay, retried: by eve"
    assert (past.end, past.holder) == (words, "web-1")
    assert slot.granted("n2", "web-2") > Fence(1, 1)


def test_what_was_begun_since_a_retry_is_not_done_by_a_word_of_before() -> None:
    slot = OneCell()
    slot.say(Finish(slot.granted(), Outcome.FAILED))
    slot.say(Resolve("retry", "by ada"))
    assert slot.say(Resolve("retry", "by bob")) == Nothing()
    fence = slot.granted("n2", "web-2")
    assert slot.say(Resolve("done", "by bob")) == Held("web-2", slot.cell.until)
    slot.say(Release(fence))
    assert slot.say(Resolve("done", "by bob")) == Nothing()


def test_what_succeeded_by_itself_is_not_retried_by_a_persons_word() -> None:
    slot = OneCell()
    slot.say(Finish(slot.granted(), Outcome.SUCCEEDED, "fine"))
    assert slot.say(Resolve("retry", "by bob")) == Closed(Outcome.SUCCEEDED, "fine")


@pytest.mark.parametrize("verdict", ["done", "retry"])
def test_when_it_was_found_lost_and_when_a_person_looked_are_both_on_record(verdict: Literal["done", "retry"]) -> None:
    slot = OneCell()
    slot.granted(on_lost="skip")
    slot.later(2 * LEASE)
    slot.say(Settle())
    assert slot.record.outcome is Outcome.LOST
    found = slot.record.finished
    slot.later(timedelta(days=1))
    slot.say(Resolve(verdict, "by ada"))
    looked = slot.now
    (past,) = slot.record.past
    assert past.ended == found
    assert (past.retried, slot.record.finished) == ((None, looked) if verdict == "done" else (looked, None))
    said = slot.record.reason if verdict == "done" else past.end
    lost = "lost: its holder web-1 did not renew its lease"
    assert said == ("resolved: by ada" if verdict == "done" else f"{lost}, retried: by ada")


def test_the_one_that_failed_cannot_speak_for_the_retry_of_a_person() -> None:
    slot = OneCell()
    failed = slot.granted()
    slot.say(Finish(failed, Outcome.FAILED))
    slot.say(Resolve("retry", "fixed"))
    assert slot.say(Finish(failed, Outcome.SUCCEEDED)) == Stale("web-1")
    assert slot.say(Finish(failed, Outcome.FAILED)) == Stale("web-1")


def test_a_slot_without_a_cell_below_the_floor_is_too_old_and_leaves_no_record() -> None:
    slot = OneCell(floor=AT)
    assert slot.say(claim("n1", "web-1")) == TOO_OLD.answer
    assert slot.cell.version == 0


def test_a_slot_with_a_cell_is_not_touched_by_a_floor_that_rises_above_it() -> None:
    slot = OneCell(floor=AT - SECOND)
    fence = slot.granted(attempts=2)
    slot.floor = AT + timedelta(days=1)
    assert slot.say(Renew(fence)) == Renewed("")
    assert slot.say(Finish(fence, Outcome.FAILED)) == Finished(Outcome.FAILED, retrying=True)
    assert slot.say(claim("n2", "web-2")) == Granted(2)


def test_forgotten_cells_become_unknown_for_a_person_to_see() -> None:
    slot = OneCell()
    fence = slot.granted()
    slot.forget()
    assert slot.say(Renew(fence)) == Stale("web-1")
    assert slot.say(Finish(fence, Outcome.SUCCEEDED)) == Stale("web-1")
    assert slot.say(claim("n2", "web-2")) == Closed(Outcome.UNKNOWN, "the store forgot what became of it")
    assert slot.cell.mark is Mark.ATTENTION


def test_what_was_closed_before_the_store_forgot_stays_closed() -> None:
    slot = OneCell()
    slot.say(Finish(slot.granted(), Outcome.SUCCEEDED))
    slot.forget()
    assert slot.say(claim("n2", "web-2")) == Closed(Outcome.SUCCEEDED, "")


def test_a_fence_drawn_after_the_store_forgot_is_higher_than_any_before() -> None:
    slot = OneCell()
    before = slot.granted()
    slot.forget()
    slot.say(Settle())
    slot.say(Resolve("retry", "looked"))
    assert slot.granted("n2", "web-2") > before


def test_start_by_is_judged_at_the_first_start_only() -> None:
    slot = OneCell()
    late = claim("n2", "web-2", start_by=AT)
    slot.granted()
    slot.lapse()
    assert slot.say(late) == Granted(2, taken_over="web-1")
    slot.say(Release(slot.fence))
    assert slot.say(late) == Granted(3)


def test_what_a_person_retries_is_not_too_late_even_if_it_never_started() -> None:
    slot = OneCell()
    slot.say(Queue())
    slot.forget()
    assert slot.say(Settle()) == Closed(Outcome.UNKNOWN, "the store forgot what became of it")
    slot.later(SECOND)
    slot.say(Resolve("retry", "looked"))
    assert slot.say(claim("n1", "web-1", start_by=AT)) == Granted(1)


def test_a_first_start_that_comes_too_late_is_on_record_as_skipped() -> None:
    slot = OneCell()
    slot.say(Queue())
    slot.later(SECOND)
    assert slot.say(claim("n1", "web-1", start_by=AT)) == LATE
    assert slot.say(claim("n2", "web-2")) == LATE


def test_a_release_with_rest_keeps_a_lock_for_at_least_that_long() -> None:
    lock = OneCell(at=None)
    fence = lock.granted()
    assert lock.say(Release(fence, rest=20 * SECOND)) == Released()
    lock.later(19 * SECOND)
    assert lock.say(claim("n2", "web-2")) == Early(AT + 20 * SECOND)
    lock.later(SECOND)
    assert lock.say(claim("n2", "web-2")) == Granted(2)


def test_a_release_said_twice_rests_once() -> None:
    lock = OneCell(at=None)
    fence = lock.granted()
    lock.say(Release(fence, rest=20 * SECOND))
    lock.later(10 * SECOND)
    assert lock.say(Release(fence, rest=20 * SECOND)) == Released()
    assert lock.cell.until == AT + 20 * SECOND


def test_a_release_gives_back_whatever_on_lost_says() -> None:
    slot = OneCell()
    slot.say(Release(slot.granted(on_lost="skip")))
    assert slot.say(claim("n2", "web-2"), watched=ZERO) == Granted(2)


def test_to_ask_is_not_to_renew_and_the_holder_learns_it_with_its_next_renewal() -> None:
    slot = OneCell()
    fence = slot.granted()
    slot.later(10 * SECOND)
    assert slot.say(Ask("replaced")) == Asked()
    assert (slot.cell.until, slot.fence) == (AT + LEASE, fence)
    assert slot.say(Ask("drained")) == Asked()  # the first to ask has the word
    assert slot.say(Renew(fence)) == Renewed("replaced")


def test_nothing_is_asked_of_what_is_over() -> None:
    slot = OneCell()
    fence = slot.granted()
    slot.say(Ask("replaced"))
    slot.say(Finish(fence, Outcome.SUCCEEDED))
    assert slot.record.ask == ""


def test_what_was_asked_to_stop_does_not_begin_again_when_its_holder_dies() -> None:
    slot = OneCell()
    slot.granted()
    slot.say(Ask("cancelled by ada"))
    slot.lapse()
    why = "its holder web-1 did not renew its lease, after it was asked to stop: cancelled by ada"
    assert slot.say(claim("n2", "web-2")) == Closed(Outcome.LOST, why)


def test_what_was_asked_to_stop_is_not_tried_again_when_it_fails() -> None:
    slot = OneCell()
    fence = slot.granted(attempts=3)
    slot.say(Ask("cancelled by ada"))
    assert slot.say(Finish(fence, Outcome.FAILED, "boom")) == Finished(Outcome.FAILED)


def test_a_failure_that_is_final_is_not_tried_again() -> None:
    slot = OneCell()
    fence = slot.granted(attempts=3)
    assert slot.say(Finish(fence, Outcome.FAILED, "stopped", final=True)) == Finished(Outcome.FAILED)


def test_a_failure_with_attempts_left_is_retried_from_its_backoff_on_and_the_last_one_closes() -> None:
    slot = OneCell()
    first = slot.granted(attempts=2)
    assert slot.say(Finish(first, Outcome.FAILED, "boom", 5 * SECOND)) == Finished(Outcome.FAILED, retrying=True)
    assert slot.say(claim("n2", "web-2")) == Early(AT + 5 * SECOND)
    slot.later(5 * SECOND)
    second = slot.granted("n2", "web-2", attempts=2)
    assert slot.say(Finish(second, Outcome.FAILED, "boom")) == Finished(Outcome.FAILED, retrying=False)
    assert (slot.record.state, slot.record.failures, slot.cell.mark) == (State.CLOSED, 1, Mark.CLOSED)


@pytest.mark.parametrize("outcome", [outcome for outcome in CLOSED_AS if outcome is not Outcome.FAILED])
def test_only_a_failure_is_retried(outcome: Outcome) -> None:
    slot = OneCell()
    assert slot.say(Finish(slot.granted(attempts=9), outcome)) == Finished(outcome)
    assert slot.record.state is State.CLOSED


def test_a_crash_is_no_failure_attempts_are_not_used_up_by_takeovers() -> None:
    slot = OneCell()
    for number in range(5):
        fence = slot.granted(f"n{number}", attempts=2)
        slot.lapse()
    assert slot.say(Finish(fence, Outcome.FAILED)) == Finished(Outcome.FAILED, retrying=True)


def test_history_is_bounded_and_the_grant_still_counts() -> None:
    slot = OneCell()
    fences = []
    for number in range(PAST_KEPT + 5):
        fences.append(slot.granted(f"n{number}"))
        if number % 2:  # were all to lapse, it would be closed
            slot.say(Release(fences[-1]))
        else:
            slot.lapse()
    forgotten = fences[1:8:2]  # the oldest of those under which nothing ran
    assert [past.fence for past in slot.record.past] == [fence for fence in fences[:-1] if fence not in forgotten]
    assert slot.record.grant == PAST_KEPT + 5


def test_what_waits_for_its_turn_is_claimed_like_any_other() -> None:
    slot = OneCell()
    assert slot.say(Queue(waiting=True)) == Queued(waiting=True)
    assert slot.say(claim("n1", "web-1")) == Granted(1)


def test_a_slot_that_runs_can_neither_be_skipped_nor_queued() -> None:
    slot = OneCell()
    slot.granted()
    running = slot.cell
    for command in (Skip("no"), Queue(), Queue(waiting=True), Resolve("done", "no"), Settle()):
        assert slot.say(command) == Held("web-1", AT + LEASE)
    assert slot.cell == running


def test_what_only_looked_leaves_no_record() -> None:
    slot = OneCell()
    for command in (Settle(), Ask("no"), Resolve("done", "no"), Renew(F1), Finish(F1, Outcome.SUCCEEDED), Release(F1)):
        slot.say(command)
    assert slot.cell.version == 0


# --- whatever was read, whatever is said ----------------------------------------------------------------------------

commands = st.one_of(
    st.builds(
        Claim,
        strategies.nonces,
        strategies.texts,
        strategies.spans,
        strategies.on_losts,
        strategies.counts,
        st.none() | strategies.instants,
        under=st.none() | strategies.makers,
        keep=st.none() | strategies.spans,
        least=strategies.spans,
    ),
    st.builds(
        Renew,
        strategies.fences,
        st.none() | strategies.spans,
        progress=st.none() | st.tuples(strategies.counts, strategies.counts),
    ),
    st.builds(
        Finish,
        strategies.fences,
        st.sampled_from(Outcome),
        strategies.any_text,
        strategies.spans,
        st.booleans(),
        ended=strategies.maybe_instants,
    ),
    st.builds(Release, strategies.fences, strategies.spans),
    st.builds(Queue, st.booleans()),
    st.builds(Skip, strategies.any_text),
    st.just(Settle()),
    st.builds(Ask, strategies.any_text),
    st.builds(Resolve, st.sampled_from(["done", "retry"]), strategies.any_text),
)


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    record = draw(st.none() | strategies.records)
    cell = Cell(KEY, at=draw(st.none() | strategies.instants))
    if record is not None:
        cell = cell._replace(
            version=draw(st.integers(1, 9)),
            mark=draw(st.sampled_from(Mark)),
            fence=draw(st.none() | strategies.fences),
            until=draw(st.none() | strategies.instants),
        )
    even = watched(draw(strategies.spans))
    facts = Facts(draw(strategies.instants), draw(st.none() | strategies.instants), draw(st.integers(0, 9)), even)
    return Scene(cell, record, facts)


@given(scenes(), commands)
@example(SCENES[Row.CLOSED], SAYS[Claim])
def test_whatever_was_read_and_said_the_promises_hold(scene: Scene, command: Command) -> None:
    cell, record, facts = scene
    answer, change, *_ = rule(cell, record, command, facts)
    if change is None:
        return
    expired = row(cell, record, command, facts) is Row.EXPIRED
    was_closed = record is not None and record.state is State.CLOSED and not expired
    read_back = isinstance(command, Claim) and change.record == record  # mine already, and live: the same fence again
    assert change.grant is (isinstance(answer, Granted) and not read_back)
    assert not (change.grant and was_closed), "a closed cell is never granted"
    assert not was_closed or isinstance(command, Resolve), "closed has no way back but resolve"
    assert change.record.grant == (record.grant if record else 0) + change.grant, "a grant counts one up, nothing down"
    goes_on = read_back or isinstance(command, Renew | Ask)
    assert change.grant is (change.record.state is State.RUNNING and not goes_on)
    assert decode(encode(change.record)) == change.record


@given(scenes(), commands)
def test_whatever_closes_a_cell_marks_it_and_says_as_what(scene: Scene, command: Command) -> None:
    _, change, *_ = rule(*scene[:2], command, scene.facts)
    if change is not None:
        closes = change.record.state is State.CLOSED
        assert closes is (change.mark in (Mark.CLOSED, Mark.ATTENTION))
        assert not closes or (change.record.outcome is not None and change.record.finished == scene.facts.now)


@given(scenes(), strategies.fences, st.sampled_from(Outcome))
def test_whoever_names_another_fence_changes_nothing(scene: Scene, fence: Fence, outcome: Outcome) -> None:
    cell = scene.cell._replace(fence=Fence(9, 9))
    for command in (Renew(fence), Finish(fence, outcome), Release(fence)):
        answer, change, *_ = rule(cell, scene.record, command, scene.facts)
        assert isinstance(answer, Stale)
        assert change is None


@given(scenes(), commands)
def test_a_live_lease_of_another_is_touched_by_nothing_but_a_word_to_its_holder(scene: Scene, command: Command) -> None:
    """Not of a step: that ends with its run."""
    live = scene.cell._replace(version=9, until=scene.facts.now + SECOND, fence=Fence(9, 9))
    record = (scene.record or RAN)._replace(state=State.RUNNING, nonce="another's", under=None)
    _, change, *_ = rule(live, record, command, scene.facts._replace(base=0))
    if change is not None:
        assert isinstance(command, Ask)
        assert change == Change(record._replace(ask=command.reason), Mark.OPEN, ttl=None, grant=False)


# --- whatever is said, one after the other --------------------------------------------------------------------------


class Step(NamedTuple):
    command: Command
    later: timedelta
    watched: timedelta


steps = st.lists(
    st.builds(Step, commands, st.sampled_from([ZERO, SECOND, LEASE]), st.sampled_from([ZERO, timedelta(hours=1)])),
    max_size=30,
)


@given(steps, st.booleans())
def test_whatever_is_said_in_whatever_order_fences_rise_and_closed_is_closed(said: list[Step], forgets: bool) -> None:
    slot = OneCell()
    fences: list[Fence] = []
    for number, (command, later, watched) in enumerate(said):
        slot.later(later)
        if forgets and number == len(said) // 2:
            slot.forget()
        before = slot.cell
        told = slot.say(_by_the_latest(command, fences), watched=watched)
        if isinstance(told.answer, Granted) and slot.cell.fence != before.fence:
            fences.append(slot.fence)
        closed = before.mark in (Mark.CLOSED, Mark.ATTENTION) and not isinstance(command, Resolve)
        if closed and not is_expired(before, decode(before.value), slot.now):
            assert slot.cell == before
    assert fences == sorted(set(fences))
    if slot.cell.version:
        assert slot.record.grant == len(fences)


def _by_the_latest(command: Command, fences: list[Fence]) -> Command:
    """Half of the random fences stand for the latest one, so that holders get somewhere."""
    if isinstance(command, Renew | Finish | Release) and fences:
        return command._replace(fence=fences[-1] if command.fence.birth == 1 else fences[0])
    return command


# --- effects: a claim on a cell that closes with a result -----------------------------------------------------------


MAKER = Maker("run/a", F1)


class AnEffect(OneCell):
    """A cell that is claimed as effects are: on_lost is skip, and it has no floor."""

    def __init__(self) -> None:
        super().__init__(at=None)

    def begun(self, nonce: str = "n1", under: Maker | None = None, keep: timedelta | None = None) -> Fence:
        told = self.say(Claim(nonce, "web-1", LEASE, "skip", 9, under=under, keep=keep))
        assert isinstance(told.answer, Granted)
        return self.fence


def test_what_is_done_is_done_for_everybody_with_its_result() -> None:
    effect = AnEffect()
    effect.say(Finish(effect.begun(), Outcome.SUCCEEDED, result='{"id":7}'))
    assert effect.say(claim("n2", "web-2")) == Closed(Outcome.SUCCEEDED, "")
    assert effect.record.result == '{"id":7}'


def test_what_is_done_is_known_for_as_long_as_it_was_begun_with_counted_from_when_it_was_done() -> None:
    effect = AnEffect()
    fence = effect.begun(keep=DAY)
    effect.later(10 * SECOND)
    effect.say(Finish(fence, Outcome.SUCCEEDED))
    effect.later(DAY - SECOND)
    assert effect.say(claim("n2", "web-2")) == Closed(Outcome.SUCCEEDED, "")
    effect.later(SECOND)
    assert effect.say(claim("n3", "web-2")) == Granted(2)


@pytest.mark.parametrize("doubt", ["lapsed", "said so"])
def test_what_is_in_doubt_is_known_for_good(doubt: str) -> None:
    effect = AnEffect()
    fence = effect.begun(keep=DAY)
    if doubt == "lapsed":
        effect.lapse()
        effect.say(claim("n2", "web-2"))
    else:
        effect.say(Finish(fence, Outcome.UNKNOWN, "it timed out"))
    effect.later(1000 * DAY)
    told = effect.say(claim("n3", "web-2")).answer
    assert isinstance(told, Closed)
    assert told.outcome in (Outcome.LOST, Outcome.UNKNOWN)
    assert effect.cell.mark is Mark.ATTENTION


def test_a_person_says_what_came_of_it_and_that_is_kept_like_any_result() -> None:
    effect = AnEffect()
    effect.say(Finish(effect.begun(keep=DAY), Outcome.UNKNOWN, "it timed out"))
    assert effect.say(Resolve("done", "paid", '"p-7"')) == Closed(Outcome.SUCCEEDED, "resolved: paid")
    assert (effect.record.result, effect.cell.until) == ('"p-7"', effect.now + DAY)


def test_who_was_at_it_is_stale_once_a_person_has_said_what_came_of_it() -> None:
    effect = AnEffect()
    fence = effect.begun()
    effect.lapse()
    effect.say(claim("n2", "web-2"))
    effect.say(Resolve("done", "paid", '"p-7"'))
    assert effect.say(Finish(fence, Outcome.SUCCEEDED, result='"p-8"')) == Stale("web-1")
    assert effect.record.result == '"p-7"'


def test_a_step_has_no_lease_of_its_own_it_is_over_with_its_run() -> None:
    step = AnEffect()
    step.begun(under=MAKER)
    step.later(1000 * DAY)
    facts = Facts(step.now, even=watched(1000 * DAY))
    assert row(step.cell, step.record, SAYS[Claim], facts) is Row.HELD
    assert row(step.cell, step.record, SAYS[Claim], facts._replace(over={MAKER})) is Row.LAPSED


@pytest.mark.parametrize(("fence", "expected"), [(F1, Row.HELD), (Fence(1, 8), Row.LAPSED)])
def test_a_step_is_over_for_a_later_grant_of_its_slot_and_not_for_its_own_run(fence: Fence, expected: Row) -> None:
    """Two threads of one run that begin the same step: the second finds it held, and not in doubt."""
    step = AnEffect()
    step.begun(under=MAKER)
    command = claim("n2", "web-1")._replace(under=MAKER._replace(fence=fence))
    assert Fence(1, 8) > F1
    assert row(step.cell, step.record, command, Facts(step.now)) is expected


def test_a_step_of_a_run_that_is_over_is_in_doubt_whatever_the_next_run_says_of_on_lost() -> None:
    step = AnEffect()
    step.begun(under=MAKER)
    facts = Facts(step.now, over={MAKER})
    decision = rule(step.cell, step.record, claim("n2", "web-2", "rerun"), facts)
    assert decision.answer == Closed(Outcome.LOST, "its run at web-1 is over")


def test_what_was_surely_not_done_may_be_begun_again() -> None:
    effect = AnEffect()
    assert effect.say(Finish(effect.begun(), Outcome.FAILED, "refused")) == Finished(Outcome.FAILED, retrying=True)
    assert effect.begun("n2") > Fence(1, 1)


# --- how a run is closed ---


@pytest.mark.parametrize(
    ("outcome", "doubts", "committed", "expected"),
    [
        (Outcome.FAILED, (), False, (Outcome.FAILED, "boom")),
        (Outcome.FAILED, (), True, (Outcome.SUCCEEDED, "its transaction was committed; then boom")),
        (Outcome.SUCCEEDED, (), True, (Outcome.SUCCEEDED, "boom")),
        (Outcome.SUCCEEDED, ("charge",), True, (Outcome.UNKNOWN, "charge")),
        (Outcome.FAILED, ("charge", "mail", "log"), False, (Outcome.UNKNOWN, "charge (and 2 more)")),
    ],
)
def test_doubts_and_commits_say_how_a_run_is_closed(
    outcome: Outcome, doubts: tuple[str, ...], committed: bool, expected: tuple[Outcome, str]
) -> None:
    assert ended_as(outcome, "boom", doubts, committed=committed) == expected


@pytest.mark.parametrize(
    ("outcome", "committed", "expected"),
    [
        (Outcome.FAILED, False, (Outcome.FAILED, "boom")),
        (Outcome.SUCCEEDED, False, (Outcome.FAILED, "mail")),
        (Outcome.FAILED, True, (Outcome.UNKNOWN, "mail")),
        (Outcome.SUCCEEDED, True, (Outcome.UNKNOWN, "mail")),
    ],
)
def test_what_is_committed_and_lacks_an_effect_is_for_a_person_and_not_tried_again(
    outcome: Outcome, committed: bool, expected: tuple[Outcome, str]
) -> None:
    assert ended_as(outcome, "boom", (), ("mail",), committed=committed) == expected
