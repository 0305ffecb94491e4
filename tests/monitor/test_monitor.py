"""The monitor of a process: it watches when it leads, tells when the store is away, and keeps nobody waiting."""

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from cronce import Cronce
from cronce.clock import SystemClock
from cronce.errors import CronceError, StoreCopied, StoreFull, StoreUnavailable, StoreUnusable
from cronce.model import MONITOR, Mark, Traits, Write, holder_cell, leader_cell
from cronce.monitor import monitor as subject
from cronce.monitor.destinations import Callback, Document, Webhook
from cronce.monitor.monitor import Monitor
from cronce.monitor.settings import Settings
from cronce.monitor.survey import Survey, WatchMemory
from cronce.monitor.watch import judge
from cronce.protocol.notices import Alert, Holder, encode_notice
from cronce.runtime.flow import drive
from cronce.runtime.queries import held
from cronce.stores import open_store
from cronce.stores.base import Loaded, Page, Scan, Swapped
from cronce.stores.memory import MemoryStore
from cronce.stores.sqlite import adopt
from tests.house.wait import PATIENCE, wait_for, wait_until
from tests.monitor.receiver import Receiver, receiving
from tests.runtime.shelf import DURABLE


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that takes seconds takes tenths of them. Not the silence of a store: here a thread may not be let on for as
    long, and would take its own silence for the store's."""
    for name, seconds in {"SURVEY_EVERY": 0.1, "NOTICES_EVERY": 0.05, "GLANCE_EVERY": 0.05}.items():
        monkeypatch.setattr(subject, name, seconds)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/cronce.db"


class Line(MemoryStore):
    """A store whose calls fail, or hang, as the test says. Processes share it, as they do a server."""

    def __init__(self, traits: Traits = DURABLE) -> None:
        super().__init__(traits=traits)
        self.trouble: Callable[[], CronceError | None] = lambda: None
        self.fails_writes: CronceError | None = None
        self.hangs = threading.Event()
        self.refused = 0

    def load(self, keys: Sequence[str]) -> Loaded:
        self._pass()
        return super().load(keys)

    def scan(self, scan: Scan) -> Page:
        self._pass()
        return super().scan(scan)

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        self._pass()
        if self.fails_writes is not None:
            raise self.fails_writes
        return super().swap(writes, seen)

    def _pass(self) -> None:
        while self.hangs.is_set():
            time.sleep(0.01)
        if (error := self.trouble()) is not None:
            self.refused += 1
            raise error


@contextmanager
def watched(store: Line, *to: str) -> Iterator[Monitor]:
    with Cronce(store=store) as cron, Monitor(cron, to) as monitor:
        yield monitor


def dead_holder(name: str, ago: float) -> Write:
    """A scheduler that fell silent so many seconds ago."""
    now = SystemClock().wall()
    holder = Holder(name, "", "both", 1, {}, now - timedelta(hours=1), "")
    return Write(holder_cell(name), 0, encode_notice(holder), Mark.OPEN, ttl=timedelta(seconds=-ago))


def wait_in_silence(true: Callable[[], object], *monitors: Monitor) -> None:
    """As if the store had not answered them for as long as it takes; an answer that was under way may come after it."""

    def is_true() -> object:
        for one in monitors:
            one._heard = SystemClock().boot() - subject.UNREACHABLE_AFTER
        return true()

    wait_until(is_true)


def are_all_told(monitor: Monitor) -> bool:
    """Whether everybody was told of what stands, and that is on record."""
    told = [one.sent for alert in monitor.standing for one in alert.deliveries.values()]
    return bool(told) and all(told)


# --- it watches ---


