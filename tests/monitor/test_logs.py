"""Logs for machines: JSON a line, and which run a job's own lines belong to, wherever its body runs."""

import asyncio
import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from logging.handlers import QueueHandler
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from cronce import Cronce, Run, Skipped, current_run
from cronce.events import Event, What
from cronce.model import Fence
from cronce.monitor.logs import JsonFormatter, RunFilter, install
from cronce.runtime.log import log
from cronce.testing import manual
from tests.audit.logs.reading import report
from tests.house.wait import wait_until
from tests.runtime.shelf import START

SLOT = "2026-03-01T00:00:00Z"
FORMAT = "%(message)s [%(job)s %(slot)s %(run)s %(fence)s]"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def cron(tmp_path: Path) -> Iterator[Cronce]:
    with Cronce(f"sqlite:///{tmp_path}/cronce.db") as cron:
        yield cron


class Book(logging.Handler):
    """A handler that keeps its lines."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def shop() -> Iterator[tuple[logging.Logger, Book]]:
    """The logger of a job's own module, and what comes of it at a handler further up."""
    above, book = logging.getLogger("test-shop"), Book(logging.Formatter(FORMAT))
    above.addHandler(book)
    above.setLevel(logging.INFO)
    above.propagate = False
    install(book)
    yield logging.getLogger("test-shop.mails"), book
    above.removeHandler(book)


# --- the run of a line ----------------------------------------------------------------------------------------------


def job(cron: Cronce, body: Any, name: str = "billing", **how: Any) -> Any:
    return cron.job("0 0 1 3 *", name=name, start_within="3650d", **how)(body)


def test_lines_of_a_body_say_which_run_they_are_of_and_others_say_nothing(
    cron: Cronce, shop: tuple[logging.Logger, Book]
) -> None:
    logger, book = shop
    fences = []

    def body(run: Run) -> None:
        fences.append(str(run.fence))
        logger.info("mail %s", 7)
        assert current_run() is run

    logger.info("before")
    job(cron, body).at(SLOT)()
    logger.info("after")
    assert current_run() is None
    assert book.lines == ["before [   ]", f"mail 7 [billing {SLOT} billing@{SLOT} {fences[0]}]", "after [   ]"]


def test_a_run_by_hand_is_told_from_its_slots_own(cron: Cronce, shop: tuple[logging.Logger, Book]) -> None:
    logger, book = shop
    billing = job(cron, lambda: logger.info("mail"), retries=0)
    billing.at(SLOT)()
    cron.rerun(f"billing@{SLOT}")
    with cron.start() as scheduler:
        assert scheduler.wait_ready(60)
        wait_until(lambda: len(book.lines) == 2)
    assert [line.split()[1:4] for line in book.lines] == [
        ["[billing", SLOT, f"billing@{SLOT}"],
        ["[billing", SLOT, f"billing@{SLOT}#rerun-1"],
    ]


def test_coroutines_that_run_side_by_side_each_know_their_own(cron: Cronce, shop: tuple[logging.Logger, Book]) -> None:
    logger, book = shop
    both = asyncio.Barrier(2)

    async def deep(text: str) -> None:
        await asyncio.to_thread(logger.info, text)

    async def body(run: Run) -> None:
        await both.wait()
        await asyncio.create_task(deep(run.job))
        await both.wait()
        logger.info("%s", run.job)

    async def main() -> None:
        await asyncio.gather(*(job(cron, body, name).at(SLOT)() for name in ("one", "two")))
        assert current_run() is None

    asyncio.run(main())
    assert sorted(line.split()[:2] for line in book.lines) == [["one", "[one"]] * 2 + [["two", "[two"]] * 2


