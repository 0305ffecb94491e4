"""Some rows of the fault table; `python -m tests.faults.fault_table` plays them all."""

from concurrent.futures import ThreadPoolExecutor

from tests.faults.fault_table.play import Counted, play

ROWS = [
    ("killed", "guard", "sqlite"),
    ("locked", "missed=all", "sqlite"),
    ("stopped", "scheduler", "valkey"),
    ("an hour ahead", "scheduler", "postgresql"),
]


def test_each_slot_runs_once_whatever_happens_to_the_store() -> None:
    """All at once: they mostly wait. Under rerun each slot runs, in the end."""
    with ThreadPoolExecutor(len(ROWS)) as pool:
        found = dict(zip(ROWS, pool.map(lambda row: play(*row), ROWS), strict=True))
    slots = 19
    assert found == dict.fromkeys(ROWS, Counted(slots, ran=slots, extra=0, missed=0, lost=0, on_record=0))
