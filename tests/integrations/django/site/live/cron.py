"""Jobs that fall due while somebody waits. They say in a book what runs, in which process, and to which of the server's
processes their connection is."""

import os

from asgiref.sync import sync_to_async
from django.db import connection

from cronce import Run
from cronce.integrations.django import cron
from tests.integrations.django.site.shop.models import Report


def say(run: Run) -> None:
    connection.ensure_connection()
    line = f"{run.job} {run.key} {os.getpid()} {connection.connection.info.backend_pid}\n"
    book = os.open(os.environ["SITE_BOOK"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(book, line.encode())
    os.close(book)


@cron.job(every="1s", overlap="allow", missed="all")
def tick(run: Run) -> None:
    say(run)


@cron.job(every="1s", overlap="allow", missed="all")
async def tick_async(run: Run) -> None:
    await sync_to_async(say)(run)


@cron.job("@yearly", isolate=True)
def apart(run: Run) -> None:
    """Its process has only this file to know of Django."""
    assert str(Report.objects.all().query)
    say(run)
