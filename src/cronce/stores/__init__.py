"""Where cells are kept. `open_store(url)` finds the backend by the scheme of the URL.

A backend is one file and one entry point in the group `cronce.stores`. Our own are found without asking for entry
points: reading those of all installed packages takes longer than the rest of a start under cron.
"""

import re
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final, cast

from cronce.errors import BadInput

if TYPE_CHECKING:
    from cronce.stores.base import Opener, Store

GROUP: Final = "cronce.stores"
OURS: Final = {
    "memory": "cronce.stores.memory",
    "sqlite": "cronce.stores.sqlite",
    **dict.fromkeys(("postgresql", "postgres"), "cronce.stores.postgres"),
    **dict.fromkeys(("redis", "rediss", "valkey", "valkeys"), "cronce.stores.redis"),
    **dict.fromkeys(("mysql", "mariadb"), "cronce.stores.mysql"),
    **dict.fromkeys(("etcd", "etcds"), "cronce.stores.etcd"),
}

_USER: Final = r"(?s)(?<=://)([^:@/]*):.*@"
_HIDDEN: Final = r"(?i)([?&;][^=&;]*(?:pass|pwd|token|secret|key|auth|cred|sig)[^=&;]*=)[^&;]*"


def open_store(url: str) -> "Store":
    """The store that a URL names: ``sqlite:///cronce.db``."""
    if not isinstance(url, str):
        raise BadInput(f"a store is named by a URL such as sqlite:///cronce.db, not by {url!r:.60}")
    scheme, colon, _ = url.partition(":")
    if not colon:
        raise BadInput(f"{mask(url)!r} is not the URL of a store; for a file write sqlite:///{mask(url)}")
    return _opener(scheme.lower(), url)(url)


def module_of(url: str) -> ModuleType | None:
    """The file of a store of ours; None for one that somebody else wrote."""
    scheme = url.partition(":")[0].lower()
    return import_module(OURS[scheme]) if scheme in OURS else None


def _opener(scheme: str, url: str) -> "Opener":
    if scheme in OURS:
        return cast("Opener", import_module(OURS[scheme]).open_store)
    from importlib.metadata import entry_points  # noqa: PLC0415  slow, and rarely asked for

    others = entry_points(group=GROUP)
    if scheme not in others.names:
        known = ", ".join(sorted({*OURS, *others.names}))
        raise BadInput(f"{mask(url)!r}: no store is called {scheme!r}; known: {known}")
    return cast("Opener", others[scheme].load())


def mask(url: str) -> str:
    """A URL fit for people and logs: without its password, tokens and keys."""
    return re.sub(_HIDDEN, r"\1***", re.sub(_USER, r"\1:***@", url))