def test_what_is_wrong_is_told_once_though_three_monitors_run_and_so_is_that_it_is_over(receiver: Receiver) -> None:
    store = Line()
    store.swap([dead_holder("web-9:1:a", 60)], store.load([]).epoch.seen)
    with watched(store, receiver.url), watched(store, receiver.url) as second, watched(store, receiver.url):
        wait_until(lambda: receiver.told() == [("gone", "raised")])
        wait_until(lambda: [one.kind for one in second.standing] == ["gone"])
        store.purge(store.load([holder_cell("web-9:1:a")]).cells)
        wait_until(lambda: receiver.told()[1:] == [("gone", "cleared")])
        wait_until(lambda: second.standing == ())
    assert receiver.told() == [("gone", "raised"), ("gone", "cleared")]


def test_whoever_leads_next_raises_nothing_anew(receiver: Receiver) -> None:
    store = Line()
    store.swap([dead_holder("web-9:1:a", 60)], store.load([]).epoch.seen)
    for _ in range(3):
        with watched(store, receiver.url) as monitor:
            wait_until(lambda: [one.kind for one in monitor.standing] == ["gone"] and are_all_told(monitor))
    assert receiver.told() == [("gone", "raised")]


def test_who_stops_resigns_at_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "STOP_WAIT", PATIENCE)
    store = open_store(url)
    with Cronce(url) as cron:
        with Monitor(cron):
            wait_until(lambda: [one.state for one in drive(held("leader/"), store, SystemClock()).held] == ["held"])
            began = time.monotonic()
        assert time.monotonic() - began < PATIENCE / 2
        assert [one.state for one in drive(held("leader/"), store, SystemClock()).held] == ["free"]
    store.close()


def test_without_a_place_for_alerts_they_live_with_the_leader(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "QUIET_TICK", 0.3)
    monkeypatch.setattr(subject, "SELDOM_EVERY", 0.3)
    store = Line(DURABLE._replace(history=False))
    store.swap([dead_holder("web-9:1:a", 60)], store.load([]).epoch.seen)
    with watched(store, receiver.url) as first, watched(store, receiver.url) as second:
        wait_until(lambda: receiver.told() == [("gone", "raised")])
        store.purge(store.load([holder_cell("web-9:1:a")]).cells)
        wait_until(lambda: receiver.told()[1:] == [("gone", "cleared")])
        assert list(store.scan(Scan("alert/")).cells) == []
        now = SystemClock().boot()
        wait_until(lambda: min(first._heard, second._heard) > now)  # who does not lead hears that it answers, too
    assert len(receiver.heard) == 2


# --- the store is away ---


def test_a_store_that_does_not_answer_is_told_by_each_process_and_that_it_does_again(receiver: Receiver) -> None:
    store = Line()
    with watched(store, receiver.url) as first, watched(store, receiver.url) as second:
        wait_until(lambda: first.standing == () and store.load([leader_cell(MONITOR)]).cells[0].version)
        store.trouble = lambda: StoreUnavailable("no answer from db.example:5432")
        wait_until(lambda: first._trouble and second._trouble)
        wait_in_silence(lambda: receiver.told() == [("unreachable", "raised")] * 2, first, second)
        store.trouble = lambda: None
        wait_until(lambda: receiver.told()[2:] == [("unreachable", "cleared")] * 2)
    facts = receiver.heard[0].alert
    assert facts["severity"] == "critical"
    assert facts["text"].endswith("no answer from db.example:5432")


def test_who_stops_while_the_store_is_away_says_that_nobody_there_watches_it_any_more(receiver: Receiver) -> None:
    store = Line()
    with watched(store, receiver.url) as monitor:
        store.trouble = lambda: StoreUnavailable("no answer from db.example:5432")
        wait_until(lambda: monitor._trouble)  # no answer is under way any more
        wait_in_silence(lambda: receiver.told() == [("unreachable", "raised")], monitor)
    wait_for([("unreachable", "raised"), ("unreachable", "cleared")], receiver.told)  # it is not waited for for long
    raised, last = (one.alert for one in receiver.heard)
    assert last["text"].startswith(f"no longer watched by {last['host']}:{os.getpid()}; it was unreachable since 20")
    assert last["id"] == raised["id"]


