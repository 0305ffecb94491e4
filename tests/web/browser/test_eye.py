"""The eye that all tests of pages rest on: it sees each thing that a page must not do."""

import pytest
from playwright.sync_api import BrowserContext, Route

from tests.house.wait import wait_until
from tests.web.browser.eye import Eye

pytestmark = pytest.mark.xdist_group("browser")

PAGE = """<!doctype html><title>bad</title>
<script src="/bad.js"></script>
<script>document.title = "inline"</script>
<img src="http://example.org/pixel">"""
BAD = 'console.error("said"); setTimeout(() => { throw new Error("thrown"); });'


def test_errors_strangers_and_breaches_are_seen(context: BrowserContext) -> None:
    """No stranger is asked here, either: every request is answered by the test."""
    eye = Eye(context)
    context.route("**/*", _answer)
    page = context.new_page()
    page.goto("http://127.0.0.1:9/")
    wanted = (
        "error: said",
        "uncaught: thrown",
        "asked a stranger: http://example.org/pixel",
        "policy: script-src-elem",
    )
    wait_until(lambda: page.title() and all(any(word in seen for seen in eye.seen) for word in wanted))


def _answer(route: Route) -> None:
    headers = {"Content-Security-Policy": "script-src 'self'"}
    body, kind = (BAD, "text/javascript") if route.request.url.endswith(".js") else (PAGE, "text/html")
    route.fulfill(body=body, content_type=kind, headers=headers)
