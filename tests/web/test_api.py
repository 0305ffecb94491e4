"""The API tells what the command line tells; what it says of itself is true."""

import json
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from starlette.routing import Route

from cronce.runtime.queries import halted_and_carried
from cronce.runtime.run_lists import runs
from cronce.runtime.stored_jobs import listed
from cronce.telling.documents import job_document, run_document
from cronce.web.actions import ACTIONS
from cronce.web.api import API_BASE, READ_ENDPOINTS, ROUTES
from tests.web.house import DESCRIBED, Api, Busy, described
from tests.web.scene import JOBS


def test_every_route_is_described_and_the_reverse() -> None:
    served = {
        (route.path.removeprefix(API_BASE).replace(":path", ""), method.lower())
        for route in ROUTES
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    known = {(path, verb) for path, verbs in DESCRIBED["paths"].items() for verb in verbs}
    assert served == known | {("/openapi.json", "get")}
    assert len(known) == len(READ_ENDPOINTS) + len(ACTIONS)


def test_every_path_stands_in_the_reference() -> None:
    page = Path(__file__).parents[2].joinpath("docs/reference/api-paths.md").read_text()
    for word in ("job", "slot", "effect", "alert"):
        page = page.replace(f"{{{word}}}", "{subject}")
    assert [path for path in DESCRIBED["paths"] if f"`{path}`" not in page] == []


def test_a_mistake_is_told_as_described(program: Api) -> None:
    for path, place, status in (
        ("/jobs/nix", "/jobs/{subject}", 404),
        ("/runs?limit=0", "/runs", 400),
        ("/why/nix@2026-03-29T01:00:00Z", "/why/{subject}", 404),
    ):
        answer = program.get(API_BASE + path)
        assert answer.status_code == status
        jsonschema.validate(answer.json(), described(place, str(status)))


def test_it_tells_the_documents_of_the_command_line(busy: Busy, program: Api) -> None:
    node = busy.cron.at_work().node
    _, lines = node.do(listed())
    _, served = node.do(halted_and_carried())
    assert program.ask("/jobs")["jobs"] == json.loads(json.dumps([job_document(line, served) for line in lines]))
    found = node.do(runs("order-sync", None, 100))
    told = program.ask("/jobs/order-sync/runs")["runs"]
    assert told == json.loads(json.dumps([run_document(one) for one in found]))


# --- lists ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "key", "name"),
    [
        ("/runs?", "runs", "slot"),
        ("/runs?job=probe&", "runs", "slot"),
        ("/jobs/order-sync/runs?state=succeeded&", "runs", "slot"),
        ("/jobs?", "jobs", "job"),
        ("/jobs?matching=IN&", "jobs", "job"),
        ("/locks?", "locks", "name"),
        ("/leaders?", "leaders", "name"),
        ("/effects?", "effects", "effect"),
        ("/effects?all=true&", "effects", "effect"),
    ],
)
def test_a_list_in_parts_is_the_whole_list(program: Api, path: str, key: str, name: str) -> None:
    whole = [one[name] for one in program.ask(f"{path}limit=1000")[key]]
    parts: list[str] = []
    after = ""
    while True:
        part = program.ask(f"{path}limit=2{after}")
        assert len(part[key]) <= 2
        parts += [one[name] for one in part[key]]
        if part["next"] is None:
            break
        after = f"&after={part['next']}"
    assert parts == whole
    assert len(whole) == len(set(whole)) > 1


def test_what_is_wanted_is_told(busy: Busy, program: Api) -> None:
    assert [one["slot"] for one in program.ask("/runs?state=lost")["runs"]] == [busy.scene.lost.key]
    assert program.ask("/jobs?matching=berlin")["total"] == 1
    assert {one["job"] for one in program.ask("/jobs")["jobs"]} == set(JOBS)
    assert len(program.ask("/effects?all=true")["effects"]) == 5
    assert program.ask("/effects?what=order-email")["effects"][0]["state"] == "in progress"
    timeline = program.ask("/timeline?job=order-sync")
    assert busy.scene.taken_over.key in {one["slot"] for one in timeline["runs"]}
    assert len(timeline["refused"]) == 4


@pytest.mark.parametrize(
    "path",
    [
        "/runs?limit=0",
        "/runs?limit=1001",
        "/runs?limit=٣",
        "/runs?limit=1e3",
        "/runs?limit=-1",
        "/runs?limit=",
        "/runs?limit=1&limit=2",
        "/runs?nix=1",
        "/runs?after=x",
        "/runs?after=1@job/billing",
        "/runs?state=nix",
        "/runs?job=a/b",
        "/runs?job=",
        "/jobs?after=a/b",
        "/locks?after=%00",
        "/effects?what=a/b",
        "/effects?what=%00",
        "/effects?all=yes",
        "/effects?after=x",
        "/effects?after=4@run/billing",
        "/effects?after=7@effect/billing",
        "/effects?what=order-email&after=3@once/letter/7",
        "/timeline?start=yesterday",
        "/timeline?start=2026-01-01",
        "/timeline?end=0001-01-01T00:00:00Z",
        "/timeline?end=9999-12-31T23:59:59-12:00",
        "/timeline?start=2026-01-02T00:00:00Z&end=2026-01-01T00:00:00Z",
        "/overview?x",
    ],
)
def test_a_strange_question_is_told_to_be_one(program: Api, path: str) -> None:
    answer = program.get(API_BASE + path)
    assert answer.status_code == 400, answer.text
    assert set(answer.json()) == {"error"}


def test_the_api_answers_in_json_whoever_asks(busy: Busy) -> None:
    browser = Api(busy.app, {"Accept": "text/html"})
    for path in ("/jobs/nix", "/nix", "/runs?limit=x"):
        assert browser.get(API_BASE + path).headers["Content-Type"] == "application/json"
    wrong = browser.send("DELETE", f"{API_BASE}/jobs")
    assert (wrong.status_code, set(wrong.json())) == (405, {"error"})
    assert sorted(wrong.headers["Allow"].split(", ")) == ["GET", "HEAD"]


def test_a_day_names_the_slot_where_there_is_one(program: Api) -> None:
    """The command line took a day, and neither the API nor the page did."""
    day = program.ask("/why/billing")["slots"][0]["slot"][: len("billing@2026-03-29")]
    slot = program.ask(f"/why/{day}")["slots"][0]["slot"]
    assert slot.startswith(day)
    assert slot in program.get(f"/runs/{day}").text
    several = program.get(f"/api/v1/why/{day.replace('billing', 'probe')}")
    assert (several.status_code, "has several slots on" in several.text) == (404, True)
    assert program.get("/api/v1/why/nobody@2026-03-29").status_code == 404
    for edge in ("0001-01-01", "9999-12-31"):  # a day before or after it there is not
        assert program.get(f"/api/v1/why/billing@{edge}").status_code == 404
