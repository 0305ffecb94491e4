"""Every page in a real browser, over a busy store and an empty one: quiet, narrow, dark, by keys, without scripts."""

import re
from collections.abc import Mapping

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.house.wait import wait_until
from tests.servers.valkey import Valkey
from tests.web.browser.cluster import TOKEN
from tests.web.browser.eye import Eye
from tests.web.browser.stage import Served, Stage
from tests.web.browser.tour import PHONE, Visit, brightness, ready, tour

pytestmark = [
    pytest.mark.xdist_group("browser"),
    pytest.mark.timeout(600),  # the first of them waits for the whole tour
]

EMPTY = ("/", "/jobs", "/timeline", "/holders", "/findings")
ACTING = ("/login", "/jobs/billing/pause")

Visits = Mapping[str, Visit]


@pytest.fixture(scope="module")
def visits(stage: Stage, browser: Browser) -> Visits:
    """Of all pages with something on them, of those that have nothing to show yet, and of those to act."""
    places = {stage.url: stage.pages, stage.empty: EMPTY, stage.acting: ACTING}
    return tour(browser, (f"{place}{way}" for place, ways in places.items() for way in ways))


def test_every_page_is_there(visits: Visits) -> None:
    assert {way: visit.status for way, visit in visits.items() if visit.status != 200} == {}


def test_no_page_says_an_error_asks_a_stranger_or_breaks_its_policy(visits: Visits) -> None:
    assert {way: visit.said for way, visit in visits.items() if visit.said} == {}


def test_what_strangers_wrote_makes_no_element_and_no_page_has_styles_of_its_own(visits: Visits) -> None:
    assert {way: visit.strange for way, visit in visits.items() if visit.strange} == {}


def test_on_a_phone_nothing_is_wider_than_the_screen(visits: Visits) -> None:
    assert {way: visit.width for way, visit in visits.items() if visit.width > PHONE} == {}


def test_axe_finds_nothing_serious_on_any_page_in_the_light(visits: Visits) -> None:
    assert {way: visit.light for way, visit in visits.items() if visit.light} == {}


def test_axe_finds_no_colours_in_the_dark_that_cannot_be_read(visits: Visits) -> None:
    assert {way: visit.dark for way, visit in visits.items() if visit.dark} == {}


def test_what_is_not_there_is_told_on_a_page_of_its_own(stage: Stage, page: Page, eye: Eye) -> None:
    eye.expects = "404"
    for way in ("/nothing", "/jobs/nobody", "/runs/nonsense"):
        answer = page.goto(f"{stage.url}{way}")
        assert answer is not None
        assert answer.status == 404
        expect(page.locator("main h1")).to_be_visible()


def scrolled(page: Page) -> list[int]:
    """How far the picture is scrolled, and how far it can be. In one step: the page may replace the box at any time,
    and one that was replaced is scrolled nowhere."""
    box = "const box = document.querySelector('.picture.wide')"
    found: list[int] = page.evaluate(f"() => {{ {box}; return [box.scrollLeft, box.scrollWidth - box.clientWidth]; }}")
    return found


