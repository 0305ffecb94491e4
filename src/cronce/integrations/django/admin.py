"""Two read-only pages of the admin: the jobs, and their newest runs. To change something: `manage.py cronce`."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path

from cronce.errors import CronceError
from cronce.integrations.django.models import Job, Run
from cronce.integrations.django.project import cron
from cronce.model import spell
from cronce.runtime.queries import JobLine, RunSeen, job_names, refuse_unknown
from cronce.runtime.run_lists import runs
from cronce.runtime.stored_jobs import listed
from cronce.schedule import format_duration
from cronce.schedule.describe import describe
from cronce.stores import mask_all

RUNS_PER_PAGE: Final = 100
"""Runs on a page."""

Row = Sequence[str]
"""The job it is about, then the other columns."""


class AdminPage(admin.ModelAdmin):  # type: ignore[misc]  # Django has no types
    """A table that is read from the store when the page is shown."""

    headers: ClassVar[Sequence[str]] = ()
    empty = ""

    @abstractmethod
    def rows(self, job: str | None) -> list[Row]:
        """Of one job, or of all."""

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        request.current_app = self.admin_site.name
        job, kinds = request.GET.get("job"), self.opts.verbose_name_plural
        context = {
            **self.admin_site.each_context(request),
            "title": f"{kinds} of {job}" if job else f"{kinds}",
            "opts": self.opts,
            "headers": self.headers,
            "empty": self.empty,
        }
        try:
            context |= {"place": cron.place, "rows": self.rows(job)}
        except CronceError as error:  # the page shows that the store does not answer
            context["trouble"] = mask_all(str(error))
        return TemplateResponse(request, "cronce/table.html", context | (extra_context or {}))

    def get_urls(self) -> list[Any]:
        name = f"{self.opts.app_label}_{self.opts.model_name}_changelist"
        return [path("", self.admin_site.admin_view(self.changelist_view), name=name)]

    def _never(self, *_request: object, **_named: object) -> bool:
        return False

    has_add_permission = has_change_permission = has_delete_permission = _never


@admin.register(Job)
class JobPage(AdminPage):
    headers = ("job", "schedule", "next slot", "last slot", "outcome")
    empty = "no job is known yet; `manage.py cronce run` makes them known"

    def rows(self, job: str | None) -> list[Row]:
        _, lines = cron.at_work().node.do(listed())
        return [_job_row(line) for line in lines if job in (None, line.seen.name)]


def _job_row(line: JobLine) -> Row:
    seen, last = line.seen, line.last
    if seen.job is None:
        return [seen.name, seen.trouble, "", "", ""]
    schedules = "; ".join(map(describe, seen.schedules))
    upcoming = spell(line.next) if line.next else ""
    if seen.job.paused:
        upcoming = f"paused by {seen.job.paused.by or 'somebody'}"
    return [seen.name, schedules, upcoming, spell(last.slot.at) if last else "", last.shown if last else ""]


@admin.register(Run)
class RunPage(AdminPage):
    headers = ("job", "slot", "state", "holder", "started", "took", "reason")
    empty = "no run is on record"

    def rows(self, job: str | None) -> list[Row]:
        node = cron.at_work().node
        if job is not None:
            refuse_unknown(job, node.do(job_names()))
        return [_run_row(one) for one in node.do(runs(job, None, RUNS_PER_PAGE))]


def _run_row(one: RunSeen) -> Row:
    record, at = one.record, one.slot.key.partition("@")[2]
    if record is None:
        return [one.slot.job, at, one.shown, "", "", "", one.trouble]
    started = spell(record.started) if record.started else ""
    took = format_duration(record.finished - record.started) if record.started and record.finished else ""
    return [one.slot.job, at, one.shown, record.holder, started, took, record.reason]
