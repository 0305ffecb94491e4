"""Three real processes with the same jobs, one of them killed in the middle of a body."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import pytest

from cronce import Cronce
from cronce.protocol.record import Outcome
from cronce.runtime.run_lists import runs
from tests.faults.billing.servers import database
from tests.house.wait import wait_for, wait_until
from tests.servers.postgres import Postgres

pytestmark = pytest.mark.xdist_group("crews of schedulers")

MEMBER = Path(__file__).with_name("member.py")


PROGRAM = """
import sys, time
from datetime import UTC, datetime
from apscheduler.schedulers.background import BackgroundScheduler
from cronce import Cronce
from cronce.integrations.apscheduler import protect

def send_reports():
    print("ran", flush=True)

def main(url):
    scheduler = BackgroundScheduler(timezone=UTC)
    protect(scheduler, Cronce(url))
    slot = datetime(2026, 1, 1, tzinfo=UTC)
    scheduler.add_job(send_reports, "cron", year=2099, next_run_time=slot, misfire_grace_time=None)
    scheduler.start()
    while scheduler.get_jobs()[0].next_run_time == slot:
        time.sleep(0.01)
    scheduler.shutdown()

if __name__ == "__main__":
    main(sys.argv[1])
"""


@pytest.mark.parametrize("started", [["jobs.py"], ["-m", "jobs"]])
def test_a_program_and_a_process_that_imports_it_have_one_job(tmp_path: Path, started: list[str]) -> None:
    """Without an id a job is named by its function. In the program itself that was `__main__:send_reports`, elsewhere
    `jobs:send_reports`, and each slot ran twice."""
    (tmp_path / "jobs.py").write_text(PROGRAM)
    imports = ["-c", "import sys, jobs; jobs.main(sys.argv[1])"]
    outputs = [
        subprocess.run(
            [sys.executable, "-W", "ignore", *words, f"sqlite:///{tmp_path}/cronce.db"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            check=True,
            timeout=60,
        ).stdout
        for words in (started, imports)
    ]
    assert outputs == [b"ran\n", b""]


def test_a_job_of_a_function_that_was_typed_in_needs_an_id(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-", f"sqlite:///{tmp_path}/cronce.db"],
        input=PROGRAM,
        stderr=subprocess.PIPE,
        check=False,
        text=True,
        timeout=60,
    ).stderr
    assert said.splitlines()[-1] == (
        "cronce.errors.BadInput: another process cannot tell which job this is; give send_reports an id:"
        " add_job(…, id='send_reports')"
    )


class Line(NamedTuple):
    what: str
    job: str
    slot: int
    pid: int


Hung = dict[str, Line]
"""By job, the body that was killed."""


class Crew:
    """Three members, and the book that their bodies write into."""

    def __init__(self, folder: Path, store: str, jobs: str, kinds: tuple[str, ...]) -> None:
        self.store, self.book = store, folder / "book"
        self.book.touch()
        self.members: list[subprocess.Popen[bytes]] = []
        self._commands = [[sys.executable, str(MEMBER), store, jobs, str(self.book), *kind.split()] for kind in kinds]
        self._share_a_table = jobs != "memory"
        self.all_up = 0
        """The first slot after the last member added the jobs. Before, a slot that the others were late for is
        forgotten by APScheduler itself: `replace_existing` moves the job's next time on."""

    def start(self) -> None:
        for number, command in enumerate(self._commands, start=1):
            self.members.append(subprocess.Popen(command))
            if number == 1 and self._share_a_table:
                wait_for(1, self._up)  # two at once would both make the table
        wait_for(len(self._commands), self._up)
        self.all_up = int(time.time()) + 1

    def _up(self) -> int:
        return len(self.lines("up"))

    def lines(self, what: str, job: str = "") -> list[Line]:
        rows = [line.split() for line in self.book.read_text().splitlines()]
        lines = [Line(word, name, int(float(slot)), int(pid)) for word, name, slot, pid in rows]
        return [line for line in lines if line.what == what and job in ("", line.job)]

    def slots(self, what: str, job: str) -> Counter[int]:
        return Counter(line.slot for line in self.lines(what, job))

    def last(self) -> int:
        return max((line.slot for line in self.lines("done") if line.job != "date"), default=0)

    def go_on(self, slots: int) -> None:
        until = self.last() + slots
        wait_until(lambda: self.last() >= until)

    def kill_in_the_middle(self) -> Hung:
        """Each of the two jobs hangs somewhere, and who is at it is killed: one process, or two of the three."""
        for job in ("skip", "again"):
            Path(f"{self.book}.{job}.hang").touch()
        wait_until(lambda: len(self.lines("hang")) == 2)
        hung = {line.job: line for line in self.lines("hang")}
        for pid in {line.pid for line in hung.values()}:
            os.kill(pid, signal.SIGKILL)
        return hung

    def done(self, job: str, lost: set[int], killed: set[int]) -> Counter[int]:
        """Less what a member did, and was killed before it could say so: it is lost, or another did it again."""
        lines = self.lines("done", job)
        elsewhere = lost | {line.slot for line in lines if line.pid not in killed}
        return Counter(line.slot for line in lines if not (line.pid in killed and line.slot in elsewhere))

    def outcomes(self, job: str) -> dict[int, Outcome | None]:
        with closing(Cronce(self.store)) as cron:
            seen = cron.at_work().node.do(runs(job, None, 200))
        return {int(run.slot.at.timestamp()): run.record and run.record.outcome for run in seen if run.slot}

    def stop(self) -> None:
        for member in self.members:
            member.terminate()
        for member in self.members:
            try:
                member.wait(60)
            except subprocess.TimeoutExpired:
                member.send_signal(signal.SIGUSR1)
                time.sleep(1)  # it prints where each of its threads stands
                raise

    def kill(self) -> None:
        for member in self.members:
            member.kill()
            member.wait()


