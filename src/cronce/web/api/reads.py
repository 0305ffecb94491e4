"""What the API tells."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from cronce.errors import NotOnRecord
from cronce.model import check_name
from cronce.monitor import reading
from cronce.monitor.reading.effects import effects_page
from cronce.runtime.effects.seen import names_effect
from cronce.runtime.holders import HolderSeen, carried
from cronce.runtime.look import JobLine, RunSeen, job_names, refuse_unknown, slot_named
from cronce.runtime.why import Case, why
from cronce.telling.documents import (
    act_document,
    effect_document,
    held_document,
    holder_document,
    job_document,
    leader_says,
    past_document,
    run_document,
    span_document,
)
from cronce.telling.notices import (
    alert_document,
    beats_document,
    observed_document,
    refusals_document,
    refused_document,
)
from cronce.telling.whys import story_document, why_document
from cronce.telling.words import iso
from cronce.web.actions import named
from cronce.web.api.endpoints import (
    AFTER,
    END,
    EVERYTHING,
    JOB,
    LIMIT,
    MATCHING,
    OPEN,
    START,
    STATE,
    WHAT,
    Asked,
    Document,
    Endpoint,
)
from cronce.web.problems import Problem

SHOWN: Final = 100
"""As many as are told of where nobody says how many."""

HOUR: Final = timedelta(hours=1)


async def overview(asked: Asked) -> Document:
    found = await asked.site.ask(reading.overview())
    return {
        "now": iso(found.now),
        "store": asked.site.place,
        "halted": act_document(found.halted),
        "alerts": [alert_document(one) for one in found.alerts.alerts],
        "holders": [_holder(one) for one in found.holders],
        "open": _some(found.open),
        "attention": _some(found.attention),
        "in_doubt": {"count": found.in_doubt.number, "more": found.in_doubt.more},
        "newest": _runs(found.newest),
    }


# --- jobs -------------------------------------------------------------------------------------------------------------


async def jobs(asked: Asked) -> Document:
    given, site = asked.given, asked.site
    after = check_name(given["after"]) if given.get("after") else ""
    flow = reading.job_lines(after, given.get("limit", SHOWN), given.get("matching", ""), index=site.index)
    page, served = await site.ask(flow), await site.ask(carried())
    return {"jobs": [job_document(line, served) for line in page.lines], "total": page.total, "next": page.next}


async def job(asked: Asked) -> Document:
    name, site = named("jobs", asked.subject), asked.site
    view = await site.ask(reading.job_view(name))
    if view is None:
        await _unknown(asked, name)
    assert view is not None
    last = view.runs.runs[0] if view.runs.runs else None
    return {
        **job_document(JobLine(view.seen, view.next, last, view.stored), await site.ask(carried())),
        "halted": act_document(view.halted),
        "open": _some(view.open),
        "attention": _some(view.attention),
        "refused": [refusals_document(*one) for one in view.refused],
        "passed_over": [span_document(one) for one in view.seen.job.spans] if view.seen.job else [],
        "took": [{"slot": one.run.slot.key, "seconds": one.span.total_seconds()} for one in view.durations],
    }


async def runs_of_job(asked: Asked) -> Document:
    name = named("jobs", asked.subject)
    page = await _page(asked, name)
    if not page["runs"]:
        refuse_unknown(name, await asked.site.ask(job_names()))
    return page


# --- runs -------------------------------------------------------------------------------------------------------------


async def runs(asked: Asked) -> Document:
    return await _page(asked, asked.given.get("job"))


async def run(asked: Asked) -> Document:
    """A slot that is on record."""
    key = named("runs", asked.subject)
    desk = await asked.site.opened()
    found = await asked.site.ask(reading.run_view(slot_named(key), desk.store.traits))
    if found is None or found.stories[0].run is None:
        raise NotOnRecord(f"{key} is on record nowhere")
    return story_document(found.stories[0], found)


async def why_it(asked: Asked) -> Document:
    """A slot, on record or not, or those of a job that matter."""
    is_slot = "@" in asked.subject
    subject = named("runs" if is_slot else "jobs", asked.subject)
    slot = slot_named(subject) if is_slot else None
    desk = await asked.site.opened()
    found = await asked.site.ask(why(slot.job if slot else subject, slot, desk.store.traits))
    if found is None:
        await _unknown(asked, slot.job if slot else subject)
    assert found is not None
    if any(story.case in (Case.NO_SLOT, Case.NO_REQUEST) for story in found.stories):
        raise NotOnRecord(f"{subject} is no slot of that job, and nobody asked for it")
    return why_document(found)


async def timeline(asked: Asked) -> Document:
    given, site = asked.given, asked.site
    end = given.get("end", site.now)
    start = given.get("start", end - HOUR)
    if start >= end:
        raise Problem(400, "the end comes after the start")
    found = await site.ask(reading.stretch(start, end, given.get("job"), given.get("limit", 1000)))
    return {
        "now": iso(found.now),
        "start": iso(found.start),
        "end": iso(found.end),
        "whole_from": iso(found.whole_from),
        "runs": [{**run_document(one), "past": _past(one)} for one in found.runs],
        "refused": [refused_document(*one) for one in found.ghosts],
    }


# --- what else there is -----------------------------------------------------------------------------------------------


async def holders(asked: Asked) -> Document:
    return {"holders": [_holder(one) for one in await asked.site.ask(reading.holders())]}


async def locks(asked: Asked) -> Document:
    page = await asked.site.ask(reading.locks(asked.given.get("after", ""), asked.given.get("limit", SHOWN)))
    return {"locks": [held_document(one) for one in page.held], "next": page.next}


async def leaders(asked: Asked) -> Document:
    page = await asked.site.ask(reading.leaders(asked.given.get("after", ""), asked.given.get("limit", SHOWN)))
    return {"leaders": [held_document(one, leader_says) for one in page.held], "next": page.next}


async def effects(asked: Asked) -> Document:
    what = asked.given.get("what")
    if what is not None and names_effect(what):
        raise Problem(400, "`what` is a job, a slot or an idempotent function, and no single effect")
    given = asked.given
    flow = effects_page(what, given.get("after"), given.get("limit", SHOWN), everything=given.get("all", False))
    page = await asked.site.ask(flow)
    return {"effects": [effect_document(one) for one in page.effects], "next": page.next}


async def alerts(asked: Asked) -> Document:
    page = await asked.site.ask(reading.alerts(open=asked.given.get("open", True)))
    return {"alerts": [alert_document(one) for one in page.alerts], "more": page.more}


async def observed(asked: Asked) -> Document:
    return {"observed": [observed_document(*one) for one in await asked.site.ask(reading.observed())]}


async def beats(asked: Asked) -> Document:
    return {"beats": [beats_document(*one) for one in await asked.site.ask(reading.beats())]}


# --- parts ------------------------------------------------------------------------------------------------------------


async def _page(asked: Asked, job: str | None) -> Document:
    given = asked.given
    flow = reading.newest_runs(job, given.get("state"), given.get("after"), given.get("limit", SHOWN))
    page = await asked.site.ask(flow)
    return {"runs": _runs(page.runs), "next": page.next}


async def _unknown(asked: Asked, name: str) -> None:
    refuse_unknown(name, await asked.site.ask(job_names()))
    raise NotOnRecord(f"no job is called {name!r}")


def _runs(found: Iterable[RunSeen]) -> list[Document]:
    return [run_document(one) for one in found]


def _some(found: reading.Runs) -> Document:
    return {"count": found.number, "more": found.more, "runs": _runs(found.runs)}


def _past(one: RunSeen) -> list[Document]:
    return [past_document(past) for past in one.record.past] if one.record else []


def _holder(line: reading.HolderLine) -> Document:
    seen = HolderSeen(line.holder, line.until, line.drained)
    also = {"life": line.life, "running": line.holder.running, "skew": line.holder.skew.total_seconds()}
    return {**holder_document(seen), "beat": iso(line.beat), **also}


READS: Final = (
    Endpoint("/overview", "overview", "The whole at a glance", "Overview", overview),
    Endpoint("/jobs", "jobs", "Jobs, by name", "Jobs", jobs, (LIMIT, AFTER, MATCHING)),
    Endpoint("/jobs/{subject}", "job", "All that there is to see of a job", "JobView", job, (), "a job"),
    Endpoint(
        "/jobs/{subject}/runs",
        "runsOfJob",
        "Its runs, newest first",
        "Runs",
        runs_of_job,
        (STATE, LIMIT, AFTER),
        "a job",
    ),
    Endpoint("/runs", "runs", "Runs, newest first", "Runs", runs, (JOB, STATE, LIMIT, AFTER)),
    Endpoint("/runs/{subject}", "run", "A slot that is on record", "RunView", run, (), "a slot"),
    Endpoint("/why/{subject}", "why", "Why a slot ran or did not", "Why", why_it, (), "a slot, or a job"),
    Endpoint("/timeline", "timeline", "The runs of a stretch of time", "Timeline", timeline, (START, END, JOB, LIMIT)),
    Endpoint("/holders", "holders", "Schedulers that live, or did lately", "Holders", holders),
    Endpoint("/locks", "locks", "Who holds which lock", "Locks", locks, (LIMIT, AFTER)),
    Endpoint("/leaders", "leaders", "Who leads which group", "Leaders", leaders, (LIMIT, AFTER)),
    Endpoint(
        "/effects", "effects", "Effects in doubt, and in progress", "Effects", effects, (WHAT, EVERYTHING, LIMIT, AFTER)
    ),
    Endpoint("/alerts", "alerts", "Alerts that stand, or were cleared", "Alerts", alerts, (OPEN,)),
    Endpoint("/observed", "observed", "Calls that were only observed", "Observed", observed),
    Endpoint("/beats", "beats", "Signs of life of other schedulers", "Beats", beats),
)
