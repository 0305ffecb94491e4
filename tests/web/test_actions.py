"""Acting from the page and through the API: first it is said what would happen, then it is done, and who did it is on
record."""

from typing import Any
from urllib.parse import quote

import jsonschema  # type: ignore[import-untyped]
import pytest

from cronce.web.actions import ACTIONS
from tests.web.house import TOKEN, Api, Browser, Busy, described
from tests.web.scene import HOSTILE


def way(*parts: str) -> str:
    return "/" + "/".join(quote(part, safe="@:/") for part in parts)


def test_a_get_shows_what_would_happen_and_how_it_stands_and_does_nothing(town: Busy, ada: Browser) -> None:
    before = town.store.load([]).epoch.tally
    scene = town.scene
    pages = {
        way("jobs", "billing", "pause"): "Its slots do not run until it is resumed",
        way("jobs", "cleanup", "resume"): "the disk is full",
        way("jobs", "billing", "trigger"): "The schedule does not change",
        way("runs", scene.failed.key, "rerun"): "SMTPAuthenticationError",
        way("runs", scene.running.key, "cancel"): "412 of 1,000",
        way("runs", scene.lost.key, "resolve"): "is lost",
        way("effects", scene.doubt, "resolve"): "is in doubt",
        "/alerts/failed/invoice-mail/acknowledge": "you work on it",
        "/alerts/failed/invoice-mail/snooze": "it is sent again",
    }
    for path, said in pages.items():
        page = ada.get(path)
        assert page.status_code == 200, page.text
        assert said in page.text, path
        assert "<script>alert" not in page.text
    assert len(pages) == len(ACTIONS)
    assert town.store.load([]).epoch.tally == before


def acts(town: Busy, ada: Browser, path: str, **said: str) -> str:
    """Where one is led after it was done."""
    answer = ada.post(path, {"csrf": ada.csrf(path), **said})
    assert answer.status_code == 303, answer.text
    after = answer.headers["Location"]
    assert ada.get(after).status_code == 200
    return str(after)


def test_whoever_acts_on_the_page_is_on_record(town: Busy, ada: Browser) -> None:
    api, scene = Api(town.app), town.scene
    assert acts(town, ada, "/jobs/billing/pause", reason=HOSTILE) == "/jobs/billing"
    pause = api.ask("/jobs/billing")["pause"]
    assert (pause["by"], pause["reason"]) == ("ada (page)", HOSTILE)
    assert "<script>alert" not in ada.get("/jobs/billing").text

    acts(town, ada, "/jobs/billing/resume")
    seen = api.ask("/jobs/billing")
    assert (seen["pause"], seen["passed_over"][-1]["end"]) == (None, seen["floor"])
    when = f"{pause['at'][:19]}Z"
    assert seen["passed_over"][-1]["reason"] == f"paused by ada (page) at {when} ({HOSTILE}), resumed by ada (page)"
    assert f"paused by ada (page) at {when} " in ada.get("/jobs/billing").text

    after = acts(town, ada, "/jobs/billing/trigger", payload='{"month": "2026-03"}', id="march")
    run = api.get(f"/api/v1{after}").json()["run"]
    assert (run["state"], run["by"], run["payload"]) == ("due", "ada (page)", {"month": "2026-03"})
    assert run["slot"].endswith("#march")

    after = acts(town, ada, way("runs", scene.failed.key, "rerun"), fresh="yes")
    assert api.get(f"/api/v1{after}").json()["run"]["by"] == "ada (page)"

    acts(town, ada, way("runs", scene.lost.key, "resolve"), verdict="done", reason="42 invoices are there")
    run = api.ask(f"/runs/{scene.lost.key}")["run"]
    assert (run["outcome"], run["reason"]) == ("succeeded", "resolved: by ada (page): 42 invoices are there")

    acts(town, ada, way("runs", scene.running.key, "cancel"), reason="wrong month")
    assert acts(town, ada, way("effects", scene.doubt, "resolve"), verdict="retry") == "/effects"
    assert [one["state"] for one in api.ask("/effects")["effects"]] == ["in progress"]


def test_a_form_that_is_sent_twice_is_one_wish(town: Busy, ada: Browser) -> None:
    path = "/jobs/billing/trigger"
    page = ada.get(path).text
    form = {name: page.partition(f'name="{name}" value="')[2].partition('"')[0] for name in ("csrf", "once")}
    first, again = ada.post(path, form), ada.post(path, form)
    assert (first.status_code, first.headers["Location"]) == (303, again.headers["Location"])
    assert acts(town, ada, path) != first.headers["Location"]
    assert len(Api(town.app).ask("/runs?state=due")["runs"]) == 2


