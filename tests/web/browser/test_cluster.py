"""What is seen of a live cluster: a process that dies, who takes over, what was refused; and what a person does."""

import re
import time
from functools import partial
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.house.wait import wait_until
from tests.web.browser.cluster import TOKEN, Cluster, kill
from tests.web.browser.eye import Eye

pytestmark = pytest.mark.xdist_group("browser")


class Death(NamedTuple):
    """One of the cluster was killed, and a person looked on."""

    holder: str
    untouched: bool
    """No page that showed it was loaded again."""


@pytest.fixture(scope="module")
def death(cluster: Cluster, browser: Browser) -> Death:
    """Of whoever hauls."""
    with browser.new_context() as context:
        overview, holders = context.new_page(), context.new_page()
        overview.goto(cluster.url)
        holders.goto(f"{cluster.url}/holders")
        for page in (overview, holders):
            page.evaluate("window.untouched = true")
        holder = _hauler(cluster)
        row = holders.locator(f'tr[data-holder="{holder}"]')
        expect(row).to_contain_text("alive")
        kill(holder)
        expect(row).to_contain_text(re.compile("late|dead"))
        expect(overview.locator(".health")).to_contain_text("stopped sending heartbeats")
        return Death(holder, all(page.evaluate("window.untouched") for page in (overview, holders)))


def _hauler(cluster: Cluster) -> str:
    """Who hauls, and has noticed that somebody looks on: it beats each second. On a busy machine the haul may have
    gone to another meanwhile."""
    while True:
        wait_until(lambda: cluster.holder_of("haul"))
        holder = str(cluster.holder_of("haul"))
        cluster.wait_for_beats(holder, 3)
        if cluster.holder_of("haul") == holder:
            return holder


def test_a_killed_process_is_seen_without_a_reload(death: Death) -> None:
    """How soon it is late, and how soon dead, is shown on a clock turned by hand (`pages/test_overview_holders.py`)."""
    assert death.untouched


def test_a_takeover_is_told_on_the_run_and_drawn_on_the_timeline(cluster: Cluster, death: Death, page: Page) -> None:
    wait_until(lambda: cluster.holder_of("haul") not in (None, death.holder))
    slot, heir = str(cluster.latest("haul", "running")), str(cluster.holder_of("haul"))
    page.goto(f"{cluster.url}/timeline?job=haul")
    arrow = page.locator("svg.timeline .handover")
    expect(arrow).to_have_count(1)
    expect(arrow.locator("title")).to_have_text(re.compile(f"^{re.escape(slot)}: taken over by {re.escape(heir)} at "))
    hatched = page.locator("svg.timeline a.piece", has=page.locator(".bar.lapsed"))
    expect(hatched.locator("title")).to_contain_text(f"{slot}: lapsed on {death.holder}")
    hatched.click()
    expect(page).to_have_url(f"{cluster.url}/runs/{slot}")
    expect(page.locator("main")).to_contain_text(f"granted to {death.holder}")
    expect(page.locator("main")).to_contain_text(f"taken over by {heir}")


def test_a_refused_duplicate_is_told_on_the_run_and_drawn_as_a_ghost(cluster: Cluster, page: Page) -> None:
    """Somebody else's crontab fires a slot that has run."""
    slot = str(cluster.latest("tick", "succeeded"))
    page.goto(f"{cluster.url}/timeline?job=tick")
    at = slot.partition("@")[2]
    words = ("--schedule", "every 1s", "--slot", at, "--store", "sqlite:///cronce.db", "--", "touch", "ran-twice")
    process, code = cluster.cronce("exec", "tick", *words)
    assert code == 0
    assert not (cluster.folder / "ran-twice").exists()
    refused = re.compile(rf"{re.escape(slot)} at [^ ]+: [^ :]+:{process}:\w+ did not run it")
    ghost = page.locator("svg.timeline a.piece", has=page.locator(".ghost")).filter(has_text=refused)
    expect(ghost).to_have_count(1)  # by itself, without a reload
    page.goto(f"{cluster.url}/runs/{slot}")
    expect(page.locator("main")).to_contain_text(re.compile(rf":{process}:\w+ did not run it"))


# --- acting ---------------------------------------------------------------------------------------------------------


def test_without_the_token_nothing_can_be_done(cluster: Cluster, page: Page, eye: Eye) -> None:
    eye.expects = "401"
    page.goto(f"{cluster.url}/jobs/report")
    expect(page.locator("main form[method=post]")).to_have_count(0)
    expect(page.locator("main").get_by_role("button", name=re.compile("pause", re.I))).to_have_count(0)
    answer = page.request.post(f"{cluster.url}/jobs/report/pause", form={"reason": "because"})
    assert answer.status == 401
    script = "fetch('/api/v1/jobs/report/pause', {method: 'POST'}).then((answer) => answer.status)"
    assert page.evaluate(script) == 401
    assert cluster.ask("jobs/report")["pause"] is None


