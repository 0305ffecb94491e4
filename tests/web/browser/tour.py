"""Every page, visited once: wide and narrow, light and dark. What several tests ask about is noted on the way."""

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped]
from playwright.sync_api import Browser, Page, expect

from tests.web.browser.eye import Eye

PHONE: Final = 360
_ALL: Final[dict[str, Any]] = {"resultTypes": ["violations"]}
_COLOURS: Final = {**_ALL, "runOnly": ["color-contrast", "link-in-text-block"]}
_GRAVE: Final = """async (options) => (await axe.run(options)).violations
  .filter((one) => ["serious", "critical"].includes(one.impact))
  .flatMap((one) => one.nodes.map((node) => `${one.id}: ${node.html.slice(0, 160)}`))"""
_STRANGE: Final = "document.querySelectorAll('main script, main img, main [onerror], [style]').length"
_BACKGROUND: Final = "getComputedStyle(document.body).backgroundColor"


class Visit(NamedTuple):
    status: int
    said: tuple[str, ...]
    """Errors, calls to strangers, breaches of the policy."""
    strange: int
    """Elements that only what strangers wrote could have made."""
    width: int
    """Of the document on a phone."""
    light: tuple[str, ...]
    dark: tuple[str, ...]
    """What axe finds serious or critical: all rules in the light, in the dark those about colours."""


def tour(browser: Browser, ways: Iterable[str]) -> dict[str, Visit]:
    with browser.new_context() as context:
        eye, page = Eye(context), context.new_page()
        page.add_init_script(AXE_SCRIPT)  # it is half a megabyte, and sent once
        page.on("dialog", lambda dialog: eye.seen.append(f"asked: {dialog.message}"))
        return {way: _visit(page, eye, way) for way in ways}


def _visit(page: Page, eye: Eye, way: str) -> Visit:
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(color_scheme="light")
    answer = page.goto(way)
    assert answer is not None
    light = page.evaluate(_GRAVE, _ALL)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(_GRAVE, _COLOURS)
    strange = page.evaluate(_STRANGE)
    page.set_viewport_size({"width": PHONE, "height": 740})
    width = page.evaluate("document.documentElement.scrollWidth")
    said, eye.seen = tuple(eye.seen), []
    return Visit(answer.status, said, strange, width, tuple(light), tuple(dark))


def ready(page: Page) -> None:
    """Its scripts have run, and it hears of news."""
    expect(page.locator(".live")).to_have_attribute("data-state", "on")


def brightness(page: Page) -> float:
    """Of its ground, from 0 to 255."""
    return sum(map(int, re.findall(r"\d+", page.evaluate(_BACKGROUND))[:3])) / 3