@pytest.fixture(scope="module")
def crews(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Crew, Hung]]]:
    """Two crews at once, and what hung where when it was killed: it is the waiting for a lease that takes time."""
    one, other = (tmp_path_factory.mktemp(name) for name in ("shared", "private"))
    with database(postgres.url) as url, ExitStack() as stack:
        shared = Crew(one, url, url.replace("postgresql:", "postgresql+psycopg:"), ("", "", ""))
        private = Crew(other, f"sqlite:///{other}/cronce.db", "memory", ("", "", "asyncio"))
        for crew in (shared, private):
            stack.callback(crew.kill)
            crew.start()
        for crew in (shared, private):
            crew.go_on(2)
        hung = [crew.kill_in_the_middle() for crew in (shared, private)]
        yield {"postgresql": (shared, hung[0]), "memory": (private, hung[1])}


@pytest.mark.parametrize("jobs", ["postgresql", "memory"])
def test_each_slot_runs_once_and_a_killed_scheduler_loses_nothing_unseen(
    crews: dict[str, tuple[Crew, Hung]], jobs: str
) -> None:
    crew, hung = crews[jobs]
    killed = {line.pid for line in hung.values()}
    wait_until(lambda: crew.slots("done", "again")[hung["again"].slot] == 1)  # another took it over
    crew.go_on(2)
    crew.stop()
    for job in ("skip", "again"):
        ended = crew.outcomes(job)
        since = [slot for slot in sorted(ended) if slot >= crew.all_up]
        assert since == list(range(crew.all_up, max(ended) + 1)), "a second without a run"
        lost = {slot for slot, outcome in ended.items() if outcome is Outcome.LOST}
        assert (hung[job].slot in lost) is (job == "skip")
        assert crew.done(job, lost, killed) == {slot: 1 for slot in ended if slot not in lost}
    # one that is lost need not have begun: its process may have been killed right after the claim
    assert set(crew.slots("start", "skip").values()) == {1}
    assert crew.slots("start", "again")[hung["again"].slot] == 2
    assert list(crew.slots("done", "date").values()) == [1]
