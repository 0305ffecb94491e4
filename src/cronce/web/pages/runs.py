"""Runs, newest first across jobs, and where a search leads."""

from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from cronce.errors import BadInput
from cronce.model import check_name
from cronce.monitor.reading.index import JobIndex
from cronce.monitor.reading.runs import newest_runs
from cronce.runtime.flow import Flow
from cronce.runtime.look import WANTED, slot_named
from cronce.web.frame import Shown, show
from cronce.web.pages.rows import rows_of
from cronce.web.site import path, root_of, site_of

AT_ONCE: Final = 50


async def page(request: Request) -> Response:
    query = request.query_params
    wanted = query.get("state") or None
    return await show(request, "runs.html", _page(query.get("job") or None, wanted, query.get("after") or None))


def _page(job: str | None, state: str | None, after: str | None) -> Flow[Shown]:
    found = yield from newest_runs(job, state, after, AT_ONCE)
    kept = {"job": job, "state": state}
    return {
        "now": found.now,
        "rows": rows_of(found.runs, found.now),
        "next": found.next,
        "kept": kept,
        "states": WANTED,
        "after": after,
    }


# --- finding ----------------------------------------------------------------------------------------------------------


async def search(request: Request) -> Response:
    """To the run or the job that is named; else to the jobs whose name or schedule contains the text."""
    text = request.query_params.get("q", "").strip()
    site = site_of(request)
    found = await site.ask(_found(text, site.index))
    root = root_of(request)
    return RedirectResponse(path(*found, root=root) if found else path("jobs", root=root, q=text or None), 303)


def _found(text: str, index: JobIndex) -> Flow[tuple[str, ...]]:
    if "@" in text:
        try:
            return ("runs", slot_named(text).key)
        except BadInput:
            return ()
    try:
        check_name(text)
    except BadInput:
        return ()
    yield from index.keep_up()
    return ("jobs", text) if text in index.search(text, limit=len(index)).names else ()
