"""How many duplicates were prevented is counted exactly, whoever writes at once and whatever gets no answer."""

import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from cronce.clock import SystemClock
from cronce.errors import StoreUnavailable
from cronce.model import Slot
from cronce.protocol.commands import Closed, Held, Paused
from cronce.protocol.notices import Prevented
from cronce.protocol.record import Outcome
from cronce.runtime.node import Node
from cronce.runtime.prevented import (
    DAYS_KEPT,
    PreventedBatch,
    counted,
    is_prevented,
    prevented_in,
    prevented_of_all,
)
from cronce.runtime.process_notes import UnwrittenRefusals
from cronce.stores import open_store
from tests.runtime.office import Office, job
from tests.runtime.shelf import START, HandClock, Wire

SLOT = Slot("billing", START)


def test_four_workers_and_five_hundred_slots_are_counted_as_the_workers_count(tmp_path: Path) -> None:
    """54 of 75 were: processes of one machine were too quick for each other, and what was not written was dropped."""
    url = f"sqlite:///{tmp_path}/cronce.db"
    command = [sys.executable, "-m", "tests.runtime.prevented_worker", url, "500"]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    logs = [tuple(map(int, worker.communicate()[0].split())) for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 4
    assert (sum(ran for ran, _ in logs), sum(refused for _, refused in logs)) == (500, 1500)
    with closing(open_store(url)) as store:
        node = Node(store, SystemClock(), lambda: store, lambda _event: None)
        found = node.do(prevented_of_all(node.ledger.client))
        assert {name: one.total for name, one in found.items()} == {"sync": 1500}
        assert sum(found["sync"].days.values()) == 1500


def refuse(office: Office, notebook: UnwrittenRefusals, times: int) -> None:
    declared = job(overlap="allow")
    for _ in range(times):
        office.play(office.call_steps(declared, lambda _run: None))
    office.keeper.later("refusals", lambda store: notebook.write(store, office.keeper))


def of_billing(office: Office) -> Prevented:
    return office.node.do(prevented_of_all(office.node.ledger.client))["billing"]


def test_a_write_whose_answer_was_lost_counts_once(office: Office, store: Wire, clock: HandClock) -> None:
    notebook = UnwrittenRefusals()
    refuse(office, notebook, 4)  # one of them ran
    store.lose_next("swap", "after")
    notebook.write(store, office.keeper)
    assert of_billing(office).total == 3
    assert of_billing(office).on(clock.wall()) == 3


def test_what_could_not_be_written_is_written_the_next_time_once(office: Office, store: Wire) -> None:
    notebook = UnwrittenRefusals()
    refuse(office, notebook, 4)
    store.lose = lambda call: "after" if call == "swap" else "before" if store.calls.count("swap") > 2 else ""
    with pytest.raises(StoreUnavailable):
        notebook.write(store, office.keeper)
    store.lose = lambda _call: ""
    refuse(office, notebook, 2)
    notebook.write(store, office.keeper)
    assert of_billing(office).total == 5


def test_counting_costs_no_request_beside_that_of_the_note(office: Office, store: Wire) -> None:
    notebook = UnwrittenRefusals()
    refuse(office, notebook, 20)
    store.calls.clear()
    notebook.refused(SLOT, "held", office.keeper)
    notebook.write(store, office.keeper)
    assert store.calls == ["load", "swap"]


def test_each_day_has_its_own_count_and_those_long_ago_are_part_of_the_sum(office: Office, store: Wire) -> None:
    one = PreventedBatch("00", {})
    (cell,) = store.load([one.cell("billing")]).cells
    for day in range(DAYS_KEPT + 5):
        write = counted(f"{day:02}", {(START + timedelta(days=day)).date().isoformat(): 2}, cell)
        assert write is not None
        store.swap([write], store.load([]).epoch.seen)
        (cell,) = store.load([cell.key]).cells
    found = prevented_in([cell])["billing"]
    assert (found.total, len(found.days), found.on(START), found.on(START + timedelta(days=5))) == (
        210,
        DAYS_KEPT,
        0,
        2,
    )


@pytest.mark.parametrize(
    ("answer", "is_one"),
    [
        (Held("web-2", START), True),
        (Closed(Outcome.SUCCEEDED, ""), True),
        (Closed(Outcome.FAILED, ""), False),
        (Closed(Outcome.LOST, ""), False),
        (Closed(Outcome.UNKNOWN, ""), False),
        (Closed(Outcome.SKIPPED, "too late to start"), False),
        (Closed(Outcome.TOO_OLD, ""), False),
        (Paused(), False),
    ],
    ids=str,
)
def test_a_duplicate_is_what_another_runs_or_has_done(answer: object, *, is_one: bool) -> None:
    """Refusals of a slot that had failed, or was lost, were counted too."""
    assert is_prevented(answer) is is_one
