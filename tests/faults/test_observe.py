"""Three schedulers where there should be one, only observed: every body runs as if nobody looked, and exactly those
that were too many are counted. Then one of them is killed, and the store stops answering."""

import signal
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
from tests.faults.observed_app import EVERY, WINDOW
from tests.house.wait import PATIENCE, wait_until
from tests.servers.valkey import DURABLE, Valkey

ROOT = Path(__file__).parents[2]
NOTHING = Observed(None, (), 0, 0, ())
EARLY, LATE = 0.2, 0.7
"""Seconds before and after its slot in which a call is in its place: those of one slot are less than `WINDOW` apart,
those of two are more."""


class Ran(NamedTuple):
    what: str
    pid: int
    at: float

    @property
    def slot(self) -> int:
        """Which one it was called for; of a call in its place it is certain."""
        return int((self.at + EARLY) // EVERY)


class Book:
    """What ran, by the lines that the bodies wrote."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self, what: str) -> list[Ran]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        ran = [Ran(what, int(pid), float(at)) for what, pid, at in map(str.split, lines)]
        return sorted((one for one in ran if one.what == what), key=lambda one: one.at)

    def calls(self, what: str) -> Counter[tuple[int, float]]:
        """Of a scheduler to its job."""
        return Counter((one.pid, one.at) for one in self.lines(f"call-of-{what}"))

    def ran(self, what: str) -> Counter[tuple[int, float]]:
        """The body, for which call."""
        return Counter((one.pid, one.at) for one in self.lines(what))

    def full(self, pids: set[int]) -> list[int]:
        """The slots in which each of these ran both."""
        both = [{(one.pid, one.slot) for one in self.lines(what)} for what in ("function", "job")]
        counts = Counter(slot for pid, slot in both[0] & both[1] if pid in pids)
        return sorted(slot for slot, count in counts.items() if count == len(pids))


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


def too_many(ran: list[Ran]) -> int:
    """By the definition."""
    return sum(later.at - earlier.at <= WINDOW for earlier, later in pairwise(ran))


def beside_others(ran: list[Ran]) -> int:
    """How many ran in a slot that another ran in."""
    return len(ran) - len({one.slot for one in ran})


def in_place(at: float) -> bool:
    """Whether it is certain which others a call came together with, also where it is dated a little wrong."""
    return (at + EARLY) % EVERY < EARLY + LATE


class Tally:
    """Compares what is on record of a name with what the bodies wrote. All calls are on record, always. How many were
    too many is compared from the beginning; or from when the machine was last so busy that a call came, or was dated,
    between two slots, and it is anyone's guess which it belongs to."""

    def __init__(self, count: Callable[[list[Ran]], int]) -> None:
        self._count = count
        self._known: set[float] = set()
        self._since: tuple[int, int] | None = 0, 0

    def agrees(self, ran: list[Ran], observed: Observed, full: list[int]) -> bool:
        """At a moment when none is called; with a slot among what is compared that all ran in."""
        if observed.times != len(ran):
            return False
        dates = {*(one.at for one in ran), *(call.at.timestamp() for call in observed.calls)}
        new, self._known = dates - self._known, self._known | dates
        if not all(map(in_place, new)):
            self._since = None
        elif self._since is None and new:
            self._since = len(ran), observed.doubled
        if self._since is None:
            return False
        before, doubled = self._since
        late = ran[before:]
        return not {one.slot for one in late}.isdisjoint(full) and observed.doubled - doubled == self._count(late)


def beats(url: str) -> set[str]:
    """Who has beaten, of late."""
    with closing(open_store(url)) as store:
        (cell,) = store.load(["beat/beat"]).cells
    return {one.by for one in decode_beats(cell.value).recent} if cell.version else set()


def test_three_schedulers_are_counted_exactly_and_run_on_whatever_happens(tmp_path: Path) -> None:
    book = Book(tmp_path / "book")
    tallies = {"function": Tally(too_many), "job": Tally(beside_others)}
    with Valkey(*DURABLE) as valkey:
        init(valkey.url)
        of = observed(valkey.url)

        def agree(pids: set[int], *names: str) -> bool:
            """What is on record is what the bodies wrote, call by call; at a moment when none is called."""
            if not LATE < SystemClock().wall().timestamp() % EVERY < EVERY - EARLY:
                return False
            if any(book.calls(name) != book.ran(name) for name in names):
                return False
            return all(tallies[name].agrees(book.lines(name), of(name), book.full(pids)) for name in names)

        with three(f"{valkey.url}?timeout=30", book.path) as (first, second, third):
            everybody = {first.pid, second.pid, third.pid}
            wait_until(lambda: len(book.full(everybody)) >= 2)
            wait_until(lambda: len(beats(valkey.url)) == 3)

            def stopped_in_agreement() -> bool:
                """Whoever is killed then has left nothing half said."""
                if not agree(everybody, "function", "job"):
                    return False
                third.send_signal(signal.SIGSTOP)
                if agree(everybody, "function", "job"):
                    return True
                third.send_signal(signal.SIGCONT)
                return False

            wait_until(stopped_in_agreement)
            third.kill()
            third.wait()
            rest = everybody - {third.pid}
            killed = max(one.slot for one in book.lines("function"))
            wait_until(lambda: max(book.full(rest)) > killed)
            wait_until(lambda: agree(rest, "function", "job"))

            valkey.pause()
            stopped = max(one.slot for one in book.lines("function"))
            wait_until(lambda: max(book.full(rest)) >= stopped + 1)
            valkey.resume()
            wait_until(lambda: agree(rest, "function"))  # what was called meanwhile is on record by now

            for one in (first, second):
                one.terminate()
                assert one.wait(PATIENCE) == 0

    for name in tallies:
        assert book.ran(name) == book.calls(name)
