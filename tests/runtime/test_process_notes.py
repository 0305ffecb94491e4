"""What processes of one machine leave for each other."""

import os
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from cronce.clock import SystemClock
from cronce.model import EPOCH, Slot
from cronce.protocol.lease import Sample
from cronce.protocol.notices import Refused, decode_machine, decode_refusals
from cronce.runtime.keeper import Keeper
from cronce.runtime.node import Node, host_name
from cronce.runtime.process_notes import (
    JOBS_AT_ONCE,
    UnwrittenRefusals,
    leave_clock,
    note_refusals,
    recall_clock,
    recall_once,
)
from cronce.stores import open_store
from cronce.stores.base import Scan
from tests.runtime.shelf import START, HandNode, Wire


def watched(url: str) -> Sequence[Sample]:
    """What a process of one call knows of the clock in the end."""
    with closing(open_store(url)) as store:
        node = Node(store, SystemClock(), lambda: store, lambda _event: None)
        node.do(recall_clock(node.ledger))
        node.do(leave_clock(node.ledger))
        return node.ledger.know.remembered(timedelta(0), 10)


def test_containers_of_one_machine_share_what_they_saw_of_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for name in ("pod-1", "pod-2"):
        monkeypatch.setattr("os.uname", lambda: os.uname_result(("Linux", name, "", "", "")))  # noqa: B023
        seen.append(watched(f"sqlite:///{tmp_path}/cronce.db"))
    assert seen[1][0] == seen[0][0]
    assert len(seen[1]) == len(seen[0]) + 1


def test_a_process_that_stays_shares_its_clock_over_what_others_left(tmp_path: Path) -> None:
    """Two of one machine, which both recalled the same: the faster one wins, and the other does once it has looked."""
    with closing(open_store(f"sqlite:///{tmp_path}/cronce.db")) as store:
        nodes = [Node(store, SystemClock(), lambda: store, lambda _event: None) for _ in range(2)]
        for act in (recall_clock, leave_clock, recall_clock, leave_clock):
            for node in nodes:
                node.do(act(node.ledger))
        newcomer = Node(store, SystemClock(), lambda: store, lambda _event: None)
        newcomer.do(recall_clock(newcomer.ledger))
        first, *_ = newcomer.ledger.know.remembered(timedelta(0), 10)
        assert first in nodes[1].ledger.know.remembered(timedelta(0), 10)


def test_a_process_that_asked_the_store_before_recalls_the_clock_all_the_same(tmp_path: Path) -> None:
    """One that had paused a job by hand was taken to have recalled it."""
    with closing(open_store(f"sqlite:///{tmp_path}/cronce.db")) as store:
        first, second = (Node(store, SystemClock(), lambda: store, lambda _event: None) for _ in range(2))
        first.do(recall_clock(first.ledger))
        first.do(leave_clock(first.ledger))
        second.do(second.ledger.client.load([]))
        for _ in range(2):
            second.do(recall_once(second.ledger))
        seen = second.ledger.know.remembered(timedelta(0), 10)
        assert seen[0] == first.ledger.know.remembered(timedelta(0), 10)[0]


def test_a_machine_says_which_time_zone_database_it_has_once_a_process_needed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that needs none leaves what another said."""
    said = []
    for version in ("", "2026a", "", "2026b"):
        monkeypatch.setattr("cronce.runtime.process_notes.tzdata_version", lambda version=version: version)
        watched(f"sqlite:///{tmp_path}/cronce.db")
        with closing(open_store(f"sqlite:///{tmp_path}/cronce.db")) as store:
            (cell,) = store.scan(Scan("machine/")).cells
            machine = decode_machine(cell.value)
            said.append((machine.host, machine.tzdata))
    host = host_name()
    assert said == [("", ""), (host, "2026a"), (host, "2026a"), (host, "2026b")]


def test_a_refusal_that_another_process_of_the_machine_came_before_is_noted_beside_it_and_once(
    node: HandNode, other: HandNode, store: Wire
) -> None:
    """Where two wrote at once the later one was lost. What is said again, since no answer came, is counted once."""
    ours, theirs = (Refused("a@2026-03-29T12:00:00Z", START, f"{name}: held") for name in ("web-1", "web-2"))

    def meanwhile(call: str) -> str:
        if call == "swap":
            store.lose = lambda _call: ""
            other.do(note_refusals(other.ledger, {"a": [theirs]}))
        return ""

    store.lose = meanwhile
    for _ in range(2):
        node.do(note_refusals(node.ledger, {"a": [ours]}))
    noted = decode_refusals(store.scan(Scan("refusals/")).cells[0].value)
    assert (noted.times, noted.recent) == (2, (theirs, ours))


def test_refusals_of_very_many_jobs_at_once_are_not_all_written(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/cronce.db")) as store:
        keeper = Keeper(Node(store, SystemClock(), lambda: store, lambda _event: None))
        notebook = UnwrittenRefusals()
        for number in range(JOBS_AT_ONCE + 5):
            for _ in range(2):
                notebook.refused(Slot(f"job-{number:03}", EPOCH), "held", keeper)
        notebook.write(store, keeper)
        cells = store.scan(Scan("refusals/")).cells
        assert len(cells) == JOBS_AT_ONCE
        assert {decode_refusals(cell.value).times for cell in cells} == {2}
        keeper.close()
