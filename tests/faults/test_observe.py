"""Three schedulers where there should be one, only observed: every body runs as if nobody looked, and exactly those
that were too many are counted. Then one of them is killed, and the store stops answering."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from cronce.clock import SystemClock
from cronce.protocol.notices import Observed, decode_beats
from cronce.runtime.flow import drive
from cronce.runtime.observe import observations
from cronce.stores import open_store
from cronce.stores.redis import init
from tests.house.wait import PATIENCE, wait_until
from tests.servers.valkey import DURABLE, Valkey

ROOT = Path(__file__).parents[2]
NOTHING = Observed(None, (), 0, 0, ())


class Ran(NamedTuple):
    what: str
    pid: int
    second: int
    at: float


class Book:
    """What ran, by the lines that the bodies wrote."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self, what: str) -> list[Ran]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        ran = [Ran(what, int(pid), int(second), float(at)) for what, pid, second, at in map(str.split, lines)]
        return sorted((one for one in ran if one.what == what), key=lambda one: one.at)

    def full(self, pids: set[int]) -> list[int]:
        """The slots in which each of these ran both."""
        both = [{(one.pid, one.second) for one in self.lines(what)} for what in ("function", "job")]
        counts = Counter(second for pid, second in both[0] & both[1] if pid in pids)
        return sorted(second for second, count in counts.items() if count == len(pids))


@contextmanager
def three(url: str, book: Path) -> Iterator[list["subprocess.Popen[bytes]"]]:
    words = [sys.executable, "-m", "tests.faults.observed_app", url, str(book)]
    all_of_them = [subprocess.Popen(words, cwd=ROOT) for _ in range(3)]
    try:
        yield all_of_them
    finally:
        for one in all_of_them:
            one.kill()
            one.wait()


def observed(url: str) -> Callable[[str], Observed]:
    def of(name: str) -> Observed:
        with closing(open_store(url)) as store:
            _, seen = drive(observations(name), store, SystemClock())
        return seen[0].observed or NOTHING if seen else NOTHING

    return of


def too_many(ran: list[Ran], window: float = 0.5) -> int:
    """By the definition."""
    return sum(later.at - earlier.at <= window for earlier, later in pairwise(ran))


def slots(ran: list[Ran]) -> set[int]:
    """That they were for: a call in the last quarter of a second is for the next one."""
    return {int(one.at + 0.25) for one in ran}


def beats(url: str) -> set[str]:
    """Who has beaten, of late."""
    with closing(open_store(url)) as store:
        (cell,) = store.load(["beat/beat"]).cells
    return {one.by for one in decode_beats(cell.value).recent} if cell.version else set()


def test_three_schedulers_are_counted_exactly_and_run_on_whatever_happens(tmp_path: Path) -> None:
    book = Book(tmp_path / "book")
    with Valkey(*DURABLE) as valkey:
        init(valkey.url)
        of = observed(valkey.url)

        def agree(*names: str) -> bool:
            """What is on record is what the bodies wrote, call by call; at a moment when none is called."""
            if not 0.2 < SystemClock().wall().timestamp() % 1 < 0.7:
                return False
            functions, jobs = book.lines("function"), book.lines("job")
            expected = {
                "function": (len(functions), too_many(functions)),
                "job": (len(jobs), len(jobs) - len(slots(jobs))),
            }
            return all((of(name).times, of(name).doubled) == expected[name] for name in names)

        with three(valkey.url, book.path) as (first, second, third):
            everybody = {first.pid, second.pid, third.pid}
            wait_until(lambda: len(book.full(everybody)) >= 2)
            wait_until(lambda: len(beats(valkey.url)) == 3)
            wait_until(lambda: agree("function", "job"))

            third.kill()
            third.wait()
            rest = everybody - {third.pid}
            killed = max(one.second for one in book.lines("function"))
            wait_until(lambda: max(book.full(rest)) > killed)
            wait_until(lambda: agree("function", "job"))

            valkey.pause()
            stopped = max(one.second for one in book.lines("function"))
            wait_until(lambda: max(book.full(rest)) >= stopped + 1)
            valkey.resume()
            wait_until(lambda: agree("function"))  # what was called meanwhile is on record by now

            for one in (first, second):
                one.terminate()
                assert one.wait(PATIENCE) == 0

    for what in ("function", "job"):
        counts = Counter((one.pid, one.second) for one in book.lines(what))
        assert set(counts.values()) == {1}