def test_that_is_not_waited_for_for_long(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "LAST_WORD", 0.3)
    store = Line()
    with watched(store, receiver.url) as monitor:
        store.trouble = lambda: StoreUnavailable("no answer from db.example:5432")
        wait_until(lambda: monitor._trouble)
        wait_in_silence(
            lambda: [one for one in monitor.own if sum(d.sent is not None for d in one.deliveries.values()) == 2],
            monitor,
        )
        receiver.answer = receiver.hang
        began = time.monotonic()
    assert time.monotonic() - began < PATIENCE / 2
    wait_until(lambda: len(receiver.heard) == 2)


def test_a_call_that_hangs_is_told_too(receiver: Receiver) -> None:
    store = Line()
    with watched(store, receiver.url) as monitor:
        store.hangs.set()
        wait_in_silence(lambda: receiver.told() == [("unreachable", "raised")], monitor)
        store.hangs.clear()
        wait_until(lambda: receiver.told()[1:] == [("unreachable", "cleared")])


def test_a_short_silence_is_nobodys_news(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "UNREACHABLE_AFTER", 2 * PATIENCE)
    store = Line()
    with watched(store, receiver.url) as monitor:
        store.trouble = lambda: StoreUnavailable("a moment")
        wait_until(lambda: store.refused >= 20)
        store.trouble = lambda: None
        assert monitor.own == ()
    assert receiver.heard == []