def test_a_picture_is_scrolled_in_its_own_box(stage: Stage, page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(f"{stage.url}/timeline?span=1h")
    at, most = scrolled(page)
    assert at == most > 0  # it begins where things happen
    names = "(names) => names.map((name) => name.getBoundingClientRect().x).filter((x) => x < 0 || x > 100)"
    assert page.locator("svg.timeline .name").evaluate_all(names) == []  # they stay in sight


def test_a_picture_stays_where_it_is_scrolled_to_when_a_box_before_it_comes(stage: Stage, page: Page) -> None:
    """Boxes were known by their number: after a refresh with one more of them the picture was at its start."""
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(f"{stage.url}/timeline?span=1h")
    news = """swap('<div class="scroll" id="new">news</div>' + main.innerHTML)"""
    page.evaluate(f"() => {{ document.querySelector('.picture.wide').scrollLeft = 40; {news}; }}")
    assert scrolled(page)[0] == 40


@pytest.mark.parametrize(("way", "milliseconds"), [("/holders", 800), ("/jobs", 2500)])
def test_a_page_asks_again_in_time_and_sooner_where_schedulers_are_shown(
    stage: Stage, page: Page, way: str, milliseconds: int
) -> None:
    """A scheduler is late two seconds after its last beat, and seen within three: so 800 ms is no 1,000."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "x-fragment" in request.headers else None)
    page.add_init_script("EventSource = class { addEventListener() {} close() {} }")  # no news comes meanwhile
    page.clock.install(time=0)
    page.clock.pause_at(1)
    page.goto(f"{stage.url}{way}")
    for times in (0, 1):
        page.clock.run_for(milliseconds - 1)
        assert len(asked) == times
        with page.expect_response(f"{stage.url}{way}"):
            page.clock.run_for(2)  # a timer of no milliseconds takes one
        assert len(asked) == times + 1
        wait_until(lambda: page.evaluate("!busy"))


def test_dark_is_dark_and_the_choice_is_kept(stage: Stage, page: Page) -> None:
    page.goto(stage.url)
    assert brightness(page) > 200
    page.get_by_role("button", name="light or dark").click()
    assert brightness(page) < 60
    page.goto(f"{stage.url}/jobs")
    assert brightness(page) < 60
    ready(page)
    page.keyboard.press("t")
    page.reload()
    assert brightness(page) > 200


def test_the_systems_choice_counts_until_one_is_made(stage: Stage, page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(stage.url)
    assert brightness(page) < 60


def test_the_keyboard_is_enough(stage: Stage, page: Page) -> None:
    page.goto(stage.url)
    ready(page)
    page.keyboard.press("/")
    expect(page.locator("[data-find]")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page).to_have_url(f"{stage.url}/jobs")
    ready(page)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    first = page.locator('tr[aria-selected="true"] a').first
    expect(first).to_be_focused()
    name = first.inner_text()
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{stage.url}/jobs/{name}")
    ready(page)
    page.keyboard.press("?")
    expect(page).to_have_url(f"{stage.url}/help")


def test_a_search_finds_a_job_and_a_slot(stage: Stage, page: Page) -> None:
    page.goto(stage.url)
    page.locator("[data-find]").fill(stage.scene.failed.key)
    page.locator("[data-find]").press("Enter")
    expect(page).to_have_url(f"{stage.url}/runs/{stage.scene.failed.key}")


def test_without_scripts_everything_is_still_there(stage: Stage, browser: Browser) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        for way in ("/", "/jobs", f"/runs/{stage.scene.failed.key}", "/holders"):
            page.goto(f"{stage.url}{way}")
            expect(page.locator("main h1")).to_be_visible()
        page.goto(f"{stage.url}/timeline?span=1h")
        expect(page.locator("svg.timeline .handover")).to_have_count(1)
        page.get_by_role("link", name="6h").click()
        expect(page).to_have_url(re.compile("span=6h"))
        page.goto(f"{stage.acting}/jobs/billing/pause")
        page.get_by_role("link", name="log in").first.click()
        page.get_by_label(re.compile("token", re.I)).fill(TOKEN)
        page.get_by_label(re.compile("your name", re.I)).fill("ben")
        page.get_by_role("button", name=re.compile("log in", re.I)).click()
        expect(page.get_by_role("button", name=re.compile("pause", re.I))).to_be_visible()


def test_a_store_that_goes_away_is_told_and_so_is_that_it_is_back(page: Page, eye: Eye) -> None:
    eye.expects = "503"
    with Valkey() as valkey, Served(f"{valkey.url}?timeout=1") as served:
        page.goto(f"{served.url}/jobs")
        ready(page)
        valkey.pause()
        expect(page.locator(".live")).to_have_attribute("data-state", "away")
        expect(page.locator(".live")).to_be_visible()
        valkey.resume()
        expect(page.locator(".live")).to_have_attribute("data-state", "on")


def test_an_on_call_screen_shows_the_incident_the_schedulers_and_the_timeline_and_a_phone_the_alerts(
    stage: Stage, page: Page
) -> None:
    """The badge of the alerts was off-screen; and the timeline far below."""
    page.goto(stage.url)
    for what in ("details.incident[open]", "section.schedulers", "section[aria-labelledby=hour]"):
        expect(page.locator(what).first).to_be_visible()
        box = _box(page, what)
        assert box["y"] + box["height"] <= 900, (what, box)
    page.locator("details.incident[open] a", has_text="details").click()
    expect(page.locator("main h1")).to_contain_text("is gone")
    page.set_viewport_size({"width": PHONE, "height": 740})
    page.goto(f"{stage.url}/holders")
    badge = _box(page, "[data-alerts]")
    assert 0 <= badge["x"] <= PHONE - badge["width"]


def _box(page: Page, what: str) -> dict[str, float]:
    """Looked up and measured in one step: the page may put a newer one in its place between two."""
    box: dict[str, float] = page.evaluate("what => document.querySelector(what).getBoundingClientRect().toJSON()", what)
    return box
