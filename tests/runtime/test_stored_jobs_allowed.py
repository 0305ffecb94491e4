"""Which stored jobs a process runs: those that it allows, and nothing is imported or started before that is known."""

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from cronce import Cronce
from cronce.clock import SystemClock
from cronce.errors import BadInput, StoreUnavailable
from cronce.model import bundle_cells
from cronce.protocol.notices import decode_bundle
from cronce.runtime.attempt import Work
from cronce.runtime.call import Call
from cronce.runtime.flow import drive
from cronce.runtime.processes.child import BodyRunners
from cronce.runtime.queries import holders, read_all
from cronce.runtime.steps import take, take_async
from cronce.runtime.stored_jobs import (
    MAX_DEFINITION,
    RunnableJob,
    RunnableStoredJobs,
    StoredJob,
    allows,
    parsed,
    spelled,
)
from cronce.stores import open_store
from cronce.stores.base import Page, Scan
from cronce.stores.sqlite import SqliteStore
from tests.house.wait import wait_until
from tests.stores.places import name_of

TASKS = """
from os import getcwd
from cronce import Cronce
import os, pathlib

with pathlib.Path({imported!r}).open("a") as trace:
    trace.write("x")
cron = Cronce("memory://")

def mail(): return "sent"
def with_run(run): return [run.job, run.payload]
async def later(run): return run.payload
@cron.job(every="1h")
def guarded(run): return run.job
def process(): return os.getpid()
def needs(what): return what
def many():
    yield 1
class Mail: pass
number = 7
"""


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Modules that leave a trace when they are imported; and the file that it is left in."""
    trace = tmp_path / "imported"
    trace.touch()
    for name in ("tasks", "evil"):
        (tmp_path / f"{name}.py").write_text(TASKS.format(imported=str(trace)))
    (tmp_path / "broken.py").write_text("import no_such_module")
    (tmp_path / "leaves.py").write_text("raise SystemExit(3)")
    (tmp_path / "stops.py").write_text("raise KeyboardInterrupt")
    (tmp_path / "mute.py").write_text("class Mute(Exception):\n def __str__(self): return 5\nraise Mute")
    (tmp_path / "command.py").write_text("def sync(): ...")
    monkeypatch.syspath_prepend(tmp_path)
    yield trace
    for name in ("tasks", "evil", "broken", "leaves", "command"):
        sys.modules.pop(name, None)


@pytest.fixture
def cron(tmp_path: Path) -> Iterator[Cronce]:
    with Cronce(f"sqlite:///{tmp_path}/cronce.db") as cron:
        yield cron


@pytest.fixture
def bodies(cron: Cronce) -> Iterator[BodyRunners]:
    bodies = BodyRunners(cron.at_work, SystemClock(), lambda: None)
    yield bodies
    bodies.close()


def job(name: str = "mail", revision: int = 1, **words: Any) -> StoredJob:
    return StoredJob(name, revision, spelled(name, {"every": "15m", "function": "tasks:mail", **words}))


def run(cron: Cronce, carried: RunnableJob) -> Any:
    """One slot of the job, as a process at work would run it."""
    work, keeper = carried.work(), cron.at_work()
    steps = Call(keeper, carried.job, work).steps()
    return work.answer(asyncio.run(take_async(steps, keeper.node)) if work.is_async else take(steps, keeper.node))


# --- what is allowed is run -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("imported")
@pytest.mark.parametrize(
    ("words", "result"),
    [
        ({}, "sent"),
        ({"function": "tasks:with_run", "payload": {"month": 3}}, ["mail", {"month": 3}]),
        ({"function": "tasks:later", "payload": 0}, 0),
        ({"function": "tasks:guarded"}, "mail"),
        ({"function": "tasks:with_run", "payload": 7, "isolate": True}, ["mail", 7]),
    ],
    ids=["function", "run", "async", "guard", "isolated"],
)
def test_a_function_is_run_with_its_run_and_its_payload(
    cron: Cronce,
    bodies: BodyRunners,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: dict[str, Any],
    result: Any,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    carried = RunnableStoredJobs(["tasks:*"], bodies).carry([job(revision=4, **words)])
    assert list(carried) == ["mail"]
    assert carried["mail"].job.revision == 4
    assert run(cron, carried["mail"]) == result


@pytest.mark.usefixtures("imported")
@pytest.mark.parametrize("isolate", [True, False])
def test_an_isolated_function_has_a_process_of_its_own(
    cron: Cronce, bodies: BodyRunners, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, isolate: bool
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    carried = RunnableStoredJobs(["tasks:process"], bodies).carry([job(function="tasks:process", isolate=isolate)])
    assert (run(cron, carried["mail"]) != os.getpid()) is isolate


def test_a_command_is_run_with_its_words_and_its_payload(cron: Cronce, bodies: BodyRunners, tmp_path: Path) -> None:
    script = tmp_path / "sync.sh"
    script.write_text('#!/bin/sh\nprintf "%s|" "$@" "$CRONCE_PAYLOAD" > ' + str(tmp_path / "said"))
    script.chmod(0o755)
    words = [str(script), "two words", "$HOME"]
    carried = RunnableStoredJobs([f"command:{tmp_path}/*.sh"], bodies).carry(
        [job(function=None, command=words, payload=[1])]
    )
    assert run(cron, carried["mail"]) == 0
    assert (tmp_path / "said").read_text() == "two words|$HOME|[1]|"


# --- what is not allowed is not touched -----------------------------------------------------------------------------


def test_without_a_pattern_nothing_is_run_imported_or_parsed_and_one_line_says_so(
    bodies: BodyRunners, imported: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shelf = RunnableStoredJobs([], bodies)
    assert shelf.carry([]) == {}
    assert caplog.messages == []
    for _ in range(2):
        assert shelf.carry([job(), job("post"), StoredJob("pack", 1, "garbage")]) == {}
    (line,) = caplog.messages
    assert line.startswith(
        "the stored job 'mail' (and 2 more) is not run by this process, which allows no stored jobs: see --allow"
    )
    assert imported.read_text() == ""


@pytest.mark.parametrize("function", ["evil:mail", "tasks.evil:mail", "tasksx:mail", "xtasks:mail"])
def test_a_module_that_is_not_allowed_is_not_imported(
    bodies: BodyRunners, imported: Path, caplog: pytest.LogCaptureFixture, function: str
) -> None:
    assert RunnableStoredJobs(["tasks:*", "command:*"], bodies).carry([job(function=function)]) == {}
    (line,) = caplog.messages
    assert line.endswith(f"is not run by this process: it does not allow '{function}'; see the option --allow")
    assert imported.read_text() == ""
    assert "evil" not in sys.modules


@pytest.mark.parametrize(
    ("pattern", "body", "allowed"),
    [
        ("tasks:*", "tasks:mail", True),
        ("tasks:mail", "tasks:mail", True),
        ("tasks:mail", "tasks:mailing", False),
        ("tasks:mail", "Tasks:mail", False),
        ("app.*:run_*", "app.jobs.night:run_mail", True),
        ("app.*:run_*", "app:run_mail", False),
        ("*:*", ["sh"], False),
        ("command:*", "command:sync", False),
        ("command:sync", "command:sync", False),
        ("command:./scripts/*", ["./scripts/sync.sh", "--all"], True),
        ("command:./scripts/*", ["./scripts/../../bin/sh"], False),
        ("command:./scripts/*", ["./scripts/.."], False),
        ("command:./scripts/*/*", ["./scripts/../sh"], False),
        ("command:./scripts/*", ["./scripts/deep/sync.sh"], False),
        ("command:./scripts/*", ["./scripts//sync.sh"], False),
        ("command:./scripts/*", ["scripts/sync.sh"], False),
        ("command:./scripts/*", ["/scripts/sync.sh"], False),
        ("command:./scripts/*", ["sync.sh"], False),
        ("command:./scripts/*", ["./Scripts/sync.sh"], False),
        ("command:*", ["sync"], True),
        ("command:*", ["/bin/sh"], False),
        ("command:*", [".."], False),
        ("command:sync", ["sync ; rm -rf /"], False),
        ("command:sync", ["sync\n"], False),
    ],
)
def test_patterns(pattern: str, body: str | list[str], allowed: bool) -> None:
    words = {"function": body} if isinstance(body, str) else {"function": None, "command": body}
    definition = parsed("mail", job(**words).definition)
    assert allows(pattern, definition) is allowed


@pytest.mark.parametrize("allow", ["tasks:*", ["tasks"], ["a:b:c"], ["sh -c"], [""]])
def test_what_is_no_pattern_is_refused(bodies: BodyRunners, allow: Sequence[str]) -> None:
    with pytest.raises(BadInput, match=r"allow is a list of patterns like 'myapp.tasks:\*'"):
        RunnableStoredJobs(allow, bodies)


# --- what cannot be run is left to the others -----------------------------------------------------------------------

NOT_RUN = {
    "no JSON": ("", "cannot be read"),
    "another JSON": ('["tasks:mail"]', "cannot be read"),
    "deep": ("[" * 50_000, "cannot be read"),
    "1 MB": (json.dumps({"every": "15m", "function": "tasks:mail", "payload": "x" * 2**20}), "characters"),
    "at most": (" " * MAX_DEFINITION, "cannot be read"),
    "another word": ('{"every":"15m","function":"tasks:mail","colour":"blue"}', "there is no option 'colour'"),
    "another type": ('{"every":"15m","function":["tasks:mail"]}', "is not a function"),
    "number": ('{"schedule":5,"function":"tasks:mail"}', "."),
    "a billion turns": ('{"every":"15m","function":"tasks:mail","turns":1000000000}', "turns"),
    "endless": ('{"every":"15m","function":"tasks:mail","timeout":"' + "9" * 99 + 'd"}', "."),
    "another name": ('{"every":"15m","function":"tasks:mail","name":"post"}', "is not valid"),
    "no module": ('{"every":"15m","function":"nowhere:mail"}', "nowhere cannot be imported: ModuleNotFoundError"),
    "broken": ('{"every":"15m","function":"broken:mail"}', "broken cannot be imported: ModuleNotFoundError"),
    "exits": ('{"every":"15m","function":"leaves:mail"}', "leaves cannot be imported: SystemExit: 3"),
    "interrupts": ('{"every":"15m","function":"stops:mail"}', "stops cannot be imported: KeyboardInterrupt"),
    "mute": ('{"every":"15m","function":"mute:mail"}', "mute cannot be imported: Mute"),
    "no function": ('{"every":"15m","function":"tasks:nothing"}', "there is no function nothing in tasks"),
    "no callable": ('{"every":"15m","function":"tasks:number"}', "there is no function number in tasks"),
    "a class": ('{"every":"15m","function":"tasks:Mail"}', "there is no function Mail in tasks"),
    "imported": ('{"every":"15m","function":"tasks:getcwd"}', "getcwd in tasks comes from posix: use that name"),
    "through it": ('{"every":"15m","function":"tasks:pathlib.os"}', "is not a function"),
    "arguments": ('{"every":"15m","function":"tasks:needs"}', "tasks:needs cannot be called without arguments"),
    "generator": ('{"every":"15m","function":"tasks:many"}', "many is a generator"),
}


@pytest.mark.usefixtures("imported")
@pytest.mark.parametrize(("definition", "why"), NOT_RUN.values(), ids=NOT_RUN)
def test_what_cannot_be_run_is_said_once_for_each_revision_and_the_others_are_run(
    bodies: BodyRunners, caplog: pytest.LogCaptureFixture, definition: str, why: str
) -> None:
    shelf = RunnableStoredJobs(["*:*"], bodies)
    for revision in (1, 1, 2, 2):
        assert list(shelf.carry([StoredJob("bad", revision, definition), job()])) == ["mail"]
    said = [f"the stored job 'bad', revision {revision}, is not run by this process" for revision in (1, 2)]
    assert [line.partition(": ")[0] for line in caplog.messages] == said
    assert all(why in line or why == "." for line in caplog.messages)
    assert max(map(len, caplog.messages)) < 1000


@pytest.mark.usefixtures("imported")
def test_what_a_newer_cronce_wrote_and_what_is_in_our_own_code_is_left(
    bodies: BodyRunners, caplog: pytest.LogCaptureFixture
) -> None:
    shelf = RunnableStoredJobs(["tasks:*"], bodies, declared={"mail": None})
    stored = [StoredJob("new", trouble="upgrade cronce"), job(), job("post"), job()._replace(name="a\n")]
    assert list(shelf.carry(stored)) == ["post"]
    assert [line.partition("process: ")[2][:40] for line in caplog.messages] == [
        "upgrade cronce",
        "its own code has a job of that name",
        "'a\\n' cannot be a name: use 1 to 128 of ",
    ]
    assert "\n" not in "".join(caplog.messages)


def test_what_has_not_changed_is_neither_imported_nor_made_again(
    bodies: BodyRunners, imported: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    shelf = RunnableStoredJobs(["*:*"], bodies)
    broken = job("broken", function="broken:mail")
    first = shelf.carry([job(), job("post"), broken])
    sys.modules.pop("tasks")
    second = shelf.carry([job(), broken])
    assert list(second) == ["mail"]
    assert second["mail"] is first["mail"]
    assert imported.read_text() == "x"
    assert len(caplog.messages) == 1
    third = shelf.carry([job(revision=2)])
    assert third["mail"].job.revision == 2
    assert third["mail"].job.spec[0] != first["mail"].job.spec[0]
    assert imported.read_text() == "xx"


def test_each_run_has_a_body_of_its_own(bodies: BodyRunners) -> None:
    """One command may run for two slots at once."""
    carried = RunnableStoredJobs(["command:true"], bodies).carry([job(function=None, command=["true"])])["mail"]
    works: list[Work] = [carried.work(), carried.work()]
    assert works[0] is not works[1]


# --- schedulers at work -----------------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgres", "valkey"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/at-work.db"
    option = "schema" if request.param == "postgres" else "namespace"
    return f"{request.getfixturevalue(request.param).url}?{option}={name_of(tmp_path)}"


def carried_by(url: str, name: str) -> list[str | None]:
    """Which version of the job each live scheduler says that it carries."""
    with closing(open_store(url)) as store:
        _, live = drive(holders(), store, SystemClock())
        cells = [drive(read_all(Scan(bundle_cells(one.holder.bundle))), store, SystemClock()).cells for one in live]
    return [
        next((digest for cell in found if (digest := decode_bundle(cell.value).specs.get(name))), None)
        for found in cells
    ]


@pytest.mark.usefixtures("imported")
def test_a_change_reaches_every_scheduler_that_allows_it(url: str) -> None:
    """How soon is shown on a clock that is turned by hand (`test_stored_jobs_adoption.py`)."""

    def reach(change: Callable[[], object], *versions: str | None) -> None:
        change()
        wait_until(lambda: sorted(map(str, carried_by(url, "mail"))) == sorted(map(str, (*versions, None))))

    def version(revision: int, **words: Any) -> str:
        return parsed("mail", job(**words).definition).job._replace(revision=revision).spec[0]

    with ExitStack() as stack:
        person, *crons = [stack.enter_context(Cronce(url)) for _ in range(4)]
        allowed: list[list[str]] = [["tasks:*"], ["tasks:mail", "command:true"], ["evil:*"]]
        for cron, allow in zip(crons, allowed, strict=True):
            assert stack.enter_context(cron.start(allow=allow)).wait_ready(60)
        reach(lambda: person.add("mail", every="1h", function="tasks:mail"), *2 * [version(1, every="1h")])
        reach(lambda: person.edit("mail", every="2h"), *2 * [version(2, every="2h")])
        reach(lambda: person.remove("mail"), None, None)


@pytest.mark.slow
def test_each_slot_of_a_stored_job_runs_once_and_none_after_its_end(tmp_path: Path) -> None:
    """Two schedulers, and a job that is added, changed and removed while they run. Which version each slot runs, is
    shown on a clock that is turned by hand (`test_stored_jobs_adoption.py`)."""
    trace = tmp_path / "trace"
    trace.touch()
    url = f"sqlite:///{tmp_path}/at-work.db"

    def ran() -> list[str]:
        return trace.read_text().splitlines()

    say = f'echo "$CRONCE_SLOT $CRONCE_PAYLOAD" >> {trace}'
    with ExitStack() as stack:
        person, one, two = [stack.enter_context(Cronce(url)) for _ in range(3)]
        schedulers = [stack.enter_context(cron.start(allow=["command:sh"])) for cron in (one, two)]
        person.add("tick", every="1s", command=["sh", "-c", say], payload=1)
        wait_until(lambda: len(ran()) >= 2)
        person.edit("tick", payload=2)
        wait_until(lambda: ran()[-1].endswith(" 2"))
        person.remove("tick")
        wait_until(lambda: carried_by(url, "tick") == [None, None])
        wait_until(lambda: all(scheduler.engine.idle for scheduler in schedulers))
        before, removed = ran(), time.monotonic()
        wait_until(lambda: time.monotonic() > removed + 2.1)  # two more slots would have come
        assert ran() == before
    slots = [line.partition(" ")[0] for line in before]
    assert len(slots) == len(set(slots))


@pytest.mark.usefixtures("imported")
def test_a_change_is_not_missed_when_the_store_fails_while_it_is_read(tmp_path: Path) -> None:
    class Flaky(SqliteStore):
        lost = 0

        def scan(self, scan: Scan) -> Page:
            page = super().scan(scan)
            if scan.prefix == "stored/" and page.cells and not self.lost:
                self.lost += 1
                raise StoreUnavailable("the reply was lost")
            return page

    url = f"sqlite:///{tmp_path}/at-work.db"
    with (
        closing(Flaky(tmp_path / "at-work.db")) as store,
        Cronce(store=store) as cron,
        cron.start(allow=["tasks:*"]) as scheduler,
    ):
        assert scheduler.wait_ready(60)
        cron.add("mail", every="1h", function="tasks:mail")
        wait_until(lambda: carried_by(url, "mail") != [None])
        assert store.lost == 1
