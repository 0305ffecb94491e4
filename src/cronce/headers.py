"""What an HTTP request carries of a run, so that the other side can refuse a repeat and a run that was overtaken.

    Idempotency-Key: billing@2026-03-29T01:00:00Z/invoice-7
    Cronce-Fence: 0064e1f1a2b3c4-00000000002a; scope=billing

The key is opaque: whoever receives it only compares. Fences are compared as text, and only within a scope.
"""

from collections.abc import Iterable
from typing import Final

from cronce.errors import BadInput
from cronce.model import Fence, read_fence
from cronce.value import NamedTuple

KEY: Final = "Idempotency-Key"
FENCE: Final = "Cronce-Fence"
MAX_HEADER: Final = 3000
"""Characters of a header: the longest key of ours in percent, and well within what servers take."""

_SCOPE: Final = "; scope="


class RequestHeaders(NamedTuple):
    """What a request says of itself."""

    key: str | None = None
    fence: Fence | None = None
    scope: str = ""


def headers(key: str, fence: Fence, scope: str) -> dict[str, str]:
    """The headers of a request that makes the effect `key` under a fence.

    The scope is the job where its runs exclude each other, else the slot: two slots that may run side by side do not
    overtake each other.
    """
    return {KEY: _quoted(key), FENCE: f"{fence}{_SCOPE}{_quoted(scope)}"}


def read_headers(pairs: Iterable[tuple[str, str]]) -> RequestHeaders:
    """Of all headers of a request (`request.headers.items()`) those two. What cannot be read is `BadInput`: a 400."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if found.setdefault(name.lower(), value) != value and name.lower() in (KEY.lower(), FENCE.lower()):
            raise BadInput(f"{name} is given twice, with different values")
    key, fence = found.get(KEY.lower()), found.get(FENCE.lower())
    return RequestHeaders(None if key is None else _plain(KEY, key), *(() if fence is None else _fence(fence)))


def _fence(value: str) -> tuple[Fence, str]:
    text, _, scope = value.partition(_SCOPE)
    try:
        return read_fence(text), _plain("scope", scope)
    except BadInput as problem:
        raise BadInput(
            f"{FENCE} is a fence and its scope, such as '{Fence(1, 42)}{_SCOPE}billing': {problem}"
        ) from None


def _plain(name: str, value: str) -> str:
    if not 0 < len(value) <= MAX_HEADER or not all("!" <= letter <= "~" for letter in value):
        raise BadInput(
            f"{name} is 1 to {MAX_HEADER:,} printable ASCII characters without a space, and this is {value!r:.60}"
        )
    return value


def _quoted(text: str) -> str:
    """As a header can carry it: what is no printable ASCII in percent. Two texts stay two."""
    return "".join(chr(byte) if 0x21 <= byte <= 0x7E and byte != 0x25 else f"%{byte:02X}" for byte in text.encode())
