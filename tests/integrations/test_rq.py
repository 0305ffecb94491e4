"""Real RQ workers on Valkey: whatever is queued twice, retried, killed or given up, a job's body runs once."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from redis import Redis
from rq import Queue, Repeat, Retry
from rq.job import Job
from rq.registry import StartedJobRegistry

from cronce import Cronce, Run
from cronce.errors import BadInput
from cronce.integrations.rq import dispatch, once
from cronce.stores.memory import MemoryStore
from tests.house.wait import wait_until
from tests.integrations.queues.book import Book, taken_over
from tests.runtime.scheduling.life.town import children
from tests.servers.valkey import Valkey

APP = "tests.integrations.queues.rq_app"


class Office:
    """A queue of one's own, a book, and workers."""

    def __init__(self, folder: Path, valkey: Valkey, connection: Redis) -> None:
        self.connection, self.book = connection, Book(folder)
        self.queue = Queue(folder.name, connection=connection)
        self._url = valkey.url
        self.env = {**os.environ, "BOOK": str(folder), "CRONCE_URL": f"sqlite:///{folder}/cronce.db"}
        self._started: list[subprocess.Popen[bytes]] = []

    def worker(self) -> subprocess.Popen[bytes]:
        return self._start("rq.cli", "worker", "--quiet", "--burst", "--url", self._url, self.queue.name)

    def run(self, *words: str) -> int:
        return self._start(*words, self._url, self.queue.name).wait(60)

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-m", *words], env=self.env)
        self._started.append(process)
        return process

    def enqueue(self, name: str, *args: object, **named: object) -> Job:
        return self.queue.enqueue(f"{APP}.{name}", *args, **named)

    def kill_body(self, name: str) -> None:
        """As soon as it is at work."""
        wait_until(lambda: self.book.lines("start", name))
        os.kill(self.book.lines("start", name)[-1].pid, signal.SIGKILL)

    def has_opened_store(self, pid: int) -> bool:
        with suppress(OSError):
            return any(file.readlink().name == "cronce.db" for file in Path(f"/proc/{pid}/fd").iterdir())
        return False

    def clean_up(self) -> None:
        for name in ("lost", "rerun", "long"):  # a work horse outlives its worker
            self.book.let_go(name)
        for process in self._started:
            process.kill()
            process.wait()


@pytest.fixture
def office(tmp_path: Path, valkey: Valkey) -> Iterator[Office]:
    with Redis.from_url(valkey.url) as connection:
        office = Office(tmp_path, valkey, connection)
        yield office
        office.clean_up()


def said(job: Job) -> str:
    """Why it failed."""
    result = job.latest_result()
    assert result is not None
    return str(result.exc_string)


def test_what_is_queued_twice_runs_once_and_what_is_tried_again_runs_again(office: Office) -> None:
    for name in ("plain", "guarded", "awaited"):
        for _ in range(2):
            office.enqueue(name, name, job_id=f"{office.queue.name}-{name}")
    office.enqueue("fails_at_first", "fails_at_first", retry=Retry(max=3))
    asking = office.enqueue("asks_for_more", "asks_for_more")
    office.enqueue("guarded", "repeated", repeat=Repeat(times=2))
    office.enqueue("calls_itself", "calls_itself", 2)
    nested = office.enqueue("calls_another", "nested")
    assert office.worker().wait(60) == 0
    assert office.book.starts() == {
        "plain": 2,  # so it is without the guard
        "guarded": 1,
        "awaited": 1,
        "fails_at_first": 2,
        "asks_for_more": 3,
        "repeated": 3,
        "calls_itself": 3,
    }
    assert asking.return_value() == "enough"
    again = Job.fetch(f"{office.queue.name}-guarded", connection=office.connection)
    assert [result.return_value for result in again.results()] == ["did guarded", "did guarded"]
    unsaid = Job.fetch(f"{office.queue.name}-awaited", connection=office.connection)
    assert [result.return_value for result in unsaid.results()] == [1j, 1j]
    assert "call guarded.fn there, or queue it" in said(nested)


def test_a_body_that_was_killed_runs_again_only_if_that_was_asked_for(office: Office) -> None:
    lost = office.enqueue("skipped", "lost", retry=Retry(max=1))
    office.enqueue("rerun", "rerun", retry=Retry(max=1))
    worker = office.worker()
    office.kill_body("lost")
    office.kill_body("rerun")
    office.book.let_go("rerun")
    assert worker.wait(60) == 0
    assert office.book.starts() == {"lost": 1, "rerun": 2}
    assert [line.body for line in office.book.lines("end")] == ["rerun"]
    assert "InDoubt: nobody knows whether" in said(lost)
    assert f"cronce resolve {APP}.skipped/{lost.id} done" in said(lost)


def test_a_job_that_was_given_up_while_its_body_went_on_is_not_run_beside_it(office: Office) -> None:
    """The worker is gone, and its work horse is not: RQ queues the job again, and a second worker takes it."""
    job = office.enqueue("takes_long", "long", retry=Retry(max=1))
    first = office.worker()
    wait_until(lambda: office.book.lines("start"))
    first.kill()
    StartedJobRegistry(queue=office.queue).cleanup(timestamp=time.time() + 3600)
    assert office.queue.job_ids == [job.id]
    second = office.worker()
    wait_until(lambda: any(map(office.has_opened_store, children(second.pid))))
    office.book.let_go("long")
    assert second.wait(60) == 0
    wait_until(lambda: len(job.results()) == 2)  # the work horse of the first has yet to say what came of it
    assert office.book.starts() == {"long": 1}
    assert [result.return_value for result in job.results()] == ["did long", "did long"]


def test_a_slot_queues_its_work_once_though_its_process_died_right_after(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRONCE_URL", office.env["CRONCE_URL"])
    from tests.integrations.queues import rq_app  # noqa: PLC0415  it reads the environment

    assert office.run(APP) == -signal.SIGKILL
    (queued,) = office.queue.job_ids
    with rq_app.cron:
        assert taken_over(lambda: rq_app.nightly.at(rq_app.SLOT)(office.queue)) == queued
    assert office.queue.job_ids == [queued]
    assert queued.startswith("nightly-2026-03-29T01-00-00Z-report-")
    assert Job.fetch(queued, connection=office.connection).description == "the report of the night"
    assert office.worker().wait(60) == 0
    assert office.book.starts() == {"report": 1}


@pytest.mark.parametrize(
    ("given", "kind"), [("redis://:secret@localhost", "str"), (print, "builtin_function_or_method")]
)
def test_a_guard_without_its_cronce_says_how_to_write_it(given: object, kind: str) -> None:
    with pytest.raises(
        BadInput, match=rf"^this is not a Cronce but of type {kind}: write @once\(Cronce\(url\)\), above"
    ):
        once(given)  # type: ignore[arg-type]


def test_a_dispatch_without_its_run_or_its_queue_says_how_to_write_it(office: Office) -> None:
    with pytest.raises(BadInput, match=r"^this is not a Run but of type Queue: write dispatch\(run, key, queue, "):
        dispatch(office.queue, "key", office.queue, print)  # type: ignore[arg-type]

    with Cronce(store=MemoryStore()) as cron:

        @cron.job(name="nightly")
        def nightly(run: Run) -> None:
            dispatch(run, office.queue, "key", print)  # type: ignore[arg-type]

        with pytest.raises(BadInput, match=r"^this is not a Queue but of type str: write dispatch\(run, key, queue, "):
            nightly.at(datetime(2026, 3, 29, 1, tzinfo=UTC))()
