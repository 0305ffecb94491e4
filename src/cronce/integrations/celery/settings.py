"""What Celery's configuration says of cronce.

* `cronce_url`: the store; else $CRONCE_URL, as everywhere.
* `cronce_missed`: what becomes of slots that fell due while no beat ran.
* `cronce_start_within`: how late a slot may still be sent.
* `cronce_lease`: after how long another beat sends what a dead one had claimed.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from cronce.errors import BadPolicy
from cronce.policy import refuse_foreign
from cronce.runtime.app import Cronce
from cronce.runtime.declare import Policies, declare

NAMES: Final = ("cronce_url", "cronce_missed", "cronce_start_within", "cronce_lease")

App = Any
"""Celery has no types of its own."""


def cronce_of(app: App) -> Cronce:
    """The store that the app's configuration names; one in a process, whoever asks."""
    return _on(app.conf.get("cronce_url"))


@lru_cache
def _on(url: str | None) -> Cronce:
    return Cronce(url)


def policies_of(app: App) -> Policies:
    """On what terms slots of entries are claimed. Sending takes a moment, and may be done again by the same id, so that
    a beat that died is taken over; and no slot waits for another of its entry."""
    conf = app.conf
    return Policies(
        on_lost="rerun",
        overlap="allow",
        missed=conf.get("cronce_missed", "latest"),
        start_within=conf.get("cronce_start_within"),
        lease=conf.get("cronce_lease"),
    )


def check_settings(app: App) -> None:
    """Whatever cannot be meant, or is misspelt, is refused before anything is sent, and before a worker starts."""
    try:
        refuse_foreign((name for name in _said(app.conf) if name not in NAMES), NAMES)
        declare("checked", **policies_of(app))
    except BadPolicy as error:
        raise BadPolicy(f"in Celery's configuration: {error}") from None


def _said(conf: Any) -> Iterator[str]:
    """The settings of ours, also where Celery's have a prefix, and others stand beside them: in Django's."""
    prefix = conf.prefix or ""
    for name in conf:
        if name.startswith("cronce_"):
            yield name
        elif prefix and name.startswith(f"{prefix}CRONCE_"):
            yield name.removeprefix(prefix).lower()
