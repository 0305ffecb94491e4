"""Who may look and who may act: the token, sessions, foreign sites, names, and what nobody sends who means well."""

from datetime import timedelta
from html import escape
from urllib.parse import parse_qs, urlsplit

import pytest

from cronce import __version__
from cronce.errors import BadInput
from cronce.web.app import application
from cronce.web.gate import HEADERS, from_elsewhere, host_of, is_local_path, strange_host
from cronce.web.security import PER, SESSION_LASTS, TOKEN_TRIES, PageTokens, WrongTokens, same_word
from tests.web.house import BEARER, TOKEN, Api, Browser, Busy

PAUSE = "/jobs/billing/pause"
API_PAUSE = "/api/v1/jobs/billing/pause"


def paused(busy: Busy) -> bool:
    return bool(Api(busy.app, {}).ask("/jobs/billing")["paused"])


# --- without a token it only shows ------------------------------------------------------------------------------------


def test_without_a_token_the_page_only_shows() -> None:
    busy = Busy(token=None)
    visitor, program = Browser(busy.app), Api(busy.app, {})
    assert visitor.get("/jobs/billing").status_code == 200
    assert "cronce pause billing" in visitor.get(PAUSE).text
    assert visitor.post(PAUSE, {"reason": "x"}).status_code == 401
    assert visitor.get("/login").status_code == 404
    assert visitor.log_in().status_code == 404
    assert program.act("/jobs/billing/pause").status_code == 403
    assert program.send("POST", API_PAUSE, headers=BEARER).status_code == 403
    assert not paused(busy)


def test_a_program_acts_with_the_token_and_not_without(busy: Busy) -> None:
    assert Api(busy.app, {}).act("/jobs/billing/pause").status_code == 401
    refused = Api(busy.app, {"Authorization": "Basic YWRhOmFkYQ=="}).act("/jobs/billing/pause")
    assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert not paused(busy)


