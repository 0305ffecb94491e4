"""On every store: the page is read, an act is done, and what changes is told."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cronce import Cronce
from cronce.stores.redis import init
from cronce.web import live
from cronce.web.app import application
from tests.servers.kubernetes import Kubernetes
from tests.stores.test_size import PLACES
from tests.web.house import TOKEN, Api, Browser
from tests.web.served import Stream, served

PAGES = ("/", "/jobs", "/jobs/mail", "/runs", "/timeline", "/holders", "/locks", "/leaders", "/effects", "/alerts")


@pytest.fixture(params=[*(name for name in PLACES if name != "memory"), "kubernetes"])
def cron(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cronce]:
    if request.param == "kubernetes":
        server: Kubernetes = request.getfixturevalue("kubernetes")
        url = server.url(f"page-{tmp_path.name[-1]}")
    else:
        url = PLACES[request.param](request, tmp_path)
    if request.param == "valkey":
        init(url)  # else nothing would run in what was found empty
    with Cronce(url) as cron:
        cron.job("0 * * * *", name="mail")(lambda: None)()
        yield cron


def test_a_page_shows_acts_and_is_told_of_changes(cron: Cronce, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LIVE_LOOK_EVERY", 0.05)
    monkeypatch.setattr(live, "UNCOUNTED_EVERY", 0.1)
    app = application(cron, token=TOKEN, private=False)
    visitor, program = Browser(app), Api(app)
    assert [path for path in PAGES if visitor.get(path).status_code != 200] == []
    (run,) = program.ask("/runs")["runs"]
    assert (run["job"], run["outcome"]) == ("mail", "succeeded")
    assert program.ask(f"/why/{run['slot']}")["slots"][0]["case"] == "succeeded"
    assert program.act("/jobs/mail/pause", {"by": "ada"}).json()["paused"]["by"] == "ada (api)"
    assert program.ask("/jobs/mail")["paused"] is True
    assert program.ask("/overview")["open"]["count"] == 0
    with served(app) as port, Stream(port) as one:
        first = one.tally()
        program.act("/jobs/mail/resume")
        assert one.tally() > first
