"""The page in another application: its links stay below where it is, and nobody need start it."""

import re

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.web.house import BEARER, Browser, Busy


@pytest.fixture(scope="module", params=["starlette", "fastapi"])
def whole(request: pytest.FixtureRequest) -> tuple[Starlette, Busy]:
    busy = Busy()
    if request.param == "starlette":
        return Starlette(routes=[Mount("/ops", routes=[Mount("/cronce", busy.app)])]), busy
    outer = FastAPI()
    outer.mount("/ops/cronce", busy.app)
    return outer, busy


LINK = re.compile(r'(?:href|action|src|data-root)="(/[^"#?]*)')


def test_all_links_lead_below_where_it_is_mounted(whole: tuple[Starlette, Busy]) -> None:
    """Followed from the first page on, each link of a page is one of ours, and there."""
    outer, _ = whole
    visitor = Browser(outer)
    visitor.log_in(path="/ops/cronce/login")
    left, known = ["/ops/cronce/"], {"/ops/cronce/"}
    while left:
        page = visitor.get(left.pop())
        assert page.status_code == 200 or page.headers.get("Location", "").startswith("/ops/cronce/"), page.request.url
        if "html" not in page.headers.get("Content-Type", ""):
            continue
        found = set(LINK.findall(page.text))
        assert {link for link in found if not link.startswith("/ops/cronce")} == set()
        kinds = {re.sub(r"[^/]*@[^/]*", "SLOT", link) for link in known}
        new = {link for link in found - known if re.sub(r"[^/]*@[^/]*", "SLOT", link) not in kinds}
        known |= new
        left += sorted(new - {"/ops/cronce/logout"})
    assert {"/ops/cronce/jobs/billing", "/ops/cronce/timeline", "/ops/cronce/static/style.css"} <= known


def test_logging_in_and_acting_work_there_and_the_cookie_is_for_there_alone(whole: tuple[Starlette, Busy]) -> None:
    outer, _ = whole
    visitor = Browser(outer)
    answer = visitor.log_in(path="/ops/cronce/login", next="/jobs/billing")
    assert answer.headers["Location"] == "/ops/cronce/jobs/billing"
    assert "Path=/ops/cronce/;" in answer.headers["Set-Cookie"] + ";"
    pause = "/ops/cronce/jobs/billing/pause"
    done = visitor.post(pause, {"csrf": visitor.csrf(pause)})
    assert (done.status_code, done.headers["Location"]) == (303, "/ops/cronce/jobs/billing")
    assert visitor.get("/ops/cronce/api/v1/jobs/billing").json()["pause"]["by"] == "ada (page)"
    resumed = visitor.send("POST", "/ops/cronce/api/v1/jobs/billing/resume", headers=BEARER)
    assert resumed.json()["changed"] is True


def test_a_page_that_is_not_there_and_the_description_know_where_they_are(whole: tuple[Starlette, Busy]) -> None:
    visitor = Browser(whole[0])
    for path in ("/ops/cronce/nix", "/ops/cronce/static/nix", "/ops/cronce/jobs/nix"):
        missing = visitor.get(path)
        assert missing.status_code == 404
        assert 'href="/ops/cronce/jobs"' in missing.text
    assert visitor.get("/ops/cronce/api/v1/openapi.json").json()["servers"] == [{"url": "/ops/cronce/api/v1"}]


def test_a_private_page_leads_to_its_own_login() -> None:
    outer = Starlette(routes=[Mount("/ops", Busy(private=True).app)])
    visitor = Browser(outer)
    assert visitor.get("/ops/jobs").headers["Location"] == "/ops/login?next=%2Fjobs"
    assert visitor.get("/ops/api/v1/jobs").status_code == 401
    assert visitor.get("/ops/static/style.css").status_code == 200
