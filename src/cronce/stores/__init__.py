"""Where cells are kept. `open_store(url)` finds the backend by the scheme of the URL.

A backend is one file and one entry point in the group `cronce.stores`. Our own are found without asking for entry
points: reading those of all installed packages takes longer than the rest of a start under cron.
"""

import os
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final, cast

from cronce.errors import BadInput, StoreError

if TYPE_CHECKING:
    from cronce.stores.base import Opener, Store

ENTRY_POINTS: Final = "cronce.stores"
OWN_BACKENDS: Final = {
    "memory": "cronce.stores.memory",
    "sqlite": "cronce.stores.sqlite",
    **dict.fromkeys(("postgresql", "postgres"), "cronce.stores.postgres"),
    **dict.fromkeys(("redis", "rediss", "valkey", "valkeys"), "cronce.stores.redis"),
    **dict.fromkeys(("mysql", "mariadb"), "cronce.stores.mysql"),
    **dict.fromkeys(("etcd", "etcds"), "cronce.stores.etcd"),
    "kubernetes": "cronce.stores.kubernetes",
}

_USER_IN_URL: Final = r"(?s)(?<=://)([^:@/]*):.*@"
_HIDDEN: Final = r"(?i)([?&;][^=&;?]{0,60}(?:pass|pwd|token|secret|key|auth|cred|sig)[^=&;]{0,60}=)[^&;]*"
_IN_TEXT: Final = r"(?<![\w+.-])[\w+.-]+://[^\s'\"`]+"
_QUOTED: Final = r"(?<=://)([^\s:@/'\"`]*):[^\s/@]*@"
_WORD: Final = r"""(?i)(?<![^\W_])(pass\w*|pwd)=(?!\*\*\*)(?:'[^']*'|"[^"]*"|\S+)"""
_SAID: Final = (
    r"""(?i)((?:token|passw(?:or)?d|passphrase|pwd|secret(?:[_-][\w-]{0,40})?|api[_-]?key|authorization)"""
    r"""\\*["']?\s*[=:]\s*)(?:b?"(?:[^"\\]|\\.)*"|b?'(?:[^'\\]|\\.)*'"""
    r"""|digest\s[^\n]*|(?:(?:basic|bearer|token|negotiate|apikey)\s+)?(?!\*\*\*)\S+)"""
)
"""What programs write before a secret in their error messages."""


def open_store(url: str) -> "Store":
    """The store that a URL names: ``sqlite:///cronce.db``."""
    if not isinstance(url, str):
        raise BadInput(f"the store must be a URL such as sqlite:///cronce.db, not {url!r:.60}")
    if not url.strip():
        raise BadInput(
            "the URL of the store is empty; write one such as sqlite:///cronce.db, or leave it out for the default"
        )
    if ":" not in url:
        raise BadInput(f"{mask(url)!r} is not the URL of a store; for a file write sqlite:///{mask(url)}")
    _refuse_split(url)
    try:
        return _opener(url)(url)
    except StoreError as error:  # it says what a person has to do: our frames and the driver's would hide that
        raise error.with_traceback(None) from None


def _refuse_split(url: str) -> None:
    """Refuse a password with an unescaped special character: part of it would be read as a host, and shown."""
    rest = url.partition("://")[2]
    place = re.split("[/?#]", rest, maxsplit=1)[0]
    host, colon, port = place.rpartition(":")
    if place.count("@") > 1 or ("@" not in place and colon and host and not port.isdigit() and "@" in rest):
        raise BadInput(
            f"{scheme_of(url)}://…: is there a special character in the user or the password? Percent-encode it:"
            " %40 for @, %2F for /, %23 for #, %3F for ?"
        )


def module_of(url: str) -> ModuleType | None:
    """The module of a store of our own; None for one of another package."""
    scheme = scheme_of(url)
    return import_module(OWN_BACKENDS[scheme]) if scheme in OWN_BACKENDS else None


def _opener(url: str) -> "Opener":
    if module := module_of(url):
        return cast("Opener", module.open_store)
    from importlib.metadata import entry_points  # noqa: PLC0415  slow, and rarely asked for

    others, scheme = entry_points(group=ENTRY_POINTS), scheme_of(url)
    if scheme not in others.names:
        from difflib import get_close_matches  # noqa: PLC0415  only who misspells pays for it

        known = sorted({*OWN_BACKENDS, *others.names})
        close = "".join(f"did you mean {name}://? " for name in get_close_matches(scheme, known, n=1, cutoff=0.75))
        raise BadInput(f"{mask(url)!r}: no store is called {scheme!r}; {close}known: {', '.join(known)}")
    return cast("Opener", others[scheme].load())


# --- what all URLs have in common -----------------------------------------------------------------------------------

LONGEST_TIMEOUT: Final = 3600.0
SHORTEST_TIMEOUT: Final = 0.001
"""Seconds. To some drivers 0 means to wait for ever."""


_UNQUOTED: Final = dict.fromkeys(b"_.~/-")
"""What a URL holds as it is, besides letters and digits."""


def url_of(path: str | os.PathLike[str]) -> str:
    """The URL of an SQLite store in that file."""
    text = os.fspath(path)
    if not (text.isascii() and text.translate(_UNQUOTED).isalnum()):
        from urllib.parse import quote  # noqa: PLC0415  slow to import, and few paths need it

        text = quote(os.fsencode(text))
    return f"sqlite:///{text}"


def scheme_of(url: str) -> str:
    """The kind of store, in lower case."""
    return url.partition(":")[0].lower()


def seconds(shown: str, text: str) -> float:
    """The `timeout` of a URL; `shown` is that URL, masked."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not SHORTEST_TIMEOUT <= number <= LONGEST_TIMEOUT:
        raise BadInput(
            f"{shown!r}: timeout={text} is not a number of seconds up to {LONGEST_TIMEOUT:g}; write it like timeout=2.5"
        )
    return number


def options(shown: str, query: str, known: Sequence[str], instead: Mapping[str, str] = {}) -> dict[str, str]:
    """The options behind the `?` of a URL. Unknown ones are refused by name; `instead`: what to write for some."""
    if not query:
        return {}
    from urllib.parse import parse_qsl  # noqa: PLC0415  slow to import, and few have options

    found = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := sorted(found.keys() - set(known)):
        hints = "".join(f"; {name}: {instead[name]}" for name in unknown if name in instead)
        knows = f"{scheme_of(shown)} knows no {', '.join(unknown)}; it knows {', '.join(known)}"
        raise BadInput(f"{shown!r}: {knows}{hints}")
    return found


def mask(url: str) -> str:
    """A URL fit for people and logs: without its password, tokens and keys."""
    if not any(mark in url for mark in "@?&;"):  # nothing to hide, and regular expressions are slow
        return url
    rest = url.rfind("@") + 1  # in a long text, search only up to the last @
    return re.sub(_HIDDEN, r"\1***", re.sub(_USER_IN_URL, r"\1:***@", url[:rest]) + url[rest:])


def mask_all(text: str) -> str:
    """A text fit for people and logs that may contain URLs, or `password=…` as libpq writes it."""
    text = re.sub(_IN_TEXT, lambda found: mask(found[0]), text)
    text = re.sub(_QUOTED, r"\1:***@", text)  # a password may hold what ends a URL in a text
    return re.sub(_WORD, r"\1=***", text)


def discreet(text: str) -> str:
    """The text of another program (a job function, a receiver), fit for logs and records."""
    return re.sub(_SAID, r"\1***", mask_all(text)) if text else ""