def test_what_cannot_be_done_is_said_on_the_form_and_what_was_written_stays(town: Busy, ada: Browser) -> None:
    path = way("runs", town.scene.running.key, "rerun")
    refused = ada.post(path, {"csrf": ada.csrf(path)})
    assert refused.status_code == 409
    assert "only a closed slot can be run again" in refused.text
    trigger = "/jobs/billing/trigger"
    for said, status in (
        ({"payload": "{nope"}, 422),
        ({"payload": "NaN"}, 422),
        ({"payload": '"' + "x" * 70_000 + '"'}, 400),
        ({"id": "rerun-1"}, 400),
        ({"id": "a b"}, 400),
    ):
        refused = ada.post(trigger, {"csrf": ada.csrf(trigger), **said})
        assert refused.status_code == status, said
        assert 'role="alert"' in refused.text
    resolve = way("runs", town.scene.lost.key, "resolve")
    for verdict in ("", "maybe"):
        assert ada.post(resolve, {"csrf": ada.csrf(resolve), "verdict": verdict}).status_code == 422
    assert ada.post("/jobs/nix/pause", {"csrf": ada.csrf(trigger)}).status_code == 404
    assert ada.get("/jobs/nix/pause").status_code == 404
    assert ada.get("/effects/billing/nix/resolve").status_code == 404


def done(api: Api, of: str, subject: str, name: str, **said: Any) -> Any:
    """What comes of an act, which is as it is described."""
    answer = api.act(f"{way(of, subject)}/{name}", said)
    assert answer.status_code == 200, answer.text
    jsonschema.validate(answer.json(), described(f"/{of}/{{subject}}/{name}"))
    return answer.json()


def test_a_program_acts_and_says_for_whom(town: Busy) -> None:
    api, scene = Api(town.app), town.scene
    paused = done(api, "jobs", "billing", "pause", reason="moving", by="deploy 7")
    assert (paused["changed"], paused["paused"]["by"]) == (True, "deploy 7 (api)")
    assert done(api, "jobs", "billing", "pause")["changed"] is False
    assert done(api, "jobs", "billing", "resume")["was"]["reason"] == "moving"
    asked = done(api, "jobs", "billing", "trigger", payload=[1, None], id="march")
    assert (asked["new"], asked["by"]) == (True, "token (api)")
    assert done(api, "jobs", "billing", "trigger", id="march") == {**asked, "new": False}
    cancelled = done(api, "runs", asked["key"], "cancel", reason="april")
    assert (cancelled["outcome"], cancelled["reason"]) == ("skipped", "cancelled by token (api): april")
    assert done(api, "runs", scene.failed.key, "rerun")["key"] == f"{scene.failed.key}#rerun-1"
    assert done(api, "runs", scene.lost.key, "resolve", verdict="retry", force=True)["due"] is True
    seen = done(api, "effects", scene.doubt, "resolve", verdict="done", result={"id": 1})
    assert (seen["state"], seen["result"]) == ("done", {"id": 1})


def test_half_a_character_in_a_payload_is_told_and_shown(town: Busy, ada: Browser) -> None:
    """JSON can hold it, and no encoding can."""
    how = {"content": b'{"payload": "\\ud800", "id": "half"}', "headers": {"Content-Type": "application/json"}}
    key = quote(Api(town.app).send("POST", "/api/v1/jobs/billing/trigger", **how).json()["key"])
    assert Api(town.app).ask(f"/runs/{key}")["run"]["payload"] == "\ud800"
    assert ada.get(f"/runs/{key}").status_code == 200


@pytest.mark.parametrize(
    ("path", "said", "status"),
    [
        ("/jobs/nix/pause", {}, 404),
        ("/jobs/a%20b/pause", {}, 404),
        ("/runs/nix/cancel", {}, 404),
        ("/runs/billing@2026-03-29T01:00:00Z/cancel", {}, 404),
        ("/runs/{running}/rerun", {}, 409),
        ("/runs/{running}/resolve", {"verdict": "done"}, 409),
        ("/runs/{lost}/resolve", {}, 422),
        ("/runs/{lost}/resolve", {"verdict": "nope"}, 422),
        ("/runs/{lost}/rerun", {"fresh": "yes"}, 422),
        ("/jobs/billing/trigger", {"id": "x" * 65}, 422),
        ("/jobs/billing/pause", {"reason": "\x00"}, 400),
        ("/jobs/billing/pause", {"by": "\u202e"}, 400),
        ("/jobs/billing/pause", {"by": ""}, 422),
        ("/jobs/billing/pause", {"by": "  "}, 422),
        ("/effects/order-email/42/resolve", {"verdict": "done"}, 409),
        ("/effects/order-email/43/resolve", {"verdict": "done"}, 404),
        ("/effects/nix/resolve", {"verdict": "done"}, 404),
    ],
)
def test_what_a_program_cannot_do_it_is_told(
    busy: Busy, program: Api, path: str, said: dict[str, Any], status: int
) -> None:
    before = busy.store.load([]).epoch.tally
    answer = program.act(path.format(running=busy.scene.running.key, lost=busy.scene.lost.key), said)
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error"}
    assert TOKEN not in answer.text
    assert busy.store.load([]).epoch.tally == before