def test_a_body_that_fails_or_is_refused_leaves_nothing_behind(cron: Cronce) -> None:
    bad = job(cron, lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        bad.at(SLOT)()
    assert isinstance(bad.at(SLOT)(), Skipped)
    assert current_run() is None


def test_a_run_within_a_run_is_the_inner_ones_until_it_ends(cron: Cronce) -> None:
    seen: list[str] = []

    def note() -> None:
        run = current_run()
        seen.append(run.job if run else "")

    inner = job(cron, note, "inner")

    def body() -> None:
        note()
        inner.at(SLOT)()
        note()

    job(cron, body, "outer").at(SLOT)()
    assert seen == ["outer", "inner", "outer"]


def test_what_a_record_says_itself_is_left_alone() -> None:
    record = logging.LogRecord("shop", logging.INFO, __file__, 1, "mail", (), None)
    said = record.__dict__
    said["job"] = "mine"
    assert RunFilter().filter(record)
    assert (said["job"], said["slot"]) == ("mine", "")


def test_a_line_that_is_written_by_another_thread_still_knows_its_run(cron: Cronce) -> None:
    queue: SimpleQueue[logging.LogRecord] = SimpleQueue()
    handler, logger = QueueHandler(queue), logging.getLogger("test-queued")
    install(handler)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        job(cron, lambda: logger.info("mail")).at(SLOT)()
    finally:
        logger.removeHandler(handler)
    assert json.loads(JsonFormatter().format(queue.get_nowait()))["run"] == f"billing@{SLOT}"


SCRIPT = f"""
import logging, os, sys
from cronce.monitor.logs import install
logging.basicConfig(stream=sys.stdout, format={FORMAT!r})
install()
install()
logging.warning("mail")
"""


def test_a_program_under_exec_is_told_of_its_run_too(tmp_path: Path) -> None:
    store = ["--store", f"sqlite:///{tmp_path}/cronce.db"]
    when = ["--schedule", "@hourly", "--slot", "2026-03-01T05:00:00Z", "--start-within", "3650d"]
    command = [sys.executable, "-c", f"{SCRIPT}print(os.environ['CRONCE_FENCE'])"]
    done = subprocess.run(
        [sys.executable, "-m", "cronce", "exec", "billing", *store, *when, "--", *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    line, fence = done.stdout.splitlines()
    assert line == f"mail [billing 2026-03-01T05:00:00Z billing@2026-03-01T05:00:00Z {fence}]"


# --- facts of ours --------------------------------------------------------------------------------------------------


def told(event: Event, *, level: int = logging.INFO) -> dict[str, Any] | None:
    book, logger = Book(JsonFormatter()), logging.getLogger("cronce")
    before = logger.level
    logger.addHandler(book)
    logger.setLevel(level)
    try:
        log(event)
    finally:
        logger.removeHandler(book)
        logger.setLevel(before)
    return (
        {key: value for key, value in json.loads(book.lines[0]).items() if key not in ("time", "pid")}
        if book.lines
        else None
    )


CELL = f"run/billing/{SLOT}"
FENCE = Fence(255, 3)
IN_FULL = {"job": "billing", "slot": SLOT, "run": f"billing@{SLOT}", "fence": str(FENCE), "holder": "web-1:1:a"}


@pytest.mark.parametrize(
    ("event", "message", "fields"),
    [
        (
            Event(What.STARTED, CELL, "web-1:1:a", START, FENCE, "attempt 1", 0.25),
            f"billing@{SLOT} started: attempt 1, 0.250s after it was due fence={FENCE} holder=web-1:1:a",
            {**IN_FULL, "what": "started", "detail": "attempt 1", "seconds": 0.25},
        ),
        (
            Event(What.ENDED, CELL, "web-1:1:a", START, FENCE, "failed", 1.2),
            f"billing@{SLOT} ended: failed after 1.200s fence={FENCE} holder=web-1:1:a",
            {**IN_FULL, "what": "ended", "detail": "failed", "seconds": 1.2},
        ),
        (
            Event(What.DEPOSED, "leader/indexer", "web-1:1:a", START, FENCE, "its lease passed"),
            "leader indexer deposed: its lease passed",
            {"what": "deposed", "detail": "its lease passed", "fence": str(FENCE), "holder": "web-1:1:a"},
        ),
        (
            Event(What.REGISTERED, "job/billing", "web-1:1:a", START, detail="be5b0c1d"),
            "billing registered",
            {"what": "registered", "job": "billing", "detail": "be5b0c1d", "holder": "web-1:1:a"},
        ),
    ],
)
def test_a_fact_is_one_object_with_everything_in_it(event: Event, message: str, fields: dict[str, Any]) -> None:
    found = told(event)
    assert found is not None
    level = "WARNING" if event.what is What.DEPOSED else "INFO"
    assert found == {"level": level, "logger": "cronce", "message": message, **fields}


@pytest.mark.parametrize(
    ("what", "detail", "words"),
    [
        (What.GRANTED, "", f"granted fence={FENCE} holder=web-1:1:a"),
        (What.REFUSED, "held by web-2:7:b", "refused: held by web-2:7:b"),
        (What.REFUSED, "succeeded: ", "refused: succeeded: "),
        (What.RELEASED, "", f"released fence={FENCE} holder=web-1:1:a"),
        (What.CLOSED, "succeeded", f"closed: succeeded fence={FENCE} holder=web-1:1:a"),
    ],
)
def test_what_is_acquired_refused_and_released_is_told_to_whoever_wants_to_know(
    what: What, detail: str, words: str
) -> None:
    event = Event(what, CELL, "web-1:1:a", START, FENCE, detail)
    assert told(event) is None
    found = told(event, level=logging.DEBUG)
    assert found is not None
    assert found["message"] == f"billing@{SLOT} {words}"


def test_a_run_that_goes_from_hand_to_hand_is_told_in_full(cron: Cronce) -> None:
    """Real events: what is won, what is lost, and how it ended."""
    stream, logger = io.StringIO(), logging.getLogger("cronce")
    handler, before = logging.StreamHandler(stream), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        billing = job(cron, lambda: None)
        billing.at(SLOT)()
        billing.at(SLOT)()
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
    said = [line.split(" fence=")[0].split(", ")[0] for line in stream.getvalue().splitlines() if "@" in line]
    assert [line.split(" after ")[0] for line in said] == [
        f"billing@{SLOT} granted",
        f"billing@{SLOT} started: attempt 1",
        f"billing@{SLOT} ended: succeeded",
        f"billing@{SLOT} closed: succeeded",
        f"billing@{SLOT} refused: succeeded: ",
    ]


def test_a_traceback_and_any_text_stay_one_line() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    install(handler, json=True)
    logger = logging.Logger("shop")
    logger.addHandler(handler)
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logger.exception("ünd \n %s", {"a": object})
    (line,) = stream.getvalue().splitlines()
    found = json.loads(line)
    assert found["message"].startswith("ünd \n {'a'")
    assert found["error"].startswith("Traceback")
    assert found["error"].endswith("ValueError: two\nlines")
    assert found["time"].endswith("+00:00")


# --- read back by `cronce logs` --------------------------------------------------------------------------------------


def lines(formatter: logging.Formatter, *facts: tuple[What, str, str]) -> str:
    """What is logged of these: what, by which process, and the detail."""
    book, logger = Book(formatter), logging.getLogger("cronce")
    before = logger.level
    logger.addHandler(book)
    logger.setLevel(logging.DEBUG)
    try:
        for what, holder, detail in facts:
            log(Event(what, CELL, holder, START, FENCE, detail, 1.0))
    finally:
        logger.removeHandler(book)
        logger.setLevel(before)
    return "".join(f"{line}\n" for line in book.lines)


ONE, TWO = "web-1:7:a", "web-2:9:b"
START_1, START_2 = (What.STARTED, ONE, "attempt 1"), (What.STARTED, TWO, "attempt 1")
END_1, END_2 = (What.ENDED, ONE, "succeeded"), (What.ENDED, TWO, "succeeded")


@pytest.mark.parametrize(
    "formatter", [logging.Formatter("%(asctime)s %(message)s"), JsonFormatter()], ids=["text", "json"]
)
@pytest.mark.parametrize(
    ("facts", "kinds", "tally"),
    [
        ([START_1, END_1], [], (1, 1)),
        ([(What.GRANTED, ONE, ""), START_1, END_1, (What.CLOSED, ONE, "succeeded")], [], (1, 1)),
        ([START_1, START_2, END_1, END_2], ["twice-started"], (2, 1)),
        ([START_1, (What.TAKEN_OVER, TWO, f"from {ONE}"), (What.STARTED, TWO, "attempt 2"), END_2], [], (2, 1)),
        ([START_1, (What.STARTED, TWO, "attempt 2"), END_2], [], (2, 1)),
        ([START_1, (What.ENDED, ONE, "failed"), (What.RETRYING, ONE, "failed"), START_2, END_2], [], (2, 2)),
        ([START_1, (What.ENDED, ONE, "given back"), START_2, END_2], [], (2, 2)),
        ([(What.REFUSED, TWO, f"held by {ONE}")], [], None),
    ],
)
def test_starts_and_ends_are_paired_also_where_several_processes_write_one_log(
    formatter: logging.Formatter, facts: list[tuple[What, str, str]], kinds: list[str], tally: tuple[int, int] | None
) -> None:
    told = report(lines(formatter, *facts), certain=True)
    assert [one.kind for one in told.findings] == kinds
    assert [(job.starts, job.ends) for job in told.jobs] == ([tally] if tally else [])


def test_the_line_of_a_failure_in_a_scheduler_says_which_run_it_is_about() -> None:
    cron = Cronce("memory:")

    @cron.job(every="1m", name="billing")
    def billing() -> None:
        raise ValueError("no")

    book, logger = Book(JsonFormatter()), logging.getLogger("cronce")
    logger.addHandler(book)
    try:
        with manual(cron, "2026-03-01T00:00:30Z") as time:
            time.advance("31s")
    finally:
        logger.removeHandler(book)
    (failed,) = [one for one in map(json.loads, book.lines) if one["level"] == "ERROR"]
    assert (failed["job"], failed["run"]) == ("billing", "billing@2026-03-01T00:01:00Z")
