"""Who may read the page, and who may act: a token, and sessions of browsers.

*Two secrets.* The token lets one act; the other one, if there is one, only read. A program sends it with each call; a
browser once, at /login, and then has a cookie that says who logged in and until when, signed with a key made from the
token. So all processes behind one address agree, and a new token ends all sessions of the old one. All that is kept
here is which sessions were logged out of.

*Another site must not act through a browser that is logged in.* The cookie is not sent along from there (SameSite),
each form carries a word that only this session's pages have, and what the browser says about where a request comes from
has to be right. In a browser without a flaw each of the three would be enough.

*A foreign name that resolves to this machine* (DNS rebinding) would make a foreign site ours in the eyes of a browser:
on loopback only our own names are answered to.
"""

import hashlib
import hmac
import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Collection, Iterable
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final

from cronce.errors import BadInput
from cronce.model import Boot, Instant, to_us
from cronce.value import NamedTuple

COOKIE: Final = "cronce_session"
SESSION_LASTS: Final = timedelta(hours=12)
"""A session; then one logs in again."""

SHORTEST_TOKEN: Final = 32


class BrowserSession(NamedTuple):
    """A person or program with a token: the name, the word that their forms carry (a program has none), and whether
    they may act, or only read."""

    by: str
    word: str = ""
    acts: bool = True

    @property
    def told(self) -> bytes:
        """The use of what is sealed to be told to them."""
        return b"came:" + self.word.encode()


def check_token(token: str, where: str) -> str:
    """`where` it was found, for who has to mend it there; it is not said itself."""
    if len(token) >= SHORTEST_TOKEN and token.isascii() and token.isprintable() and " " not in token:
        return token
    wrong = "is empty" if not token else "is too short" if len(token) < SHORTEST_TOKEN else "has other characters"
    raise BadInput(
        f"{where} {wrong}: a token is {SHORTEST_TOKEN} or more letters, digits and signs, without spaces; make one with"
        " `python3 -c 'import secrets; print(secrets.token_urlsafe(32))'`"
    )


class PageTokens:
    """A token, and the sessions that were opened with it: to act or, if it does not `act`, to read."""

    def __init__(self, token: str, *, acts: bool = True) -> None:
        self._acts = acts
        self._token = check_token(token, "token=").encode()
        self._key = hmac.digest(self._token, b"cronce: sessions of the page", "sha256")
        self._ended: dict[bytes, int] = {}
        """Sessions that were logged out of, and when they would have ended by themselves."""

    def opens(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(errors="replace"), self._token)

    def cookie(self, by: str, now: Instant) -> str:
        """What a browser is given that logged in."""
        said = json.dumps([by, to_us(now + SESSION_LASTS), secrets.token_urlsafe(12)]).encode()
        return self.seal(b"session", said)

    def session(self, cookie: str, now: Instant) -> BrowserSession | None:
        """Whose cookie this is; None: it is not valid, or its session is over."""
        text = self.unseal(b"session", cookie)
        if text is None or text in self._ended:
            return None
        by, until, _ = json.loads(text)
        return BrowserSession(by, _text(self._sign(b"form", text)), self._acts) if to_us(now) < until else None

    def end(self, cookie: str, now: Instant) -> None:
        """End this session, also for a copy of its cookie. Only this process knows of it."""
        text = self.unseal(b"session", cookie)
        self._ended = {one: until for one, until in self._ended.items() if until > to_us(now)}
        if text is not None:
            self._ended[text] = json.loads(text)[1]

    def seal(self, use: bytes, said: bytes) -> str:
        """Something for a browser to keep, so that it can be known again as ours."""
        return f"{_text(said)}.{_text(self._sign(use, said))}"

    def unseal(self, use: bytes, sealed: str) -> bytes | None:
        said, _, sign = sealed.partition(".")
        try:
            text = _bytes(said)
            return text if secrets.compare_digest(_bytes(sign), self._sign(use, text)) else None
        except ValueError:
            return None

    def _sign(self, use: bytes, said: bytes) -> bytes:
        return hmac.digest(self._key, use + b":" + said, hashlib.sha256)


def same_word(session: BrowserSession, given: str) -> bool:
    """Whether a form comes from a page of this session."""
    return bool(session.word) and secrets.compare_digest(given.encode(errors="replace"), session.word.encode())


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))


# --- which address a request comes from -------------------------------------------------------------------------------

Network = IPv4Network | IPv6Network


def read_proxies(texts: Iterable[str], option: str) -> tuple[Network, ...]:
    """The proxies that are believed, each an address or a network."""
    try:
        return tuple(ip_network(text, strict=False) for text in texts)
    except ValueError as error:
        raise BadInput(f"{option} must be an address or a network, such as 10.0.0.0/8: {error}") from None


def address_of(peer: str, forwarded: str, proxies: Collection[Network]) -> str:
    """Who asks: the last in X-Forwarded-For that is no proxy of ours, if a proxy of ours says so; else the peer."""
    for one in (peer, *(part.strip() for part in reversed(forwarded.split(",")) if part.strip())):
        if not _is_proxy(one, proxies):
            return one
    return peer


def _is_proxy(address: str, proxies: Collection[Network]) -> bool:
    try:
        found = ip_address(address)
    except ValueError:
        return False
    return any(found in network for network in proxies)


# --- guessing ---------------------------------------------------------------------------------------------------------

TOKEN_TRIES: Final = 10
TRIES_WITHIN: Final = 60.0
"""So many wrong tokens from one address in so many seconds."""

CLIENTS_REMEMBERED: Final = 1_000


class WrongTokens:
    """Wrong tokens of late, by the address that they came from. The right one always passes: many people share the
    address of a proxy, and 32 characters are not guessed."""

    def __init__(self) -> None:
        self._wrong: OrderedDict[str, list[Boot]] = OrderedDict()

    def wait(self, address: str, now: Boot) -> float:
        """Seconds until that address may try again."""
        recent = [at for at in self._wrong.get(address, []) if now - at < TRIES_WITHIN]
        return 0.0 if len(recent) < TOKEN_TRIES else TRIES_WITHIN - (now - recent[-TOKEN_TRIES])

    def wrong(self, address: str, now: Boot) -> None:
        self._wrong[address] = [*self._wrong.pop(address, [])[1 - TOKEN_TRIES :], now]
        while len(self._wrong) > CLIENTS_REMEMBERED:
            self._wrong.popitem(last=False)
