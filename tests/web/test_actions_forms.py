"""One form is one wish, however often it is sent; and whoever acts is told what came of it."""

from collections.abc import Callable
from datetime import timedelta
from urllib.parse import quote

import pytest

from cronce.model import FREE, Mark, Write, asked_cell
from cronce.protocol.record import Act, encode_act
from tests.web.house import Api, Browser, Busy
from tests.web.test_actions import done, way


def form_at(browser: Browser, path: str, **said: str) -> dict[str, str]:
    page = browser.get(path).text
    hidden = {name: page.partition(f'name="{name}" value="')[2].partition('"')[0] for name in ("csrf", "once")}
    assert all(hidden.values())
    return {**hidden, **said}


def sent(browser: Browser, path: str, form: dict[str, str]) -> tuple[str, str]:
    """Where a form leads, and what is said there of what came of it; the next page does not say it again."""
    answer = browser.post(path, form)
    assert answer.status_code == 303, answer.text
    after = answer.headers["Location"]
    told = came_of(browser.get(after).text)
    assert came_of(browser.get(after).text) == ""
    return after, told


def came_of(page: str) -> str:
    return page.partition('<p class="note came" role="status">')[2].partition("</p>")[0]


def skip_open(town: Busy, key: str) -> None:
    """Whatever was asked for is over."""
    done(Api(town.app), "runs", key, "cancel", reason="over")


def test_a_rerun_that_is_sent_again_is_the_same_run_also_when_it_is_over(town: Busy, ada: Browser) -> None:
    slot = town.scene.failed.key
    path = way("runs", slot, "rerun")
    form = form_at(ada, path, fresh="yes")
    first, told = sent(ada, path, form)
    assert told == "The run is requested."
    skip_open(town, f"{slot}#rerun-1")
    for _ in range(2):
        assert sent(ada, path, form) == (first, "The run was already requested: nothing changed.")
    assert first == f"/runs/{quote(slot, safe='@:')}%23rerun-1"
    assert sent(ada, path, form_at(ada, path))[0].endswith("rerun-2")


def test_a_program_that_names_its_rerun_asks_once(town: Busy) -> None:
    api, slot, other = Api(town.app), town.scene.failed.key, town.scene.lost.key
    first = done(api, "runs", slot, "rerun", id="after-the-fix")
    skip_open(town, first["key"])
    assert done(api, "runs", slot, "rerun", id="after-the-fix") == {**first, "new": False}
    assert done(api, "runs", slot, "rerun", id="again")["key"] == f"{slot}#rerun-2"
    refused = api.act(f"{way('runs', other)}/rerun", {"id": "after-the-fix"})
    assert (refused.status_code, "may still be in progress" in refused.json()["error"]) == (409, True)
    assert done(api, "runs", other, "rerun", id="after-the-fix", force=True)["key"] == f"{other}#rerun-1"
    assert api.act(f"{way('runs', slot)}/rerun", {"id": "a b"}).status_code == 400


def test_a_rerun_that_is_gone_does_not_come_back_with_its_id(town: Busy) -> None:
    api, slot = Api(town.app), town.scene.failed.key
    loaded = town.store.load([])
    for name, ago in (("long-ago", timedelta(days=20)), ("just-now", timedelta(0))):
        key = asked_cell(town.scene.failed.job, f"{town.scene.failed.cell.rpartition('/')[2]}:{name}")
        act = encode_act(Act("eve", loaded.now - ago, "rerun-7"))
        assert not town.store.swap([Write(key, FREE, act, Mark.OPEN)], loaded.epoch.seen).verdicts[0].refused
    gone = api.act(f"{way('runs', slot)}/rerun", {"id": "long-ago"})
    assert gone.status_code == 409
    assert "#rerun-7 was already requested by eve, and its run is gone: use another id" in gone.json()["error"]
    asked = done(api, "runs", slot, "rerun", id="just-now")  # whoever asked first may not have come to it
    assert (asked["key"], asked["new"]) == (f"{slot}#rerun-7", False)
    assert api.ask(f"/runs/{quote(asked['key'])}")["run"]["state"] == "due"


@pytest.mark.parametrize(
    ("act", "undo", "still"),
    [
        (("jobs", "billing", "pause"), ("jobs", "billing", "resume"), lambda api: api.ask("/jobs/billing")["pause"]),
        (
            ("jobs", "cleanup", "resume"),
            ("jobs", "cleanup", "pause"),
            lambda api: not api.ask("/jobs/cleanup")["paused"],
        ),
    ],
)
def test_an_order_that_was_undone_is_not_given_again_by_the_same_form(
    town: Busy, ada: Browser, act: tuple[str, ...], undo: tuple[str, str, str], still: Callable[[Api], object]
) -> None:
    path, api = way(*act), Api(town.app)
    form = form_at(ada, path)
    sent(ada, path, form)
    done(api, *undo)
    assert sent(ada, path, form)[1] == "This form was already sent: nothing changed."
    assert not still(api)


def test_a_verdict_and_a_cancelling_count_once(town: Busy, ada: Browser) -> None:
    api, slot = Api(town.app), town.scene.lost.key
    resolve, cancel = way("runs", slot, "resolve"), way("runs", slot, "cancel")
    retry, stop = form_at(ada, resolve, verdict="retry", force="yes"), form_at(ada, cancel)
    assert sent(ada, resolve, retry)[1] == "It is due again."
    assert sent(ada, cancel, stop)[1] == "It is closed as skipped."
    assert sent(ada, resolve, retry)[1] == "This form was already sent: nothing changed."
    assert sent(ada, cancel, stop)[1] == "This form was already sent: nothing changed."
    assert api.ask(f"/runs/{slot}")["run"]["outcome"] == "skipped"


def test_an_act_that_changes_nothing_says_so(town: Busy, ada: Browser) -> None:
    scene = town.scene
    said = {
        ("jobs", "billing", "pause"): ("It is paused.", "It was already paused by ada (page) at"),
        ("jobs", "billing", "resume"): ("It is resumed.", "It was not paused: nothing changed."),
        ("runs", scene.running.key, "cancel"): ("It is asked to stop.", "It was already asked to stop: nothing"),
        ("runs", scene.failed.key, "cancel"): ("It was already closed as failed: nothing changed.",) * 2,
    }
    for act, twice in said.items():
        for expected in twice:
            told = sent(ada, way(*act), form_at(ada, way(*act)))[1]
            assert told.startswith(expected), (act, told)
    for of, subject in (("runs", scene.lost.key), ("effects", scene.doubt)):
        path = way(of, subject, "resolve")
        tellings = [sent(ada, path, form_at(ada, path, verdict="done"))[1] for _ in range(2)]
        assert tellings[0].startswith("It counts as done.")
        assert tellings[1].startswith("It already counted as done: nothing changed. (already resolved by ada (page)")


def test_nobody_else_can_have_the_page_say_something(town: Busy, ada: Browser) -> None:
    for said in ("nonsense", "aaaa.bbbb", ada.cookies["cronce_session"]):
        ada.cookies.set("cronce_came", said)
        assert came_of(ada.get("/").text) == ""


def test_a_program_is_told_whether_something_changed(town: Busy) -> None:
    api, scene = Api(town.app), town.scene
    for of, subject, name, said in (
        ("runs", scene.running.key, "cancel", {}),
        ("runs", scene.lost.key, "resolve", {"verdict": "done"}),
        ("effects", scene.doubt, "resolve", {"verdict": "done"}),
    ):
        assert [done(api, of, subject, name, **said)["changed"] for _ in range(2)] == [True, False], name
