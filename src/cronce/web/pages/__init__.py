"""What there is to see: each page is a flow that reads, a template, and a route here."""

from typing import Final

from starlette.routing import Route

from cronce.web.pages import effects, holders, job, jobs, leases, overview, plain, run, runs, watched
from cronce.web.tones import brief, coded, icon_of, tone

ROUTES: Final = (
    Route("/", overview.page),
    Route("/jobs", jobs.page),
    Route("/jobs/{job}", job.page),
    Route("/runs", runs.page),
    Route("/runs/{slot}", run.page),
    Route("/search", runs.search),
    Route("/holders", holders.page),
    Route("/locks", leases.locks_page),
    Route("/leaders", leases.leaders_page),
    Route("/effects", effects.page),
    Route("/alerts", watched.alerts_page),
    Route("/others", watched.others_page),
    Route("/findings", plain.findings),
    Route("/help", plain.help_page),
)
WORDS: Final = {"tone": tone, "icon_of": icon_of, "brief": brief, "coded": coded}
"""What every template may use."""