def test_a_process_that_stood_still_does_not_blame_the_store(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a night's sleep the clock that goes on is hours ahead of the last answer."""
    clock = Ahead()
    monkeypatch.setattr(subject, "SystemClock", lambda: clock)
    monkeypatch.setattr(subject, "NOTICES_EVERY", 0.3)
    with watched(Line(), receiver.url):
        wait_until(lambda: clock.asked > 100)
        clock.hours = 8
        clock.asked = 0
        wait_until(lambda: clock.asked > 100)
    assert receiver.heard == []


class Ahead(SystemClock):
    hours, asked = 0, 0

    def boot(self) -> float:
        self.asked += 1
        return super().boot() + 3600.0 * self.hours


def test_a_store_that_cannot_be_used_is_told_at_once_and_that_it_can_again(receiver: Receiver) -> None:
    store = Line()
    with watched(store, receiver.url):
        store.trouble = lambda: StoreFull("/var/lib/cronce.db could not grow")
        wait_until(lambda: receiver.told() == [("unusable", "raised")])
        store.trouble = lambda: None
        wait_until(lambda: receiver.told()[1:] == [("unusable", "cleared")])
    assert receiver.heard[0].alert["text"].endswith("/var/lib/cronce.db could not grow")


def test_a_store_that_can_be_read_and_not_written_is_told_by_whoever_would_lead(receiver: Receiver) -> None:
    store = Line()
    store.fails_writes = StoreFull("/var/lib/cronce.db could not grow")
    with watched(store, receiver.url):
        wait_until(lambda: receiver.told() == [("unusable", "raised")])
        store.fails_writes = None
        wait_until(lambda: receiver.told()[1:] == [("unusable", "cleared")])


def test_a_copy_is_told_by_whoever_opens_it_and_is_over_when_it_was_adopted(
    url: str, tmp_path: Path, receiver: Receiver
) -> None:
    open_store(url).close()
    shutil.copy(tmp_path / "cronce.db", tmp_path / "copy.db")
    copy = url.replace("cronce.db", "copy.db")
    with Cronce(copy) as cron, Monitor(cron, [receiver.url]):
        wait_until(lambda: receiver.told() == [("copied", "raised")])
        adopt(copy)
        wait_until(lambda: ("copied", "cleared") in receiver.told())
    assert f"cronce store adopt {copy}" in receiver.heard[0].alert["text"]


def test_a_process_that_ends_because_of_it_says_so_before(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "LAST_WORDS", PATIENCE)
    began = time.monotonic()
    with pytest.raises(StoreCopied), watched(Line(), receiver.url):
        raise StoreCopied("/srv/cronce.db is a copy")
    assert time.monotonic() - began < PATIENCE / 2
    assert receiver.told() == [("copied", "raised")]


def test_its_last_words_are_not_waited_for_for_long(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "LAST_WORDS", 0.3)
    receiver.answer = receiver.hang
    store, error = Line(), StoreUnusable("the tables are gone")
    with watched(store, receiver.url) as monitor:
        store.trouble = lambda: error
        wait_until(lambda: receiver.told() == [("unusable", "raised")])
        began = time.monotonic()
        monitor.last_words(error)
    assert time.monotonic() - began < PATIENCE / 2
    assert receiver.told() == [("unusable", "raised")]


def test_other_errors_are_none_of_its_business(receiver: Receiver) -> None:
    with pytest.raises(ValueError, match="x"), watched(Line(), receiver.url):
        raise ValueError("x")
    assert receiver.heard == []


# --- it keeps nobody waiting ---


def test_a_webhook_that_hangs_delays_neither_other_destinations_nor_the_end(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("RECEIVER_TIMEOUT", "POST_TIMEOUT"):
        monkeypatch.setattr(f"cronce.monitor.destinations.{limit}", PATIENCE)
    monkeypatch.setattr(Webhook, "limit", PATIENCE)
    receiver.answer = receiver.hang
    store, heard = Line(), list[Document]()
    store.swap([dead_holder(f"web-{number}:1:a", 60) for number in range(3)], store.load([]).epoch.seen)
    with Cronce(store=store) as cron, Monitor(cron, [receiver.url, heard.append]):
        wait_until(lambda: len(heard) == 3 and receiver.heard)
        assert len(receiver.heard) == 1
        began = time.monotonic()
    assert time.monotonic() - began < PATIENCE / 2


def test_a_receiver_that_is_down_is_told_later_and_once(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("cronce.monitor.alerts.FIRST_PAUSE", timedelta(milliseconds=100))
    receiver.answer = lambda _heard: 500 if len(receiver.heard) < 3 else 200
    store = Line()
    store.swap([dead_holder("web-9:1:a", 60)], store.load([]).epoch.seen)
    with watched(store, f"{receiver.url}/services/hush?token=hush") as monitor:
        wait_until(lambda: len(receiver.heard) == 3)
        wait_until(lambda: are_all_told(monitor))
    assert receiver.told() == [("gone", "raised")] * 3
    assert caplog.text.count("http://127.0.0.1 answered 500") == 2
    assert "hush" not in caplog.text


def test_what_a_function_raises_is_logged_without_its_secrets(caplog: pytest.LogCaptureFixture) -> None:
    store = Line()
    store.swap([dead_holder("web-9:1:a", 60)], store.load([]).epoch.seen)

    def refuse(_said: Document) -> None:
        raise ValueError("no https://ada:hush@pager/x, token=hush")

    with Cronce(store=store) as cron, Monitor(cron, [refuse]):
        wait_until(lambda: "ValueError: no https://ada:***@pager/x, token=***" in caplog.text)
    assert "hush" not in caplog.text


def test_what_a_run_failed_of_is_told_and_logged_without_its_secrets(
    url: str, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    cron = Cronce(url)

    @cron.job(every="1s", name="bad")
    def bad() -> None:
        raise ValueError("db down postgresql://admin:hush@db/x token=hush")

    with cron, Monitor(cron, [receiver.url]):
        cron.start()
        wait_until(lambda: ("failed", "raised") in receiver.told())
        wait_until(lambda: "critical: bad@" in caplog.text)
    assert all(b"hush" not in one.body for one in receiver.heard)
    lines = [line.getMessage() for line in caplog.records if "alert" in line.__dict__]
    assert [line for line in lines if "hush" in line] == []
    assert any("postgresql://admin:***@db/x token=***" in line for line in lines)


def test_a_function_that_never_returns_is_given_up_and_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Callback, "limit", 0.1)
    monkeypatch.setattr("cronce.monitor.destinations.CLAIM_SPARE", 0.2)
    monkeypatch.setattr("cronce.monitor.alerts.FIRST_PAUSE", timedelta(milliseconds=10))
    store, called, let_go = Line(), list[str](), threading.Event()

    def hang(said: Document) -> None:
        called.append(said["alert"]["state"])
        if len(called) == 1:
            monkeypatch.setattr(Callback, "limit", PATIENCE)  # the second time it has all the time that it needs
            let_go.wait(PATIENCE)

    store.swap([dead_holder("web-9:1:a", 60)], store.load([]).epoch.seen)
    with Cronce(store=store) as cron, Monitor(cron, [hang]) as monitor:
        wait_until(lambda: len(called) == 2)
        wait_until(lambda: are_all_told(monitor))
    let_go.set()
    assert called == ["raised", "raised"]


def test_who_is_told_of_what_is_critical_is_not_told_of_less(receiver: Receiver) -> None:
    store = Line()
    store.swap([dead_holder("web-9:1:a", 60)], store.load([]).epoch.seen)
    given = [Webhook(f"{receiver.url}/some", "critical"), Webhook(f"{receiver.url}/all", "info")]
    with Cronce(store=store) as cron, Monitor(cron, given) as monitor:
        wait_until(lambda: [one for one in monitor.standing if len(one.deliveries) == 2])
        wait_until(lambda: are_all_told(monitor))
    assert [one.path for one in receiver.heard] == ["/all"]


def test_a_store_that_hangs_delays_the_end_for_less_than_a_second(receiver: Receiver) -> None:
    store = Line()
    monitor = Monitor(Cronce(store=store), [receiver.url]).start()
    wait_until(lambda: store.load([leader_cell(MONITOR)]).cells[0].version)
    store.hangs.set()
    began = time.monotonic()
    monitor.stop()
    assert time.monotonic() - began < PATIENCE / 2
    assert subject.STOP_WAIT < 1
    store.hangs.clear()


def test_an_exception_in_it_is_logged_and_it_goes_on(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bugs = [RuntimeError("a bug")]

    def break_once(seen: Survey, memory: WatchMemory, settings: Settings) -> tuple[list[Alert], WatchMemory]:
        if bugs:
            raise bugs.pop()
        return judge(seen, memory, settings)

    monkeypatch.setattr(subject, "judge", break_once)
    store = Line()
    store.swap([dead_holder("web-9:1:a", 60)], store.load([]).epoch.seen)
    with watched(store, receiver.url):
        wait_until(lambda: receiver.told() == [("gone", "raised")])
    assert [line.exc_info[0] for line in caplog.records if line.exc_info] == [RuntimeError]


def test_a_forked_child_has_no_monitor(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "STOP_WAIT", PATIENCE)
    with Cronce(url) as cron, Monitor(cron) as monitor:
        store = open_store(url)
        wait_until(lambda: [one.state for one in drive(held("leader/"), store, SystemClock()).held] == ["held"])
        child = os.fork()
        if not child:
            try:
                began = time.monotonic()
                monitor.stop()
                os._exit(threading.active_count() if time.monotonic() - began < PATIENCE / 2 else 98)
            finally:
                os._exit(99)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
        assert [one.state for one in drive(held("leader/"), store, SystemClock()).held] == ["held"]
        store.close()


def test_the_log_is_told_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "cronce")
    store = Line()
    store.swap([dead_holder("web-9:1:a", 60)], store.load([]).epoch.seen)
    with watched(store):
        wait_until(lambda: "web-9:1:a stopped sending heartbeats" in caplog.text)
    assert len([line for line in caplog.records if "alert" in line.__dict__]) == 1


def test_a_store_that_cannot_be_meant_is_no_exception_of_the_monitors(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "cronce")
    with Monitor(Cronce("file.db")):
        wait_until(lambda: any("file.db" in record.getMessage() for record in caplog.records))
    assert [record.levelname for record in caplog.records if record.exc_info or record.levelno > logging.DEBUG] == []
