"""/timeline: what may be asked of it, what it says, and that its links lead to the same again."""

import re
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import parse_qsl, urlsplit

import pytest
from starlette.testclient import TestClient

from cronce import Cronce
from cronce.errors import BadInput
from cronce.web.app import application
from cronce.web.timeline import LONGEST_SPAN, SHORTEST_SPAN, TIMELINE_SPANS, TimelineView, read_view, young
from cronce.web.timeline_layout import gather
from tests.web.pictures import NOW, ran
from tests.web.scene import HOSTILE, Scene, fill


@pytest.mark.parametrize(
    ("oldest", "title", "minutes"),
    [
        (60, "The last 10 minutes", 10),
        (9.5 * 60, "The last 10 minutes", 10),
        (9.5 * 60 + 1, "The last 20 minutes", 20),
        (47.5 * 60, "The last 50 minutes", 50),
        (47.5 * 60 + 1, "The last hour", 60),
        (7200, "The last hour", 60),
    ],
)
def test_a_small_picture_begins_where_there_is_something_to_see(oldest: float, title: str, minutes: int) -> None:
    start, end = TimelineView(length=TIMELINE_SPANS["1h"]).window(NOW)
    drawn, called = young(gather([ran("sync", oldest, ended=0), ran("sync", 30)], [], start, end, NOW))
    assert (called, drawn.end - drawn.start) == (title, timedelta(minutes=minutes))
    assert len(drawn.pieces) == 2


# --- what is asked --------------------------------------------------------------------------------------------------


def asked(query: str) -> TimelineView:
    return read_view(dict(parse_qsl(query)))


def test_without_a_word_it_is_the_last_ten_minutes_and_goes_on_with_now() -> None:
    view = asked("")
    start, end = view.window(NOW)
    assert (view.job, view.start, end - start) == (None, None, timedelta(minutes=10))
    assert start < NOW < end  # there is room for the leases of what runs


@pytest.mark.parametrize(
    "query",
    [
        "span=6h",
        "span=1w&job=billing",
        "from=2026-03-29T00%3A00%3A00Z&to=2026-03-29T06%3A00%3A00Z&job=billing",
        "from=2026-03-29T00%3A00%3A00Z&to=2026-03-29T00%3A00%3A10Z",
    ],
)
def test_a_view_is_what_its_link_says(query: str) -> None:
    view = asked(query)
    assert asked(urlsplit(view.way("")).query) == view


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("span=2h", "10m, 1h, 6h, 1d, 1w"),
        ("job=a b", "cannot be a name"),
        ("from=2026-03-29T00:00:00Z", "needs both of its ends"),
        ("to=2026-03-29T00:00:00Z", "needs both of its ends"),
        ("from=yesterday&to=today", "yesterday"),
        ("from=2026-03-29T00:00:00&to=2026-03-29T01:00:00", "has no time zone"),
        ("from=2026-03-29T00:00:00Z&to=2026-03-29T00:00:09Z", "from 10 s to 92 days"),
        ("from=2026-03-29T02:00:00Z&to=2026-03-29T01:00:00Z", "from 10 s to 92 days"),
        ("from=1970-01-01T00:00:00Z&to=2199-12-31T00:00:00Z", "from 10 s to 92 days"),
        ("from=0001-01-01T00:00:00Z&to=0001-01-01T01:00:00Z", "after 1970"),
        ("from=9999-12-31T00:00:00Z&to=9999-12-31T23:59:59Z", "after 1970"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(query: str, said: str) -> None:
    with pytest.raises(BadInput, match=re.escape(said)):
        asked(query)


def test_another_span_of_the_same_stays_within_what_can_be_shown() -> None:
    view = asked("job=billing")
    second = timedelta(seconds=1)
    assert view.between(NOW, NOW + second).length == SHORTEST_SPAN
    assert view.between(NOW, NOW + 400 * 86_400 * second).length == LONGEST_SPAN
    middle = view.between(NOW - 5 * second, NOW + 6 * second)
    assert (middle.start, middle.length, middle.job) == (NOW - 5 * second, 11 * second, "billing")


# --- what is said ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, Scene]]:
    url = f"sqlite:///{tmp_path_factory.mktemp('timeline') / 'cronce.db'}"
    with Cronce(url) as cron:
        scene = fill(cron.at_work().node.store)
    with TestClient(application(url, private=False), "http://127.0.0.1") as client:
        yield client, scene


def ask(client: TestClient, way: str, status: int = 200) -> str:
    answer = client.get(way, headers={"Accept": "text/html"})
    assert answer.status_code == status, answer.text
    return answer.text


def test_a_takeover_and_a_refused_duplicate_are_on_it_and_in_its_table(shown: tuple[TestClient, Scene]) -> None:
    client, scene = shown
    text = ask(client, "/timeline?span=1h&job=order-sync")
    assert text.count('class="handover"') == 1
    assert text.count('class="ghost refused"') == 4 + 1  # and one in the legend
    assert f'href="/runs/{scene.taken_over.key}"' in text
    table = text.partition("the same as a table")[2]
    assert re.findall(r'data-th="what">(\w[\w ]*)<', table).count("refused") == 4
    assert "1 taken over" in text


def test_every_link_on_it_is_a_view_again(shown: tuple[TestClient, Scene]) -> None:
    client, _ = shown
    for way in (
        "/timeline?span=1h&job=order-sync",
        "/timeline?from=2026-03-29T00:00:00Z&to=2026-03-29T02:00:00Z",
    ):
        links = {urlsplit(found) for found in re.findall(r'href="(/timeline\?[^"]+)"', ask(client, way))}
        views = [asked(link.query.replace("&amp;", "&")) for link in links]
        assert {view.job for view in views} == ({"order-sync"} if "job=" in way else {None})
        assert {*TIMELINE_SPANS.values()} <= {view.length for view in views}


def test_a_span_in_which_nothing_ran_says_what_to_do(shown: tuple[TestClient, Scene]) -> None:
    client, _ = shown
    text = ask(client, "/timeline?from=2020-01-01T00:00:00Z&to=2020-01-01T01:00:00Z")
    assert "Nothing ran" in text
    assert "Look at a wider span" in text


def test_what_strangers_wrote_is_escaped_in_the_picture_and_in_the_table(shown: tuple[TestClient, Scene]) -> None:
    client, _ = shown
    text = ask(client, "/timeline?span=1h")
    assert HOSTILE not in text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


def test_nonsense_is_refused_with_its_reason_on_a_page(shown: tuple[TestClient, Scene]) -> None:
    client, _ = shown
    assert "10m, 1h, 6h, 1d, 1w" in ask(client, "/timeline?span=%3Cscript%3E", 400)


def test_a_fragment_is_the_picture_without_the_frame(shown: tuple[TestClient, Scene]) -> None:
    client, _ = shown
    text = client.get("/timeline?span=1h", headers={"X-Fragment": "1", "Accept": "text/html"}).text
    assert "<svg" in text
    assert "<html" not in text
