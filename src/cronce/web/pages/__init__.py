"""What there is to see: each page is a flow that reads, a template, and a route here."""

from collections.abc import Callable
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.routing import Route

from cronce.runtime.flow import Flow
from cronce.telling.documents import LEADERS, LOCK_LEASES
from cronce.web.pages import tables
from cronce.web.pages.incidents import alerts_table, incident_page
from cronce.web.pages.jobs import job_page, jobs_page
from cronce.web.pages.overview import holders_page, overview_page
from cronce.web.pages.runs import run_page, runs_page, search
from cronce.web.site import Shown, show
from cronce.web.timeline import timeline


def _page(path: str, template: str, flow: Callable[[Request], Flow[Shown]]) -> Route:
    return Route(path, partial(show, template=template, flow=flow))


ROUTES: Final = (
    _page("/", "overview.html", overview_page),
    _page("/jobs", "jobs.html", jobs_page),
    _page("/jobs/{job}", "job.html", job_page),
    _page("/runs", "runs.html", runs_page),
    _page("/runs/{slot}", "run.html", run_page),
    Route("/search", search),
    _page("/timeline", "timeline.html", timeline),
    _page("/holders", "holders.html", holders_page),
    _page("/locks", "leases.html", partial(tables.leases, kind=LOCK_LEASES)),
    _page("/leaders", "leases.html", partial(tables.leases, kind=LEADERS)),
    _page("/effects", "effects.html", tables.effects_table),
    _page("/alerts", "alerts.html", alerts_table),
    _page("/alerts/{id:path}", "incident.html", incident_page),
    _page("/others", "others.html", tables.others_table),
    _page("/findings", "findings.html", tables.findings_table),
    _page("/help", "help.html", tables.help_table),
)
