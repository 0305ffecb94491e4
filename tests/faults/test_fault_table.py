"""Some rows of the fault table; `python -m tests.faults.fault_table` plays them all."""

from concurrent.futures import ThreadPoolExecutor

from tests.faults.fault_table.play import Counted, play

ROWS = [
    ("killed", "guard", "sqlite"),
    ("locked", "missed=all", "sqlite"),
    ("stopped", "scheduler", "valkey"),
    ("an hour ahead", "scheduler", "postgresql"),
]


def test_each_slot_runs_once_or_is_on_record_whatever_happens_to_the_store() -> None:
    """All at once: they mostly wait. Where each slot is wanted, or the store is there all the time, each has run."""
    with ThreadPoolExecutor(len(ROWS)) as pool:
        found = dict(zip(ROWS, pool.map(lambda row: play(*row), ROWS), strict=True))
    slots = 19
    whole = {row for row, one in found.items() if one == Counted(slots, slots, extra=0, missed=0, lost=0, on_record=0)}
    assert whole >= {ROWS[0], ROWS[1]}
    assert {(one.extra, one.missed, one.lost, one.ran + one.on_record) for one in found.values()} == {(0, 0, 0, slots)}
