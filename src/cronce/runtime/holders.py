"""Which schedulers are alive, who is told to claim nothing more, and what they would run. Flows that only read."""

from collections.abc import Iterable

from cronce.model import Cell, Instant, bundle_cells, drain_cells
from cronce.protocol.readable import all_readable
from cronce.protocol.record import Act, Holder, decode_bundle, decode_holder, standing_act
from cronce.runtime.flow import Flow
from cronce.runtime.look import read_all, read_page
from cronce.stores.base import Scan
from cronce.value import NamedTuple


class HolderSeen(NamedTuple):
    """A scheduler: until when its last beat counts, and what keeps it from claiming, if anything does."""

    holder: Holder
    until: Instant
    drained: Act | None

    @property
    def claims(self) -> bool:
        return self.drained is None and not self.holder.draining

    def concerned(self, cell: str) -> bool:
        """Whether it goes by what stands in that cell."""
        return cell in drain_cells(self.holder.holder, self.holder.labels)


def holders() -> Flow[tuple[Instant, list[HolderSeen]]]:
    """The live schedulers, by name."""
    now, seen = yield from everybody()
    return now, [one for one in seen if one.until > now]


def everybody() -> Flow[tuple[Instant, list[HolderSeen]]]:
    """Those that are dead, too, as long as they are remembered. One that a newer cronce wrote says nothing that we
    understand."""
    _, orders = yield from read_all(Scan("drain/"))
    now, cells = yield from read_all(Scan("holder/"))
    return now, _seen(cells, orders)


def latest(limit: int) -> Flow[tuple[Instant, list[HolderSeen]]]:
    """So many of everybody, those last heard of first: for whoever must not read all of it."""
    orders = yield from read_page(Scan("drain/"))
    page = yield from read_page(Scan("holder/", "until", newest_first=True, limit=limit))
    return page.now, _seen(page.cells, orders.cells)


def _seen(cells: Iterable[Cell], orders: Iterable[Cell]) -> list[HolderSeen]:
    acts = {cell.key: act for cell in orders if (act := standing_act(cell)) is not None}
    seen = []
    for cell, holder in all_readable(cells, decode_holder):
        if cell.until is not None:
            stands = (acts[key] for key in drain_cells(holder.holder, holder.labels) if key in acts)
            seen.append(HolderSeen(holder, cell.until, next(stands, None)))
    return seen


def carried() -> Flow[set[str]]:
    """The jobs of which a live scheduler would run what is due."""
    _, live = yield from holders()
    jobs: set[str] = set()
    for bundle in {one.holder.bundle for one in live if one.claims and one.holder.role != "schedule"}:
        _, cells = yield from read_all(Scan(bundle_cells(bundle)))
        jobs |= set().union(*(part.specs for _, part in all_readable(cells, decode_bundle)))
    return jobs
