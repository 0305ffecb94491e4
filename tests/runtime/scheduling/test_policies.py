"""Every policy, on every kind of store, as schedulers live it: which slots ran, how each is on record, what was told.

All of it happens in one season of a few seconds (`policies.season`), on three stores at the same time.
"""

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import datetime
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from cronce import Cronce, Run
from cronce.events import What
from cronce.model import Slot, slot_of_cell, spell
from cronce.protocol.record import Outcome, State, decode
from cronce.runtime.queries import read_all
from cronce.runtime.scheduling.settings import SchedulerIntervals
from cronce.schedule import At, Every, Schedule
from cronce.schedule.schedules import Window
from cronce.stores.base import Scan
from cronce.stores.redis import init
from cronce.testing.manual_time import Manual, manual
from tests.house.wait import wait_until
from tests.runtime.scheduling.policies.season import AGO, SECOND, TELLING, Policy, Season, hold, telling
from tests.servers.process import directory_for

pytestmark = pytest.mark.xdist_group("the season is lived through once")

STORES = ("sqlite", "postgres", "valkey")
JOBS: dict[str, Policy] = {}
Body = Callable[[Season, Run], None]


def job(when: Callable[[datetime], Schedule], *, old: bool = False, **policies: Any) -> Callable[[Body], Body]:
    """A job of the season, by the name of its body."""

    def declare(body: Body) -> Body:
        JOBS[body.__name__] = Policy(when, {"start_within": "1d"} | policies, body, old)
        return body

    return declare


def seconds(*numbers: int) -> Callable[[datetime], Schedule]:
    return lambda zero: At(*[zero + number * SECOND for number in numbers])


def every_second(first: int, last: int) -> Callable[[datetime], Schedule]:
    return lambda zero: Window(Every("1s"), zero + first * SECOND, zero + last * SECOND)


