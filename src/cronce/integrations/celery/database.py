"""django-celery-beat: the entries of its database, each sent once per slot by any number of beats.

    celery -A project beat -S cronce.integrations.celery.database:DatabaseScheduler

Changes in the admin are picked up as before. `start_time` and `expires` bound the slots of an entry. Its row still
shows when it was last sent, and how often: each beat adds what it sent itself.

*One-off* entries, also clocked ones, have one moment and no schedule. At that moment the beats request the run with an
id made from it, and two requests with one id are one run. So an entry that is made for this very moment, or while no
beat runs, is sent as soon as one does. The beat that sent it disables it.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from cronce.errors import BadInput, CronceError
from cronce.integrations.celery.beat import OncePerSlot, job_name, next_whole, rule_of
from cronce.model import Instant
from cronce.runtime.attempt import describe
from cronce.runtime.log import LOGGER
from cronce.schedule import Schedule, bounded
from cronce.schedule.instant import SECOND

try:
    from django.conf import settings
    from django.db import DatabaseError, InterfaceError, close_old_connections
    from django.db.models import F, Q
    from django.utils.timezone import make_naive
    from django_celery_beat import schedulers
    from django_celery_beat.utils import make_aware
except ImportError as missing:
    raise BadInput(
        "cronce.integrations.celery.database needs django-celery-beat: pip install django-celery-beat"
    ) from missing

RUN_NOW_RETRY: Final = 1.0
"""Seconds until a run that could not be requested is requested again."""


class DatabaseScheduler(OncePerSlot, schedulers.DatabaseScheduler):  # type: ignore[misc]  # it has no types
    """`django_celery_beat.schedulers:DatabaseScheduler`, for any number of beats."""

    def __init__(self, *args: Any, **named: Any) -> None:
        self._unsaved: dict[int, tuple[int, Instant]] = {}
        self._asked: set[tuple[str, Instant]] = set()
        super().__init__(*args, **named)

    def enabled_models_qs(self) -> Any:
        """All, also those that are not due for hours: an entry that comes and goes would count as new each time."""
        return self.Model.objects.enabled()

    def rule(self, entry: Any) -> Schedule | None:
        model = entry.model
        if model.one_off:
            return None
        end = _utc(model.expires)
        return bounded(rule_of(entry.schedule, self._year), _utc(model.start_time), end and end - SECOND)

    # --- one-off entries ---

    def tick(self, *args: Any, **named: Any) -> float:
        return min([super().tick(*args, **named), *self._ask_for_one_offs()])

    def _ask_for_one_offs(self) -> Iterator[float]:
        """Request those whose moment has come; the seconds until the others'."""
        if self._running is None or not self._running.engine.joined:
            return
        now = self._clock.wall()
        for entry in [entry for entry in self._seen.values() if entry.model.one_off]:
            moment = self._moment(entry)
            if moment is not None and moment > now:
                yield (moment - now).total_seconds()
            elif moment is not None and (entry.name, moment) not in self._asked:
                yield RUN_NOW_RETRY
                self._ask(entry.name, moment)

    def _ask(self, name: str, moment: Instant) -> None:
        """If the store does not answer, or does not know the entry yet, the next tick tries again."""
        try:
            self.cron.trigger(job_name(self.app, name), id=f"once-{moment:%Y%m%dT%H%M%SZ}", by="beat")
        except CronceError as trouble:
            LOGGER.debug("%s cannot be requested yet: %s", name, trouble)
        else:
            self._asked.add((name, moment))

    def _moment(self, entry: Any) -> Instant | None:
        """That of a clocked entry, or else the first of its schedule since the entry was last changed. One in the past
        is due at once."""
        model = entry.model
        since = _utc(model.clocked.clocked_time if model.clocked else model.date_changed)
        since, end = max(filter(None, (since, _utc(model.start_time)))), _utc(model.expires)
        try:
            moment = since if model.clocked else rule_of(entry.schedule, self._year).next(since - SECOND)
        except Exception as error:
            self._refuse(entry.name, describe(error))
            return None
        return None if moment is None or (end and moment >= end) else moment

    # --- what its rows say ---

    def noted(self, entry: Any, at: Instant) -> None:
        super().noted(entry, at)
        sent, _ = self._unsaved.get(entry.model.pk, (0, at))
        self._unsaved[entry.model.pk] = sent + 1, at
        if entry.model.one_off:
            self.sync()

    def sync(self) -> None:
        try:
            close_old_connections()
            for pk, (sent, at) in list(self._unsaved.items()):
                self._save(self.Model.objects.filter(pk=pk), sent, at if settings.USE_TZ else make_naive(at))
                del self._unsaved[pk]
        except (DatabaseError, InterfaceError) as trouble:
            LOGGER.warning("the rows of the entries do not show yet what was sent: %s", trouble)

    def _save(self, rows: Any, sent: int, at: datetime) -> None:
        """By UPDATE, since other beats change the same row."""
        rows.update(total_run_count=F("total_run_count") + sent)
        rows.filter(Q(last_run_at__isnull=True) | Q(last_run_at__lt=at)).update(last_run_at=at)
        if rows.filter(one_off=True, enabled=True).update(enabled=False, total_run_count=0):
            self.Changes.update_changed()


def _utc(moment: datetime | None) -> Instant | None:
    return None if moment is None else next_whole(make_aware(moment).astimezone(UTC))
