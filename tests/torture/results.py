"""The result of a torture that never was."""

from datetime import UTC, datetime, timedelta

from cronce.model import Slot
from cronce.protocol.record import Outcome
from cronce.testing.ledger_file import parse
from cronce.torture.fault_actions import InjectedFault
from cronce.torture.faults import EVERYBODY
from cronce.torture.harness import TortureResult, TortureSettings
from cronce.torture.verdict import TortureRecord, TortureVerdict
from cronce.torture.worker import TortureTask

FIRST = datetime(2026, 3, 29, 8, 17, tzinfo=UTC)
SLOTS = tuple(FIRST + timedelta(seconds=number) for number in range(5))
SKIP, RERUN = TortureTask("t-skip", "skip", "skip", 2.5), TortureTask("t-rerun", "rerun", "allow", 2.5)


def key(task: TortureTask, number: int) -> str:
    return Slot(task.job, SLOTS[number]).key


def _run(task: TortureTask, number: int, who: str, fence: str, *acts: str) -> list[str]:
    """Acts as `what+seconds`."""
    said = (act.split("+") for act in acts)
    return [f"{what} {who} {key(task, number)} {fence} 1 {100 + float(when)}" for what, when in said]


def result(**changes: object) -> TortureResult:
    """Five seconds: under skip one body is killed, under rerun one is taken over."""
    lines = [
        *_run(SKIP, 0, "w1", "f1", "start+0.1", "step+0.3", "done+0.5", "accepted+0.6"),
        *_run(SKIP, 1, "w2", "f2", "start+1.1", "step+1.4"),
        *_run(RERUN, 0, "w2", "f1", "start+0.1", "done+0.2"),
        *_run(RERUN, 1, "w1", "f2", "start+1.0", "stopped+3.0", "stale+3.1"),
        *_run(RERUN, 1, "w3", "f3", "start+3.5", "done+3.9", "accepted+4.0"),
    ]
    records = {
        key(SKIP, 0): TortureRecord(Outcome.SUCCEEDED, "f1"),
        key(SKIP, 1): TortureRecord(Outcome.LOST, "f2"),
        key(SKIP, 2): TortureRecord(Outcome.SKIPPED),
        **{key(RERUN, number): TortureRecord(Outcome.SUCCEEDED, f"f{number}") for number in range(5)},
    }
    made = TortureResult(
        TortureSettings("sqlite:///x.db", 5, processes=3, seed=7),
        (TortureVerdict(5, 1, missed=2, lost=1, skipped=1), TortureVerdict(5, 5, on_lost="rerun", taken_over=1)),
        forgot=False,
        left_out=("no partitions: a sqlite: store is not reached by TCP",),
        tasks=(SKIP, RERUN),
        slots=SLOTS,
        first=100.0,
        lines=tuple(parse(lines)),
        records=records,
        deeds=(
            InjectedFault("kill", "w2", 101.5, 103.0),
            InjectedFault("pause", "w1", 101.2, 103.0),
            InjectedFault("outage", EVERYBODY, 104, 105),
        ),
    )
    return made._replace(**changes)  # type: ignore[arg-type]
