"""Eight processes, many slots, one SQLite file, and a hand that kills with SIGKILL."""

import random
import signal
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cronce.model import Slot, read_fence
from cronce.protocol.record import Outcome, Record, State, decode
from cronce.stores import open_store
from cronce.stores.base import Scan
from tests.faults.notes import Note
from tests.faults.slots import JOB, SLOTS, instant

ROOT = Path(__file__).parents[2]
PROCESSES = 8


@dataclass
class Gang:
    """The processes, and the hand that kills them."""

    url: str
    book: Path
    on_lost: str
    overlap: str
    living: list[subprocess.Popen[bytes]] = field(default_factory=list)
    killed: int = 0
    started: int = 0
    pause: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        self.started += 1
        words = [self.url, str(self.book), self.on_lost, self.overlap, str(self.started)]
        self.living.append(subprocess.Popen([sys.executable, "-m", "tests.faults.claimant", *words], cwd=ROOT))

    def lines(self) -> int:
        return self.book.read_bytes().count(b"\n") if self.book.exists() else 0

    def torment(self, dice: random.Random) -> None:
        """Whoever died is replaced. Each time the bodies wrote some more, somebody is killed from outside too."""
        goal = dice.randrange(60)
        while self.living:
            self._bury()
            if self.living and self.lines() >= goal:
                goal += dice.randrange(1, 120)
                dice.choice(self.living).send_signal(signal.SIGKILL)
            self.pause.wait(0.005)

    def _bury(self) -> None:
        for one in [one for one in self.living if one.poll() is not None]:
            self.living.remove(one)
            assert one.returncode in (0, -signal.SIGKILL)
            if one.returncode:
                self.killed += 1
                self.start()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("overlap", ["allow", "wait"])
@pytest.mark.parametrize("on_lost", ["rerun", "skip"])
def test_every_slot_is_closed_once_under_sigkill(on_lost: str, overlap: str, tmp_path: Path, note: Note) -> None:
    gang = Gang(f"sqlite:///{tmp_path}/store.db", tmp_path / "book", on_lost, overlap)
    for _ in range(PROCESSES):
        gang.start()
    try:
        gang.torment(random.Random(7))
    finally:
        for one in gang.living:
            one.kill()
            one.wait()
    judge(gang)
    note({"on_lost": on_lost, "overlap": overlap, "slots": SLOTS, "kills": gang.killed})


def judge(gang: Gang) -> None:
    records = _records(gang.url)
    starts, ends = _book(gang.book)
    assert len(records) == SLOTS
    assert {record.state for record in records.values()} == {State.CLOSED}
    outcomes = Counter(record.outcome for record in records.values())
    if gang.on_lost == "rerun":
        assert outcomes == {Outcome.SUCCEEDED: SLOTS}
        assert set(starts) == set(records)
        for key, record in records.items():
            _check_reruns(record, starts[key], ends[key])
        assert any(len(fences) > 1 for fences in starts.values())
    else:
        assert [key for key, fences in starts.items() if len(fences) != 1] == []
        assert outcomes == {Outcome.SUCCEEDED: SLOTS - outcomes[Outcome.LOST], Outcome.LOST: outcomes[Outcome.LOST]}
        unfinished = {key for key, record in records.items() if record.outcome is Outcome.LOST}
        assert {key for key in records if key not in ends} <= unfinished
        assert outcomes[Outcome.LOST] > 0
    assert gang.killed > 0


def _check_reruns(record: Record, starts: list[str], ends: list[str]) -> None:
    """A second start only after a recorded takeover, each with a higher fence; the last one ended."""
    assert starts == sorted(set(starts))
    taken_over = {str(past.fence) for past in record.past if past.end == "lapsed"}
    assert set(starts[:-1]) <= taken_over
    assert starts[-1] in ends


def _records(url: str) -> dict[str, Record]:
    store = open_store(url)
    page = store.scan(Scan("run/", limit=2 * SLOTS))
    keys = {Slot(JOB, instant(number)).cell: Slot(JOB, instant(number)).key for number in range(SLOTS)}
    return {keys[cell.key]: decode(cell.value) for cell in page.cells}


def _book(book: Path) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    starts: dict[str, list[str]] = defaultdict(list)
    ends: dict[str, list[str]] = defaultdict(list)
    lines = map(str.split, book.read_text().splitlines())
    for what, key, fence, _ in sorted(lines, key=lambda line: float(line[3])):
        assert str(read_fence(fence)) == fence
        (starts if what == "start" else ends)[key].append(fence)
    return starts, ends
