"""All of many jobs due at once: what a slot costs the scheduler's process, and how soon its end is on record.

The two schedulers stand side by side and have a half of each period. What a process does in its half besides, such as
its beats, is part of the figure. A body of ours is one write to a file, so it ends when it starts.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import postgres
from bench.harness import AtMost, Within
from bench.scheduler.book import exactly_once, read, tally
from bench.scheduler.burst import LEAD, Size, aps, ours
from bench.scheduler.jobs import names
from bench.scheduler.process import TICKS, Child, sleep_until
from bench.scheduler.report import Line
from cronce.model import Slot
from cronce.protocol.record import decode
from cronce.stores import open_store

EARLY = 0.3
"""Seconds before a slot from which on its cost counts."""


def cost(size: Size) -> Iterator[Line]:
    with postgres.server() as server, TemporaryDirectory() as folder, ExitStack() as stack:
        arms = {"ours": ours(server.url, size), **aps("memory", None, size)}
        books = {name: Path(folder, name) for name in arms}
        children = {name: stack.enter_context(arm.start(books[name])) for name, arm in arms.items()}
        for child in children.values():
            child.told()
        first = -(-(time.time() + LEAD) // size.period) * size.period
        slots = [first + cycle * size.period for cycle in range(size.cycles)]
        spent: dict[str, list[float]] = {name: [] for name in arms}
        for slot in slots:
            for name, arm in arms.items():
                spent[name].append(_spent(children[name], slot + arm.offset, size.period / 2) / size.jobs)
        entries = read(books["ours"])
        ends = [_ends(server.url, size.jobs, slot) for slot in slots]
    exactly_once([tally(entries, names(size.jobs), slot, slot + size.period) for slot in slots])
    started = [{entry.job: entry.at for entry in entries if slot <= entry.at < slot + size.period} for slot in slots]
    late = [max(end[job] - at for job, at in start.items()) for start, end in zip(started, ends, strict=True)]
    yield Line(f"CPU for each of {size.jobs:,} slots", spent["ours"], limit=Within(60e-6))
    if "memory" in spent:
        yield Line("CPU for each slot, APScheduler, memory", spent["ours"], spent["memory"], AtMost(2.5))
    yield Line("longest from an end until it is on record", late, limit=Within(0.3))
    yield Line(
        "slot until all ends are on record", [max(end.values()) - slot for slot, end in zip(slots, ends, strict=True)]
    )


def _spent(child: Child, slot: float, share: float) -> float:
    """Seconds of a core from just before the slot until the other's turn; no less than the kernel can tell."""
    sleep_until(slot - EARLY)
    before = child.cpu
    sleep_until(slot + share - 2 * EARLY)
    return max(child.cpu - before, 1 / TICKS)


def _ends(url: str, jobs: int, slot: float) -> dict[str, float]:
    """When the end of each job's run was put on record, by what stands there."""
    at = datetime.fromtimestamp(slot, UTC)
    cells = {Slot(name, at).cell: name for name in names(jobs)}
    store = open_store(url)
    try:
        found = store.load(list(cells)).cells
    finally:
        store.close()
    finished = {cells[cell.key]: decode(cell.value, cell.key).finished for cell in found}
    return {name: end.timestamp() for name, end in finished.items() if end is not None}
