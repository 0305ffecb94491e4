"""A Django project with django-celery-beat: makes entries, lets two beats run for some seconds, and tells what came."""

import json
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import django
from celery import Celery
from django.conf import settings

NOTICED = timedelta(seconds=0.8)
"""What is done is seen by the beats meanwhile, also where a busy machine is late for it."""


def main(folder: str, broker: str, store: str) -> None:
    began = time.monotonic()
    configure(folder)
    from django_celery_beat.models import PeriodicTask  # noqa: PLC0415  not before Django is set up

    from cronce import Cron, Cronce  # noqa: PLC0415
    from cronce.integrations.celery.database import DatabaseScheduler  # noqa: PLC0415

    app = Celery("site", broker=broker)
    app.conf.update(cronce_url=store, cronce_missed="all", cronce_start_within="5m")  # however late this process is
    app.conf.update(beat_schedule={"conf": entry(10_000 * 86_400)}, result_expires=None)
    as_long_again = timedelta(seconds=1 + round(time.monotonic() - began))  # for less than was done up to here
    start = datetime.now(UTC).replace(microsecond=0) + as_long_again
    make_entries(start)
    beats = [DatabaseScheduler(app) for _ in range(2)]
    beats[1].cron = Cronce(store)
    rule = beats[0].rule(beats[0].schedule["in Berlin"])
    acts: dict[int, Any] = {
        2: lambda: make("late", clocked=start),
        3: lambda: PeriodicTask.objects.get(name="stopped").delete(),
        4: lambda: save(PeriodicTask.objects.get(name="past")),
    }
    sent = {3: ("past",), 5: ("one", "soon", "late")}
    for second in range(6):
        acts.get(second, int)()
        upto = max(start + timedelta(seconds=second + 1.5), datetime.now(UTC) + NOTICED)
        run(beats, upto, PeriodicTask.objects.filter(name__in=sent.get(second, ())))
    for beat in beats:
        beat.close()
    rows = PeriodicTask.objects.values("name", "enabled", "last_run_at", "total_run_count")
    told = {
        "start": start,
        "is_ours": rule == Cron("0 9 * * *", "Europe/Berlin"),
        "rows": {row["name"]: row for row in rows},
    }
    print(json.dumps(told, default=str))


def run(beats: list[Any], until: datetime, disabled: Any) -> None:
    while datetime.now(UTC) < until or disabled.filter(enabled=True).exists():
        waits = [beat.tick() for beat in beats]
        time.sleep(min(0.1, *waits))


def configure(folder: str) -> None:
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{folder}/site.db", "OPTIONS": {"timeout": 20}}
    settings.configure(
        INSTALLED_APPS=["django.contrib.contenttypes", "django_celery_beat"],
        DATABASES={"default": database},
        USE_TZ=True,
        TIME_ZONE="Asia/Tokyo",
    )
    django.setup()
    from django.core.management import call_command  # noqa: PLC0415

    call_command("migrate", verbosity=0, run_syncdb=True)


def entry(schedule: object) -> dict[str, object]:
    return {"task": "note", "schedule": schedule}


def make_entries(start: datetime) -> None:
    """`start` is the first second that all of them see."""
    make("tick", every=1)
    make("stopped", every=1)
    make("bounded", every=1, start_time=start + timedelta(seconds=2), expires=start + timedelta(seconds=4))
    make("disabled", every=1, enabled=False)
    make("one", every=1, one_off=True)
    make("past", clocked=start - timedelta(hours=1))
    make("expired", every=1, one_off=True, expires=start - timedelta(hours=1))
    make("soon", clocked=start + timedelta(seconds=3))
    make("in Berlin", hour="9")


def make(name: str, every: int = 0, clocked: datetime | None = None, hour: str = "", **more: object) -> None:
    from django_celery_beat.models import (  # noqa: PLC0415
        ClockedSchedule,
        CrontabSchedule,
        IntervalSchedule,
        PeriodicTask,
    )

    if every:
        more["interval"], _ = IntervalSchedule.objects.get_or_create(every=every, period="seconds")
    elif clocked:
        more |= {"clocked": ClockedSchedule.objects.create(clocked_time=clocked), "one_off": True}
    else:
        more["crontab"] = CrontabSchedule.objects.create(minute="0", hour=hour, timezone="Europe/Berlin")
    PeriodicTask.objects.create(name=name, task="note", **more)


def save(row: Any) -> None:
    """As if whoever sent it could not disable it, and somebody changed a word in it later."""
    row.enabled = True
    row.description = "another"
    row.save()


if __name__ == "__main__":
    main(*sys.argv[1:])