def test_with_the_token_a_job_is_paused_after_a_question_and_on_record(cluster: Cluster, page: Page) -> None:
    page.goto(f"{cluster.url}/jobs/report")
    page.get_by_role("link", name="log in").click()
    page.get_by_label(re.compile("your name", re.I)).fill("ana <b>")
    page.get_by_label(re.compile("token", re.I)).fill(TOKEN)
    page.get_by_role("button", name=re.compile("log in", re.I)).click()
    expect(page).to_have_url(f"{cluster.url}/jobs/report")
    page.locator("main").get_by_role("link", name=re.compile("^pause", re.I)).click()
    expect(page).to_have_url(f"{cluster.url}/jobs/report/pause")
    assert cluster.ask("jobs/report")["pause"] is None  # so far it was only asked
    page.get_by_label(re.compile("why", re.I)).fill("the disk is full")
    page.locator("main").get_by_role("button", name=re.compile("pause", re.I)).click()
    expect(page).to_have_url(f"{cluster.url}/jobs/report")
    expect(page.locator("main")).to_contain_text("Paused by ana <b> (page)")
    expect(page.locator("main")).to_contain_text("the disk is full")
    paused = cluster.ask("jobs/report")["pause"]
    assert (paused["by"], paused["reason"]) == ("ana <b> (page)", "the disk is full")


# --- staying up to date ---------------------------------------------------------------------------------------------


def test_news_take_nothing_away_from_whoever_reads(cluster: Cluster, page: Page) -> None:
    """Focus, scroll, what is typed and what is folded out stay as they are while the page is made anew."""
    page.set_viewport_size({"width": 900, "height": 400})
    page.goto(f"{cluster.url}/timeline?job=tick")
    find = page.locator("[data-find]")
    find.fill("half a wo")
    page.get_by_text("the same as a table").click()
    link = page.locator("main .zoom a", has_text="6h")
    link.focus()
    page.evaluate("scrollTo(0, 150)")
    _wait_for_news(page, 2)
    assert page.evaluate("document.activeElement.textContent") == "6h"
    assert page.evaluate("scrollY") == 150
    expect(find).to_have_value("half a wo")
    expect(page.locator("main details")).to_have_attribute("open", "")


def _wait_for_news(page: Page, times: int) -> None:
    page.evaluate(
        """(times) => new Promise((done) => document.addEventListener("cronce:swapped", () => --times || done()))""",
        times,
    )


def test_the_timeline_is_moved_by_dragging_and_by_keys(cluster: Cluster, page: Page) -> None:
    began = time.monotonic()
    page.goto(f"{cluster.url}/timeline?job=tick&span=10m")
    start, box = page.evaluate(_START), page.locator(".picture svg.timeline").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 8, steps=3)
    page.mouse.up()
    expect(page).to_have_url(re.compile("from=.+&to="))
    wait_until(lambda: page.evaluate(_START) - start > 60_000)
    took = 1000 * (time.monotonic() - began)  # until it is dragged it goes on with the time
    assert 110_000 < page.evaluate(_START) - start < 130_000 + took
    expect(page.get_by_role("link", name="now")).to_have_attribute("href", re.compile("span=10m"))
    for key, length in (("+", 300), ("-", 600), ("-", 1200)):
        page.keyboard.press(key)
        wait_until(partial(_lasts, page, length))
    start = page.evaluate(_START)
    page.keyboard.press("ArrowLeft")
    wait_until(lambda: page.evaluate(_START) == start - 600_000)


def test_what_was_asked_before_one_moved_does_not_move_one_back(cluster: Cluster, page: Page) -> None:
    """The page was being made anew when a key was pressed: that answer is about another time."""
    held: list[Route] = []
    page.goto(f"{cluster.url}/timeline?job=tick&span=10m")
    start = page.evaluate(_START)
    page.route("**/timeline?job=tick&span=10m", lambda route: held.append(route))  # noqa: PLW0108  append has no names
    wait_until(lambda: page.title() and held)
    page.keyboard.press("ArrowLeft")
    wait_until(lambda: page.evaluate(_START) < start - 200_000)
    there = page.evaluate(_START)
    page.evaluate(f"window.shown = []; document.addEventListener('cronce:swapped', () => shown.push({_START}))")
    held[0].continue_()
    wait_until(lambda: page.evaluate("!busy"))
    assert set(page.evaluate("shown")) <= {there}


def _lasts(page: Page, seconds: int) -> bool:
    return bool(page.evaluate(_LENGTH) == seconds)


_START = 'Date.parse(document.querySelector("[data-timeline]").dataset.start)'
_LENGTH = f'(Date.parse(document.querySelector("[data-timeline]").dataset.end) - {_START}) / 1000'
