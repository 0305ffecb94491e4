"""What stands before every page: other sites, names that are not ours, who may look, and the headers of all answers."""

from html import escape
from urllib.parse import parse_qs, urlsplit

import pytest

from cronce import __version__
from cronce.errors import BadInput
from cronce.web.gate import HEADERS, from_elsewhere, host_of, strange_host
from tests.web.house import API_PAUSE, BEARER, PAUSE, TOKEN, Api, Browser, Busy, paused


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "http://localhost.evil.example"},
        {"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "http://localhost:9999"},
    ],
)
def test_another_site_cannot_act_through_a_browser_that_is_logged_in(busy: Busy, headers: dict[str, str]) -> None:
    visitor = Browser(busy.app)
    visitor.log_in()
    form = {"csrf": visitor.csrf(PAUSE)}
    assert visitor.post(PAUSE, form, headers=headers).status_code == 403
    assert visitor.post("/logout", form, headers=headers).status_code == 403
    assert Browser(busy.app).post("/login", {"by": "eve", "token": TOKEN}, headers=headers).status_code == 403
    assert not paused(busy)


def test_what_browsers_say_of_our_own_forms_is_right() -> None:
    ours = {"host": "localhost:8080"}
    assert from_elsewhere(ours, ()) == ""
    assert from_elsewhere({**ours, "origin": "http://localhost:8080", "sec-fetch-site": "same-origin"}, ()) == ""
    assert from_elsewhere({**ours, "origin": "http://localhost:8080"}, ()) == ""
    assert from_elsewhere({**ours, "origin": "https://cron.example"}, ["cron.example"]) == ""
    assert from_elsewhere({"origin": "http://"}, ()) != ""


@pytest.mark.parametrize("word", [None, "", "wrong", "é"])
def test_a_form_without_the_word_of_its_session_does_nothing(busy: Busy, word: str | None) -> None:
    visitor = Browser(busy.app)
    visitor.log_in()
    assert visitor.post(PAUSE, {"reason": "x"} if word is None else {"csrf": word}).status_code == 403
    assert not paused(busy)


def test_the_word_of_another_session_does_nothing_either(busy: Busy) -> None:
    ada, eve = Browser(busy.app), Browser(busy.app)
    ada.log_in()
    eve.log_in("eve")
    assert ada.post(PAUSE, {"csrf": eve.csrf(PAUSE)}).status_code == 403
    assert not paused(busy)


def test_a_session_is_no_token_for_the_api(busy: Busy) -> None:
    """It would come along with a request that another site made."""
    visitor = Browser(busy.app)
    visitor.log_in()
    assert visitor.send("POST", API_PAUSE, json={}).status_code == 401
    assert not paused(busy)


def test_a_private_page_shows_nothing_without_the_token() -> None:
    busy = Busy(private=True)
    nobody, program = Browser(busy.app), Api(busy.app, {})
    paths = {urlsplit(str(route.path)).path for route in busy.app.routes if "{" not in str(route.path)}  # type: ignore[attr-defined]
    seen = {path for path in paths if nobody.get(path).status_code == 200}
    assert seen == {"/healthz", "/readyz", "/login"}
    assert nobody.get("/static/style.css").status_code == 200
    assert nobody.get("/jobs/billing").headers["Location"] == "/login?next=%2Fjobs%2Fbilling"
    assert {program.get(path).status_code for path in ("/api/v1/jobs", "/live", "/metrics", "/api/v1/nix")} == {401}
    assert program.get("/api/v1/jobs", BEARER).status_code == 200
    nobody.log_in()
    assert nobody.get("/jobs/billing").status_code == 200
    assert nobody.get("/api/v1/jobs").status_code == 200


def test_logging_in_leads_back_to_all_that_was_asked_for() -> None:
    """Also to what comes after the path, and to a slot whose name has a sign of its own."""
    private, shown = Browser(Busy(private=True).app), Browser(Busy().app)
    for path in ("/timeline?span=6h&job=a", "/runs/a@2026-03-29T01:00:00Z%23rerun-1?x=%C3%A9"):
        login = private.get(path).headers["Location"]
        after = parse_qs(urlsplit(login).query)["next"][0]
        assert after == path
        assert Browser(private.app).log_in(next=after).headers["Location"] == path
    assert "/login?next=%2Fruns%3Fstate%3Dlost" in shown.get("/runs?state=lost").text
    assert private.get("/runs?state=" + "é" * 200).headers["Location"] == "/login?next=%2Fruns"


