"""From when on something is wrong: what a watcher may be told, with defaults that fit most."""

from datetime import timedelta
from typing import Final

from cronce.errors import BadInput
from cronce.schedule import format_duration
from cronce.value import NamedTuple

SHORTEST_SETTING: Final = timedelta(milliseconds=1)


class Settings(NamedTuple):
    schedulers: int | None = None
    """How many there should be at most; None: as many as there are."""
    late: timedelta = timedelta(seconds=60)
    """A slot that has not started so long after it was due is late; and missed, if it may not start any more."""
    skew: timedelta = timedelta(seconds=1)
    """So far a machine's clock may be off the store's."""
    no_progress: timedelta = timedelta(minutes=15)
    """A run that says how far it is should come further within so long."""
    flapping: int = 3
    """A leadership that ends so often within ten minutes flaps, and a job whose leases lapse so often within an hour
    does."""
    superseded: timedelta = timedelta(minutes=10)
    """For so long an old version of a job may live beside the new one: a deploy takes its time."""
    page: str = ""
    """The address of the page, such as https://cron.example.org: notices link to it."""


def check_settings(settings: Settings) -> Settings:
    """Settings, if they can be meant."""
    for name in ("schedulers", "flapping"):
        number = getattr(settings, name)
        if number is not None and (type(number) is not int or number < 1):
            raise BadInput(f"{name} must be 1 or more, not {number!r:.40}")
    for name in ("late", "skew", "no_progress", "superseded"):
        span = getattr(settings, name)
        if not isinstance(span, timedelta) or span < SHORTEST_SETTING:
            raise BadInput(
                f"{name} must be a timedelta of {format_duration(SHORTEST_SETTING)} or more, not {span!r:.60}"
            )
    if not isinstance(settings.page, str) or not settings.page.isprintable() or " " in settings.page:
        raise BadInput(f"page must be the address of the page, not {settings.page!r:.60}")
    return settings
