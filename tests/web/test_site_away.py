"""While the store does not answer, the page says so, and comes back by itself; and it never tells a password."""

import threading
from pathlib import Path

import pytest

from cronce import Cronce
from cronce.errors import BadInput
from cronce.stores.memory import MemoryStore
from cronce.web import site as sites
from cronce.web.app import application
from tests.house.wait import wait_until
from tests.web.house import TOKEN, Api, Browser, Busy, Moody

PAGES = ("/", "/jobs", "/jobs/billing", "/runs", "/timeline", "/holders", "/jobs/billing/pause")


def test_a_page_says_that_the_store_is_away_and_comes_back() -> None:
    busy = Busy()
    visitor, program = Browser(busy.app), Api(busy.app)
    visitor.log_in()
    word = visitor.csrf("/jobs/billing/pause")
    busy.store.away = True
    for path in PAGES:
        page = visitor.get(path)
        assert (page.status_code, page.headers["Retry-After"]) == (503, "2"), path
        assert "gives no answer" in page.text
        assert ("data-trouble" in page.text, "This page tries again by itself." in page.text) == (True, True)
        assert "hunter2" not in page.text
    answer = program.get("/api/v1/jobs")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert answer.json() == {"error": "postgresql://cronce:***@db/cronce gives no answer"}
    assert visitor.post("/jobs/billing/pause", {"csrf": word}).status_code == 503
    done = program.act("/jobs/billing/pause")
    assert (done.status_code, "It may have been done anyway" in done.json()["error"]) == (503, True)
    part = visitor.get("/jobs", {"X-Fragment": "1", "Accept": "*/*"})
    assert (part.status_code, "<html" in part.text) == (503, False)
    assert visitor.get("/healthz").status_code == 200
    assert (visitor.get("/readyz").status_code, "hunter2" in visitor.get("/readyz").text) == (503, False)
    assert visitor.get("/login").status_code == 200
    assert visitor.get("/metrics").status_code == 200

    busy.store.away = False
    assert [visitor.get(path).status_code for path in PAGES] == [200] * len(PAGES)
    assert visitor.get("/readyz").status_code == 200
    assert program.ask("/jobs/billing")["paused"] is False


def test_the_main_part_of_a_page_can_be_had_alone(visitor: Browser) -> None:
    whole, part = visitor.get("/jobs").text, visitor.get("/jobs", {"X-Fragment": "1"}).text
    assert ("<html" in part, "<nav" in part, "billing" in part) == (False, False, True)
    assert whole.count("order-sync") == part.count("order-sync")


class Hanging(Moody):
    """Gives no answer at all before it is let go."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.hangs = threading.Event()
        self.let_go = threading.Event()

    def _there(self) -> MemoryStore:
        if self.hangs.is_set():
            self.let_go.wait()
        return super()._there()


def test_whoever_waits_for_a_store_that_hangs_is_told_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """All threads hang in it, and a page answers all the same."""
    store = Hanging()
    visitor = Browser(application(Cronce(store=store), private=False))
    assert visitor.get("/jobs").status_code == 200
    store.hangs.set()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(sites, "STORE_TIMEOUT", 0.05)
            found = [visitor.get("/jobs") for _ in range(sites.READER_THREADS + 4)]
    finally:
        store.let_go.set()
    assert {page.status_code for page in found} == {503}
    assert "has not answered for" in found[-1].text
    store.hangs.clear()
    wait_until(lambda: visitor.get("/jobs").status_code == 200)


def test_a_store_that_cannot_be_opened_is_asked_for_again(tmp_path: Path) -> None:
    """What should be the folder of its file is a file."""
    place = tmp_path / "later"
    place.touch()
    visitor = Browser(application(f"sqlite:///{place}/cronce.db", token=TOKEN, private=False))
    first = visitor.get("/jobs")
    place.unlink()
    place.mkdir()
    assert (first.status_code, visitor.get("/jobs").status_code) == (503, 200)
    visitor.app.state.site.close()
    visitor.app.state.site.cron.close()


def test_a_report_that_is_none_is_refused(tmp_path: Path) -> None:
    report = tmp_path / "audit.json"
    for text in (None, "{", "[]", '{"findings": 1}', '{"findings": [1]}', '{"findings": [{"kind": "gone"}]}'):
        if text is not None:
            report.write_text(text)
        with pytest.raises(BadInput, match="is not what `cronce audit --json` prints"):
            Busy(report=report)
    report.write_text('{"findings": []}')
    assert Browser(Busy(report=report).app).get("/findings").status_code == 200


def test_a_bug_is_told_to_the_log_and_not_to_whoever_asks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    busy = Busy()

    def broken(*_: object) -> None:
        raise ZeroDivisionError("at postgresql://cronce:hunter2@db/")

    monkeypatch.setattr(busy.app.state.site, "ask", broken)
    page = Browser(busy.app).get("/jobs")
    assert (page.status_code, "ZeroDivision" in page.text, "hunter2" in page.text) == (500, False, False)
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert "ZeroDivisionError" in caplog.text
