"""A view: what was read, told apart from what was only guessed."""

from cronce.protocol.record import Record, State
from tests.protocol.views import claimable


def test_a_run_holds_its_turn_only_while_it_runs() -> None:
    running = Record(State.RUNNING, turn="turn/billing/0")
    assert claimable(record=running).held_turn == "turn/billing/0"
    assert claimable(record=running._replace(state=State.RETRYING)).held_turn == ""
    assert claimable().held_turn == ""
