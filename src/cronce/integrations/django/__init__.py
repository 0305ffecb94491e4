"""Django. With `cronce.integrations.django` in INSTALLED_APPS, `jobs.py` of any app says what is to run, and when:

    from cronce.integrations.django import cron

    @cron.job("0 9 * * *", tz="Europe/Berlin")
    def daily_report():
        Report.objects.create()

and `manage.py cronce run`, on as many machines as you like, runs each slot once. `project` is that `cron`, `databases`
the store that is named by an alias of DATABASES, `admin` two pages to look at.

Nothing is opened and nothing is started by being installed: `migrate`, `shell` and `runserver` do what they did.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cronce.integrations.django.project import cron as cron

__all__ = ["cron"]


def __getattr__(name: str) -> object:
    """Django imports this file while it reads its apps, before there is anything to be had from settings."""
    if name != "cron":
        raise AttributeError(f"{__name__} has no name {name!r}")
    from cronce.integrations.django import project  # noqa: PLC0415

    return project.cron