@pytest.mark.parametrize("token", ["", "x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "ünïcödé".encode(), "a b"])
def test_a_wrong_token_is_refused_wherever_it_is_sent(token: str | bytes) -> None:
    busy = Busy()
    words = token.encode() if isinstance(token, str) else token
    program = Api(busy.app, {})
    for path in ("/api/v1/jobs", "/"):
        assert program.get(path, {"Authorization": b"Bearer " + words}).status_code == 401  # type: ignore[dict-item]
    assert Browser(busy.app).log_in(token=words.decode("latin-1")).status_code == 401


def test_whoever_guesses_is_made_to_wait_and_others_are_not() -> None:
    busy = Busy()
    visitor = Browser(busy.app)
    for _ in range(TOKEN_TRIES):
        assert visitor.log_in(token="wrong").status_code == 401
    late = visitor.log_in(token="wrong")
    assert late.status_code == 429
    assert 0 < int(late.headers["Retry-After"]) <= PER
    assert Browser(busy.app, address="198.51.100.4").log_in(token="wrong").status_code == 401


def test_the_right_token_always_passes() -> None:
    """Ten wrong ones a minute locked everybody out behind a proxy, with the right token too."""
    busy = Busy()
    visitor = Browser(busy.app)
    for _ in range(TOKEN_TRIES + 1):
        visitor.log_in(token="wrong")
    assert visitor.log_in().status_code == 303
    assert Api(busy.app).act("/jobs/billing/pause").status_code == 200


def test_behind_a_trusted_proxy_whoever_guesses_is_told_from_others_and_elsewhere_the_header_is_a_claim() -> None:
    proxied = Busy(trusted_proxies=["203.0.113.0/24"])
    wrong = {"by": "ada", "token": "wrong"}
    for app, others in ((proxied.app, 401), (Busy().app, 429)):
        for _ in range(TOKEN_TRIES):
            Browser(app).post("/login", wrong, headers={"X-Forwarded-For": "198.51.100.4"})
        answers = [
            Browser(app).post("/login", wrong, headers={"X-Forwarded-For": said}).status_code
            for said in ("198.51.100.4", "8.8.8.8, 198.51.100.4", "198.51.100.4, 198.51.100.5")
        ]
        assert answers == [429, 429, others]


def test_a_proxy_is_an_address_or_a_network() -> None:
    with pytest.raises(BadInput, match=r"10\.0\.0\.0/8"):
        Busy(trusted_proxies=["the-proxy"])


# --- who may only look ------------------------------------------------------------------------------------------------

LOOK = "a-token-that-only-looks-at-what-is"


def test_the_second_token_shows_and_does_nothing() -> None:
    busy = Busy(private=True, look_token=LOOK)
    visitor, program = Browser(busy.app), Api(busy.app, {"Authorization": f"Bearer {LOOK}"})
    assert visitor.get("/jobs").status_code == 303
    assert visitor.log_in(token=LOOK).status_code == 303
    shown = visitor.get("/jobs/billing")
    assert (shown.status_code, "you may read" in shown.text) == (200, True)
    assert "Log in to do it" in visitor.get(PAUSE).text
    refused = visitor.post(PAUSE, {"csrf": visitor.csrf("/login")})
    assert refused.status_code == 403
    assert program.ask("/jobs")["total"] > 0
    assert program.act("/jobs/billing/pause").status_code == 403
    assert program.ask("/jobs/billing")["pause"] is None
    assert visitor.post("/logout", {"csrf": visitor.csrf("/login")}).status_code == 303
    assert visitor.get("/jobs").status_code == 303
    with pytest.raises(BadInput, match="are the same"):
        Busy(look_token=TOKEN)


def test_a_mounted_page_is_private_unless_somebody_says_otherwise() -> None:
    cron = Busy().cron
    with pytest.raises(BadInput, match="private=False"):
        application(cron)
    assert Browser(application(cron, token=TOKEN)).get("/jobs").status_code == 303
    assert Browser(application(cron, private=False)).get("/jobs").status_code == 200


def test_guesses_are_forgotten_in_time_and_never_too_many() -> None:
    guesses = WrongTokens()
    for second in range(TOKEN_TRIES):
        guesses.wrong("a", float(second))
    assert guesses.wait("a", 10.0) == PER - 10.0
    assert guesses.wait("a", PER) == 0.0
    for number in range(5_000):
        guesses.wrong(f"10.0.{number}", 100.0)
    assert len(guesses._wrong) == 1_000


def test_a_token_is_long_and_has_no_spaces() -> None:
    for token in ("", "short", "a" * 31, "with a space in it at all", "ünïcödé-ünïcödé-ünïcödé", "a\nb" * 10):
        with pytest.raises(BadInput, match="32 or more"):
            PageTokens(token)


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_logging_in_gives_a_cookie_that_scripts_and_other_sites_do_not_get(busy: Busy) -> None:
    answer = Browser(busy.app).log_in(next="/jobs/billing")
    cookie = answer.headers["Set-Cookie"]
    assert (answer.status_code, answer.headers["Location"]) == (303, "/jobs/billing")
    assert {"HttpOnly", "SameSite=strict", "Path=/", "Max-Age=43200"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert TOKEN not in cookie


def test_over_https_the_cookie_stays_there(busy: Busy) -> None:
    assert "Secure" in Browser(busy.app, base="https://localhost").log_in().headers["Set-Cookie"]
    behind = Browser(busy.app).post("/login", {"by": "ada", "token": TOKEN}, headers={"X-Forwarded-Proto": "https"})
    assert "Secure" in behind.headers["Set-Cookie"]


@pytest.mark.parametrize(
    "elsewhere", ["https://evil.example/", "//evil.example", "/\\evil.example", "evil", "javascript:alert(1)", "/a\nb"]
)
def test_logging_in_leads_to_no_other_site(busy: Busy, elsewhere: str) -> None:
    assert Browser(busy.app).log_in(next=elsewhere).headers["Location"] == "/"
    assert not is_local_path(elsewhere)


@pytest.mark.parametrize("name", ["", "   ", "a" * 61, "a\x00b", "two\nlines", "\u202eada"])
def test_who_logs_in_says_who_they_are(busy: Busy, name: str) -> None:
    visitor = Browser(busy.app)
    assert visitor.log_in(by=name).status_code == 422
    assert not visitor.cookies


def test_a_session_ends_and_cannot_be_forged() -> None:
    keys, other = PageTokens(TOKEN), PageTokens(TOKEN + "2")
    now = Busy().scene.now
    cookie = keys.cookie("ada", now)
    session = keys.session(cookie, now)
    assert session is not None
    assert session.by == "ada"
    assert keys.session(cookie, now + SESSION_LASTS) is None
    assert keys.session(cookie, now + SESSION_LASTS - timedelta(seconds=1)) is not None
    assert other.session(cookie, now) is None  # another token ends all sessions
    said, _, sign = cookie.partition(".")
    forged = PageTokens("an-attackers-own-token-of-32-signs").cookie("root", now)
    for wrong in (
        f"{forged.partition('.')[0]}.{sign}",
        f"{said}.{forged.partition('.')[2]}",
        f"{said}.",
        said,
        "",
        ".",
        "a.b",
        "é.é",
        f"{cookie}A",
        cookie.swapcase(),
    ):
        assert keys.session(wrong, now) is None, wrong


def test_the_word_of_a_session_is_its_own() -> None:
    keys, now = PageTokens(TOKEN), Busy().scene.now
    one, two = (keys.session(keys.cookie("ada", now), now) for _ in range(2))
    assert one is not None
    assert two is not None
    assert one.word != two.word
    assert (same_word(one, one.word), same_word(one, two.word), same_word(one, "")) == (True, False, False)


def test_a_forged_cookie_acts_for_nobody(busy: Busy) -> None:
    visitor = Browser(busy.app)
    visitor.cookies.set(
        "cronce_session", PageTokens("an-attackers-own-token-of-32-signs").cookie("root", busy.scene.now)
    )
    assert visitor.post(PAUSE, {"reason": "x", "csrf": "x"}).status_code == 401
    assert not paused(busy)


def test_logging_out_ends_it(busy: Busy) -> None:
    visitor = Browser(busy.app)
    visitor.log_in()
    word = visitor.csrf("/login")
    assert visitor.post("/logout", {"csrf": "wrong"}).status_code == 403
    assert visitor.get("/logout").status_code == 405
    copied, another = visitor.cookies["cronce_session"], Browser(busy.app)
    another.log_in("eve")
    assert visitor.post("/logout", {"csrf": word}).status_code == 303
    assert not visitor.cookies
    visitor.cookies.set("cronce_session", copied)
    assert visitor.post(PAUSE, {"csrf": word}).status_code == 401
    assert "you may act" in another.get("/").text


def test_sessions_that_were_logged_out_of_are_forgotten_when_they_would_have_ended() -> None:
    keys, now = PageTokens(TOKEN), Busy().scene.now
    for hours in range(30):
        keys.end(keys.cookie("ada", now + timedelta(hours=hours)), now + timedelta(hours=hours))
    keys.end("nonsense", now)
    assert len(keys._ended) == 12


# --- other sites ------------------------------------------------------------------------------------------------------


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


# --- beyond this machine ----------------------------------------------------------------------------------------------


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
    for path in ("/timeline?span=6h&by=job", "/runs/a@2026-03-29T01:00:00Z%23rerun-1?x=%C3%A9"):
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


# --- every answer -----------------------------------------------------------------------------------------------------


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


def test_bodies_have_bounds_and_a_form() -> None:
    busy = Busy()
    visitor, program = Browser(busy.app), Api(busy.app)
    visitor.log_in()
    word = visitor.csrf(PAUSE)
    assert visitor.post(PAUSE, {"csrf": word, "reason": "x" * 300_000}).status_code == 413
    assert visitor.send("POST", PAUSE, json={"csrf": word}).status_code == 415
    assert visitor.send("POST", PAUSE, files={"csrf": b"x"}).status_code == 415
    assert visitor.post(PAUSE, {f"f{number}": "x" for number in range(50)}).status_code == 400
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert visitor.send("POST", PAUSE, content=b"csrf=\xff", headers=form).status_code == 400
    assert visitor.send("POST", PAUSE, content=b"csrf=%ff", headers=form).status_code == 400
    as_json = {"Content-Type": "application/json"}
    for body, status in (
        (b"{", 400),
        (b"\xff", 400),
        (b"[]", 422),
        (b'{"reason": NaN}', 400),
        (b"[" * 100_000, 400),
        (b'{"reason": ' + b'"x' * 150_000, 413),
        (b'{"nix": 1}', 422),
        (b'{"reason": 1}', 422),
    ):
        answer = program.send("POST", API_PAUSE, content=body, headers=as_json)
        assert answer.status_code == status, (body[:20], answer.text)
    assert program.send("POST", API_PAUSE, content=b"reason=x", headers=form).status_code == 415
    assert not paused(busy)
