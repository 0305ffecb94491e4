"""A connection in which a renewal hangs is replaced, at most so many at once."""

from cronce.runtime.node import FULL, MOST_STUCK, RenewalConnection
from tests.runtime.office import Office, StillBeat
from tests.runtime.shelf import HandClock


def made(office: Office) -> RenewalConnection:
    return RenewalConnection(office.node, lambda: StillBeat("renews", lambda: None, office.node.clock))


def test_where_so_many_hang_another_is_made_as_soon_as_one_of_them_has_come_back(
    office: Office, clock: HandClock
) -> None:
    """With four that hung nobody looked again whether the newest hung, too, before that one came back by itself: leases
    were lost though the store answered on any new connection."""
    renewal = made(office)
    first = renewal.current
    for number in range(MOST_STUCK):
        renewal.hangs_at = clock.boot()
        renewal.replace_if_stuck(clock.boot())
        assert len(renewal.stuck) == number + 1
    newest, renewal.hangs_at = renewal.current, clock.boot()
    renewal.replace_if_stuck(clock.boot())
    assert (renewal.current, len(renewal.stuck)) == (newest, MOST_STUCK)
    assert not renewal.returned(first)
    clock.turn(FULL)
    renewal.replace_if_stuck(clock.boot())
    assert renewal.current is not newest
    assert len(renewal.stuck) == MOST_STUCK


def test_one_that_came_back_in_time_is_not_replaced(office: Office, clock: HandClock) -> None:
    renewal = made(office)
    connection, renewal.hangs_at = renewal.current, clock.boot() + 1
    assert renewal.returned(connection)
    clock.turn(2)
    renewal.replace_if_stuck(clock.boot())
    assert (renewal.current, renewal.stuck) == (connection, [])