def old_minutes(number: int) -> Callable[[datetime], Schedule]:
    return seconds(*[-AGO // SECOND - 60 * minute for minute in range(number)])


OLD = -AGO // SECOND
"""The number of the last slot of jobs that nobody looked after."""


@pytest.fixture(scope="module")
def seasons(request: pytest.FixtureRequest) -> Iterator[dict[str, tuple[Season, Season]]]:
    """The same on three stores at once: most of it is waiting for the next second. On each there are two seasons, one
    of them for the job that comes to know the kill switch. If not all schedulers are there at zero, on a busy machine,
    nothing is lived through yet: then it is begun anew, with more time until then. The SQLite file is where servers
    keep theirs, in memory if there is enough: a disk that others keep busy can take longer for a flush than a lease."""
    others = {name: JOBS[name] for name in JOBS if name != "halted"}
    for patience in (3, 15):
        with ExitStack() as stack:
            events, both = stack.enter_context(telling()), dict[str, tuple[Season, Season]]()
            for store in STORES:
                folder = directory_for(store)
                stack.callback(rmtree, folder)
                most = Season(place(store, folder / "most", request), folder, others, events)
                stack.callback(most.close)
                halted = Season(place(store, folder / "halted", request), folder, {"halted": JOBS["halted"]}, events)
                stack.callback(halted.close)
                both[store] = most, halted
            if live([most for most, _ in both.values()], [halted for _, halted in both.values()], patience):
                yield both
                return
    raise AssertionError("the schedulers were not there in time")


def live(most: Sequence[Season], halted: Sequence[Season], patience: int) -> bool:
    """Whether all schedulers were there at zero, and all was lived through."""
    prepare(most, halted, patience)
    for season in (*most, *halted):
        season.begin()
    if not all(season.in_time() for season in (*most, *halted)):
        return False
    for season in halted:
        season.wait_till(1.97)  # just before the next slot
        season.cron.resume_all(by="bob")
    for season in most:
        season.wait_till(1.97)
        season.cron.resume("paused", by="bob")
    for season in most:
        season.kill_doomed()
    for season in (*most, *halted):
        season.end()
    return True


def prepare(most: Sequence[Season], halted: Sequence[Season], patience: int) -> None:
    """At zero all schedulers have to be there: the busier the machine, as the doomed ones show, the later that is. And
    it is soon enough for slots to be too late that shall be."""
    began = time.monotonic()
    for season in most:
        season.begin_doomed()
    for season in most:
        season.drain_doomed()
    until_zero = min(max(4, round(patience * (time.monotonic() - began))), 60)
    zero = most[0].now().replace(microsecond=0) + until_zero * SECOND
    for season in (*most, *halted):
        season.declare(zero)
    for season in most:
        season.cron.pause("paused", "too loud", by="ann")
    for season in halted:
        season.cron.pause_all("fire", by="ann")


@pytest.fixture(params=STORES)
def season(request: pytest.FixtureRequest, seasons: dict[str, tuple[Season, Season]]) -> Season:
    return seasons[request.param][0]


def place(store: str, folder: Path, request: pytest.FixtureRequest) -> str:
    """A store of its own on each kind of server."""
    if store == "sqlite":
        return f"sqlite:///{folder}.db"
    server, name = request.getfixturevalue(store).url, f"policies{os.getpid()}_{time.monotonic_ns()}"
    if store == "postgres":
        return f"{server}?schema={name}"
    init(f"{server}?namespace={name}")  # begun on purpose: else a store that can forget grants nothing for a while
    return f"{server}?namespace={name}"


SUCCEEDED = ("succeeded", "")

# --- overlap ----------------------------------------------------------------------------------------------------------
# Which slot comes first, that an overrun is told, and `replace`: on a clock that is turned by hand, in
# `test_engine_overlap.py`. Here several may fall due while a busy machine stands still.


@job(seconds(0, 1, 2, 3))
def skip(season: Season, _run: Run) -> None:
    hold(lambda: season.on_record("skip", 0, 1, 2, 3))


def test_overlap_skip_closes_what_falls_due_meanwhile(season: Season) -> None:
    (ran,) = season.runs("skip")
    skipped = ("skipped", f"{season.key('skip', ran)} had not ended")
    assert season.outcomes("skip") == dict.fromkeys(range(4), skipped) | {ran: SUCCEEDED}
    assert season.events("skip", What.MISSED) == []


@job(seconds(0, 1, 2), overlap="wait")
def wait(season: Season, run: Run) -> None:
    hold(lambda: season.on_record("wait", 0, 1, 2))
    season.seen.setdefault("wait", season.states("wait", *({0, 1, 2} - {season.number(run.slot)})))


def test_overlap_wait_runs_all_of_them_one_after_the_other(season: Season) -> None:
    assert season.seen["wait"] == [State.WAITING, State.WAITING]
    assert season.runs("wait") == [0, 1, 2]
    assert season.at_once("wait") == 1
    assert season.outcomes("wait") == {0: SUCCEEDED, 1: SUCCEEDED, 2: SUCCEEDED}
    assert season.events("wait", What.MISSED) == []


@job(seconds(0, 1, 2), overlap="allow")
def allow(season: Season, _run: Run) -> None:
    hold(lambda: sum(slot.job == "allow" for slot in list(season.begun)) == 3)


def test_overlap_allow_lets_them_run_at_the_same_time(season: Season) -> None:
    assert season.runs("allow") == [0, 1, 2]
    assert season.at_once("allow") == 3
    assert season.outcomes("allow") == {0: SUCCEEDED, 1: SUCCEEDED, 2: SUCCEEDED}


@job(seconds(0, 1, 2, 3), turns=2)
def turns(season: Season, _run: Run) -> None:
    hold(lambda: season.on_record("turns", 0, 1, 2, 3))


def test_at_most_two_at_once(season: Season) -> None:
    ran, outcomes = season.runs("turns"), season.outcomes("turns")
    assert len(ran) == season.at_once("turns") == 2
    assert [outcomes.pop(number) for number in ran] == [SUCCEEDED] * 2
    assert outcomes.keys() == {0, 1, 2, 3} - {*ran}
    assert {*outcomes.values()} <= {("skipped", f"{season.key('turns', number)} had not ended") for number in ran}


# --- slots that were missed -------------------------------------------------------------------------------------------


@job(old_minutes(6), old=True, missed="skip")
def missed_skip(_season: Season, _run: Run) -> None:
    pass


def test_missed_skip_runs_none_and_says_how_many(season: Season) -> None:
    assert season.runs("missed_skip") == []
    assert season.outcomes("missed_skip") == {}
    assert spans(season, "missed_skip") == [(6, "missed")]
    last = spell(season.slot("missed_skip", OLD).at)
    assert season.events("missed_skip", *TELLING) == [("missed", f"6 slots up to {last}: missed")]


@job(old_minutes(6), old=True, missed="latest")
def missed_latest(_season: Season, _run: Run) -> None:
    pass


def test_missed_latest_runs_one_late_and_says_how_many_not(season: Season) -> None:
    assert season.runs("missed_latest") == [OLD]
    assert season.outcomes("missed_latest") == {OLD: SUCCEEDED}
    assert spans(season, "missed_latest") == [(5, "superseded")]
    before = spell(season.slot("missed_latest", OLD - 60).at)
    told = [("late", f"{OLD}"), ("missed", f"5 slots up to {before}: superseded")]
    assert season.events("missed_latest", *TELLING) == told


@job(old_minutes(6), old=True, missed="all")
def missed_all(_season: Season, _run: Run) -> None:
    pass


def test_missed_all_runs_each_late_and_never_two_at_once(season: Season) -> None:
    numbers = [OLD - 60 * minute for minute in reversed(range(6))]
    assert season.runs("missed_all") == numbers
    assert season.at_once("missed_all") == 1
    assert season.outcomes("missed_all") == dict.fromkeys(numbers, SUCCEEDED)
    assert spans(season, "missed_all") == []
    assert season.events("missed_all", *TELLING) == [("late", f"{number}") for number in numbers]


def spans(season: Season, name: str) -> list[tuple[int | None, str]]:
    return [(span.slots, span.reason) for span in season.job(name).spans]


# --- start_within -----------------------------------------------------------------------------------------------------


@job(seconds(OLD - 360, OLD - 300, OLD - 60, OLD), old=True, missed="all", start_within="5m")
def deadline(_season: Season, _run: Run) -> None:
    pass


def test_start_within_closes_what_is_too_late(season: Season) -> None:
    assert season.runs("deadline") == [OLD - 60, OLD]
    late = dict.fromkeys((OLD - 360, OLD - 300), ("skipped", "too late to start"))
    assert season.outcomes("deadline") == late | {OLD - 60: SUCCEEDED, OLD: SUCCEEDED}


@job(every_second(OLD - 5, OLD), old=True, start_within=None)
def next_one(_season: Season, _run: Run) -> None:
    pass


def test_unless_it_says_otherwise_a_slot_starts_before_the_next_or_not_at_all(season: Season) -> None:
    assert season.runs("next_one") == []
    assert season.outcomes("next_one") == {OLD: ("skipped", "too late to start")}
    assert spans(season, "next_one") == [(5, "superseded")]


# --- a process that dies ----------------------------------------------------------------------------------------------


def test_on_lost_skip_closes_the_slot_as_lost(season: Season) -> None:
    slot = Slot("lost_skip", season.doomed_at)
    assert season.runs("lost_skip") == []
    record = season.records[slot]
    assert record.holder not in season.holders
    assert (record.outcome, record.reason) == ("lost", f"its holder {record.holder} did not renew its lease")


def test_on_lost_rerun_runs_it_again(season: Season) -> None:
    slot = Slot("lost_rerun", season.doomed_at)
    assert [(ran.slot, ran.attempt) for ran in season.ran if ran.slot.job == "lost_rerun"] == [(slot, 2)]
    record = season.records[slot]
    assert (record.outcome, record.grant, [past.end for past in record.past]) == ("succeeded", 2, ["lapsed"])
    assert record.holder in season.holders
    assert record.past[0].holder not in season.holders


def test_a_process_that_is_drained_claims_nothing_while_it_lives(season: Season) -> None:
    claimed = [line for line in season.book() if line.startswith("drained")]
    assert [line for line in claimed if datetime.fromisoformat(line.split()[1]) >= season.zero] == []
    assert Counter(season.runs("drained")).items() >= {0: 1, 1: 1, 2: 1}.items()
    assert {season.records[season.slot("drained", number)].holder for number in range(3)} <= season.holders


# --- failures ---------------------------------------------------------------------------------------------------------


@job(seconds(0), retries=2, backoff="100ms", on_lost="skip")
def gives_up(_season: Season, _run: Run) -> None:
    raise ValueError("no printer")


def test_retries_come_to_an_end(season: Season) -> None:
    """After how long each comes is shown on a clock that is turned by hand (`testing/test_manual_time.py`)."""
    record = season.records[season.slot("gives_up", 0)]
    found = [ran.attempt for ran in season.attempts("gives_up")], season.outcomes("gives_up")
    assert found == ([1, 2, 3], {0: ("failed", "ValueError: no printer")}), record
    assert [past.end for past in record.past] == ["failed: ValueError: no printer"] * 2
    assert season.events("gives_up", What.RETRYING, What.MISSED) == [("retrying", "0")] * 2


@job(seconds(0), retries=5, backoff="100ms", on_lost="skip")
def recovers(_season: Season, run: Run) -> None:
    if run.attempt < 3:
        raise ValueError("no printer")


def test_a_retry_that_succeeds_is_the_last(season: Season) -> None:
    assert [ran.attempt for ran in season.attempts("recovers")] == [1, 2, 3]
    assert season.outcomes("recovers") == {0: SUCCEEDED}
    assert season.events("recovers", What.RETRYING) == [("retrying", "0")] * 2


@job(seconds(0), timeout="1s")
def times_out(_season: Season, _run: Run) -> None:
    while True:
        time.sleep(0.01)


def test_what_takes_too_long_is_stopped(season: Season) -> None:
    """When, is shown on a clock that is turned by hand (`runtime/test_keeper.py`)."""
    assert season.runs("times_out") == [0]
    assert season.outcomes("times_out") == {0: ("failed", "timed out after 1s")}


# --- when -------------------------------------------------------------------------------------------------------------


@job(seconds(0, 1, 2, 3), jitter="900ms", overlap="allow")
def jitter(_season: Season, _run: Run) -> None:
    pass


def test_slots_that_jitter_delays_all_run(season: Season) -> None:
    """By how much each is delayed is shown on a clock that is turned by hand (`test_candidates_due.py`)."""
    assert season.runs("jitter") == [0, 1, 2, 3]
    assert season.events("jitter", What.OVERRUN, What.MISSED) == []


@job(every_second(1, 3), overlap="allow")
def bounded(_season: Season, _run: Run) -> None:
    pass


def test_it_has_a_beginning_and_an_end(season: Season) -> None:
    assert season.runs("bounded") == [1, 2, 3]
    assert season.outcomes("bounded") == dict.fromkeys([1, 2, 3], SUCCEEDED)


# --- pausing ----------------------------------------------------------------------------------------------------------


@job(seconds(0, 1, 2, 5), old=True)
def paused(_season: Season, _run: Run) -> None:
    pass


def test_what_is_paused_does_not_run_nor_catch_up_and_all_that_comes_later_runs(season: Season) -> None:
    later = [number for number in (2, 5) if season.slot("paused", number).at > season.job("paused").floor]
    assert season.runs("paused") == later
    assert season.outcomes("paused") == dict.fromkeys(later, SUCCEEDED)
    ((_, why),) = spans(season, "paused")
    assert re.fullmatch(r"paused by ann at 20\S+Z \(too loud\), resumed by bob", why)


class Deaf(Manual):
    """Hears no news: what was done by hand is learnt by looking."""

    def _step(self) -> float:
        return min(process.engine.step() for process in self._processes)


@pytest.mark.parametrize("which", [["sync"], []], ids=["job", "all"])
def test_a_slot_that_comes_before_the_resume_is_known_of_runs_too(
    monkeypatch: pytest.MonkeyPatch, which: list[str]
) -> None:
    monkeypatch.setattr("cronce.testing.manual_time.QUIET_INTERVALS", SchedulerIntervals())
    monkeypatch.setattr("cronce.testing.manual_time.Manual", Deaf)
    cron = Cronce("memory:")
    cron.job(every="5s", name="sync")(lambda: None)
    with manual(cron, "2026-03-01T00:00:03Z", processes=2) as time:
        hand = Cronce(store=time.store, clock=time.clock)
        assert [one.slot.at.second for one in time.advance("5s")] == [5]
        hand.pause(*which) if which else hand.pause_all()
        assert time.advance("11950ms") == []
        hand.resume(*which) if which else hand.resume_all()
        assert [one.slot.at.second for one in time.advance("10s")] == [20, 25]


@job(seconds(0, 1, 2, 3, 5), old=True)
def halted(_season: Season, _run: Run) -> None:
    pass


@pytest.mark.parametrize("store", STORES)
def test_the_kill_switch_stops_everything_and_all_that_comes_later_runs(
    seasons: dict[str, tuple[Season, Season]], store: str
) -> None:
    """What falls due between lifting the switch and the last rise of the floors may run, and is passed over if not."""
    _, season = seasons[store]
    ran = season.runs("halted")
    passed_over = [number for number in (2, 3, 5) if season.slot("halted", number).at <= season.job("halted").floor]
    assert ran == [number for number in (2, 3, 5) if number in ran or number not in passed_over]
    assert season.outcomes("halted") == dict.fromkeys(ran, SUCCEEDED)
    ((_, why),) = spans(season, "halted")
    assert re.fullmatch(r"paused by ann at 20\S+Z \(fire\), resumed by bob", why)


# --- many -------------------------------------------------------------------------------------------------------------


def test_a_backlog_is_capped_and_says_so(tmp_path: Path) -> None:
    body: Body = lambda _season, _run: None  # noqa: E731
    backlog = Policy(
        every_second(-1002, 0), {"missed": "all", "overlap": "allow", "start_within": "1d"}, body, old=True
    )
    with telling() as events:
        season = Season(f"sqlite:///{tmp_path}/backlog.db", tmp_path, {"backlog": backlog}, events)
        with closing(season):
            season.declare(season.now().replace(microsecond=0) - AGO)
            season.begin()
            season.end()
            assert season.runs("backlog") == list(range(-999, 1))
            assert season.outcomes("backlog") == dict.fromkeys(range(-999, 1), SUCCEEDED)
            assert spans(season, "backlog") == [(3, "capped")]
            last = spell(season.slot("backlog", -1000).at)
            assert season.events("backlog", What.MISSED) == [("missed", f"3 slots up to {last}: capped")]


AT_ONCE = int(os.environ.get("CRONCE_JOBS_AT_ONCE", "1100"))
"""More than are loaded or registered in one go, which is a thousand. On servers fewer: what differs is the store."""


@pytest.mark.parametrize("store", STORES)
def test_a_thousand_jobs_of_the_same_second_run_once_each(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url, ran = place(store, tmp_path / "many", request), list[Slot]()
    jobs = AT_ONCE if store == "sqlite" or "CRONCE_JOBS_AT_ONCE" in os.environ else 200
    with Cronce(url) as one, Cronce(url) as two:
        node = one.at_work().node
        begun = node.store.load([]).now.replace(microsecond=0)
        seconds = At(*[begun + 2**power * SECOND for power in range(1, 7)])  # one of them comes when all are there
        for cron in (one, two):
            for number in range(jobs):
                policies: Any = {"missed": "all", "start_within": "2m", "overlap": "allow"}  # however late it comes
                cron.job(seconds, **policies, name=f"job{number}")(lambda run: ran.append(run.slot))
        schedulers = [one.start(workers=50), two.start(workers=50)]
        assert all(scheduler.wait_ready(60) for scheduler in schedulers)
        at = seconds.next(node.store.load([]).now)
        assert at is not None
        wait_until(lambda: sum(slot.at == at for slot in list(ran)) >= jobs)
        assert [scheduler.stop() for scheduler in schedulers] == [True, True]
        cells = node.do(read_all(Scan("run/"))).cells
    slots = {Slot(f"job{number}", at) for number in range(jobs)}
    assert Counter(slot for slot in ran if slot.at == at) == dict.fromkeys(slots, 1)
    outcomes = Counter(decode(cell.value).outcome for cell in cells if slot_of_cell(cell.key) in slots)
    assert outcomes == {Outcome.SUCCEEDED: jobs}
