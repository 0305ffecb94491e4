"""Runs of jobs, as the real ledger writes them."""

from datetime import timedelta

from cronce.model import Slot
from cronce.protocol.commands import Queue
from cronce.protocol.record import Outcome
from cronce.runtime.ledger import Grant, Wanted
from cronce.runtime.queries import RunSeen
from tests.runtime.shelf import START, HandNode, terms

SECOND = timedelta(seconds=1)


def slot(job: str, seconds: int, request: str = "") -> Slot:
    return Slot(job, START + seconds * SECOND, request)


def granted(node: HandNode, wanted: Slot, **changes: object) -> Grant:
    (grant,) = node.do(node.ledger.claim([Wanted(wanted, terms(overlap="allow", **changes))]))
    assert isinstance(grant, Grant), grant
    return grant


def ran(node: HandNode, wanted: Slot, outcome: Outcome = Outcome.SUCCEEDED) -> None:
    if wanted.request:
        node.do(node.ledger.put({wanted: Queue(first=wanted.at)}))
    node.do(node.ledger.finish(granted(node, wanted), outcome))


def keys(found: list[RunSeen]) -> list[str]:
    return [run.slot.key.replace("2026-03-29T", "") for run in found]