def test_a_private_page_tells_strangers_neither_its_store_nor_its_version() -> None:
    busy = Busy(private=True, names=[])
    stranger = Browser(busy.app, base="http://evil.example")
    pages = [stranger.get("/"), Browser(busy.app).get("/login"), Browser(busy.app).get("/" + "a" * 3_000)]
    assert [page.status_code for page in pages] == [421, 200, 414]
    place = escape(busy.cron.place)
    for page in pages:
        assert (place in page.text, __version__ in page.text) == (False, False)
    member = Browser(busy.app)
    member.log_in()
    assert place in member.get("/").text


def test_private_without_a_token_makes_no_sense() -> None:
    with pytest.raises(BadInput, match="needs a token"):
        Busy(token=None, private=True)


@pytest.mark.parametrize(
    ("host", "fits"),
    [
        ("localhost:8080", True),
        ("127.0.0.1", True),
        ("[::1]:8080", True),
        ("LOCALHOST", True),
        ("cron.example.:8080", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("", False),
        ("[::1", False),
        ("user@localhost", False),
        ("localhost:80:80", False),
    ],
)
def test_a_page_on_loopback_answers_to_its_own_names_alone(host: str, fits: bool) -> None:
    """Else a name of somebody else's that leads here would be this site in the eyes of a browser."""
    assert strange_host(host, ["Cron.Example"]) is not fits
    assert not strange_host(host, None)


def test_another_name_is_refused() -> None:
    busy = Busy(names=["cron.example"])
    assert Browser(busy.app, base="http://evil.example").get("/").status_code == 421
    assert Browser(busy.app, base="http://cron.example:8080").get("/healthz").status_code == 200
    assert host_of("a:b:c") == ""


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/nix", 404),
        ("/api/v1/jobs", 200),
        ("/api/v1/nix", 404),
        ("/static/style.css", 200),
        ("/login", 200),
        ("/healthz", 200),
        ("/jobs/billing/pause", 200),
        ("/api/v1/runs?limit=x", 400),
        ("/" + "a" * 3000, 414),
    ],
)
def test_every_answer_has_the_headers(visitor: Browser, path: str, status: int) -> None:
    answer = visitor.get(path)
    assert answer.status_code == status
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    assert "server" not in answer.headers


def test_the_policy_allows_nothing_inline_and_nothing_from_elsewhere(visitor: Browser) -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "*" not in policy
    text = visitor.get("/").text
    assert "<script>" not in text
    assert " style=" not in text
    assert " on" not in {word[:3] for word in text.split("<") if word.startswith(" on")}


@pytest.mark.parametrize(
    "path",
    [
        "/jobs/../../etc/passwd",
        "/static/..%2f..%2f__init__.py",
        "/static/%2e%2e/app.py",
        "/static/../app.py",
        "/jobs/a%2fb",
        "/runs/billing%2F..%2F@2026-03-29T01:00:00Z",
        "/jobs/%00",
        "/jobs/a%0d%0aSet-Cookie:x=y",
        "/jobs/%5c%5cevil",
        "/jobs/%ff%fe",
        "/jobs/%e2%80%ae",
        "/jobs/",
        "/jobs/" + "a" * 200,
        "/runs/" + "9" * 500,
        "/runs/billing@99999-01-01T00:00:00Z",
        "/runs/billing@",
        "/runs/@",
        "/api/v1/jobs/%00",
        "/api/v1/jobs/..",
        "/api/v1/runs/billing@2026-03-29T01:00:00Z%23%00",
        "/api/v1/why/%F0%9F%92%A9",
        "/api/v1/effects/a/resolve",
    ],
)
def test_tricks_with_paths_lead_nowhere(visitor: Browser, path: str) -> None:
    answer = visitor.get(path)
    assert answer.status_code in (400, 404, 405), answer.status_code
    assert "location" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"Cookie": "cronce_session=" + "a" * 4000},
        {"Cookie": "cronce_session=\x01; cronce_session=.."},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer " + "a" * 4000},
        {"X-Fragment": "1", "Accept": "*/*"},
        {"Accept": "\x7f"},
        {"X-Forwarded-Host": "evil.example", "X-Forwarded-For": "127.0.0.1", "X-Original-URL": "/logout"},
        {"X-HTTP-Method-Override": "POST"},
        {"Range": "bytes=0-1"},
    ],
)
def test_tricks_with_headers_break_nothing(headers: dict[str, str]) -> None:
    busy = Busy()
    answer = Browser(busy.app).get("/jobs/billing", headers)
    assert answer.status_code in (200, 401)
    assert "evil.example" not in answer.text


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_a_post_acts(method: str) -> None:
    busy = Busy()
    visitor = Browser(busy.app)
    visitor.log_in()
    word = visitor.csrf(PAUSE)
    visitor.send(method, f"{PAUSE}?csrf={word}&reason=x")
    visitor.send(method, f"{PAUSE}?_method=POST", data={"csrf": word})
    assert visitor.send(method, API_PAUSE, headers=BEARER).status_code == 405
    assert not paused(busy)
