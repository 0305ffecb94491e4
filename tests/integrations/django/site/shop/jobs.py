"""The shop's jobs, where Django finds them by itself."""

from django.db import connection

from cronce import Run
from cronce.integrations.django import cron
from tests.integrations.django.site.shop.models import Report


@cron.job("0 9 * * *", tz="Europe/Berlin")
def report(run: Run) -> None:
    Report.objects.create(key=run.key)


@cron.job(at="2026-02-01T00:00:00Z", transaction="default")
def together(run: Run) -> None:
    with run.transaction(connection):
        Report.objects.create(key=run.key)
