"""Who may look and who may act: the token, sessions, foreign sites, names, and what nobody sends who means well."""

from datetime import timedelta

import pytest

from cronce.errors import BadInput
from cronce.web.app import application
from cronce.web.gate import is_local_path
from cronce.web.security import SESSION_LASTS, TOKEN_TRIES, TRIES_WITHIN, PageTokens, WrongTokens, same_word
from tests.web.house import API_PAUSE, BEARER, PAUSE, TOKEN, Api, Browser, Busy, paused

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
    assert 0 < int(late.headers["Retry-After"]) <= TRIES_WITHIN
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
    assert guesses.wait("a", 10.0) == TRIES_WITHIN - 10.0
    assert guesses.wait("a", TRIES_WITHIN) == 0.0
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
