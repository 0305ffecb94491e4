"""What the API tells."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from cronce.errors import NotOnRecord
from cronce.model import Instant, check_name
from cronce.monitor import read_jobs, read_lists, read_overview, read_stretch
from cronce.monitor.read_lists import effects_page
from cronce.runtime.effects.review import names_effect
from cronce.runtime.flow import Flow
from cronce.runtime.queries import WANTED, HolderSeen, JobLine, RunSeen, carried, job_names, refuse_unknown, slot_named
from cronce.runtime.why import Case, why
from cronce.telling import documents as told
from cronce.telling.words import iso
from cronce.web.actions import Document, named
from cronce.web.api.endpoints import MOST, Asked, Endpoint, Parameter
from cronce.web.api.schemas import INSTANT, TEXT, YES, one_of
from cronce.web.requests import Problem

SHOWN: Final = 100
"""As many as are told of where nobody says how many."""

HOUR: Final = timedelta(hours=1)

# --- what may be asked ------------------------------------------------------------------------------------------------

NAME: Final = r"^[A-Za-z0-9_][A-Za-z0-9_.:\-]{0,127}$"
LIMIT: Final = Parameter("limit", {"type": "integer", "minimum": 1, "maximum": MOST}, "how many at most")
AFTER: Final = Parameter("after", TEXT, "where to go on: the `next` of the answer before")
JOB: Final = Parameter("job", {"type": "string", "pattern": NAME}, "of this job only")
STATE: Final = Parameter("state", one_of(*WANTED), "in this state, or with this outcome")
MATCHING: Final = Parameter("matching", TEXT, "whose name or schedule contains this")
WHAT: Final = Parameter("what", TEXT, "of this job, slot or idempotent function only")
EVERYTHING: Final = Parameter("all", YES, "also what is done, or not done and to be done by the next run")
OPEN: Final = Parameter("open", YES, "true: those that stand (as without it); false: those that were cleared")
START: Final = Parameter("start", INSTANT, "from then on (without it: the hour before the end)")
END: Final = Parameter("end", INSTANT, "up to then (without it: now)")

# --- the whole --------------------------------------------------------------------------------------------------------


def overview(asked: Asked) -> Flow[Document]:
    found = yield from read_overview.overview()
    return {
        "now": iso(found.now),
        "store": asked.site.place,
        "halted": told.act_document(found.halted),
        "alerts": [told.alert_document(one) for one in found.alerts.alerts],
        "holders": [_holder(one, found.now) for one in found.holders],
        "open": _some(found.open),
        "attention": _some(found.attention),
        "in_doubt": {"count": found.in_doubt.number, "more": found.in_doubt.more},
        "newest": _runs(found.newest),
    }


# --- jobs -------------------------------------------------------------------------------------------------------------


def jobs(asked: Asked) -> Flow[Document]:
    given = asked.given
    after = check_name(given["after"]) if given.get("after") else ""
    limit, matching = given.get("limit", SHOWN), given.get("matching", "")
    page = yield from read_jobs.job_lines(after, limit, matching, index=asked.site.index)
    served = yield from carried()
    return {"jobs": [told.job_document(line, served) for line in page.lines], "total": page.total, "next": page.next}


def job(asked: Asked) -> Flow[Document]:
    name = named("jobs", asked.subject)
    view = yield from read_jobs.job_view(name)
    if view is None:
        raise (yield from _unknown(name))
    last = view.runs.runs[0] if view.runs.runs else None
    return {
        **told.job_document(JobLine(view.seen, view.next, last, view.stored), {name} if view.carried else ()),
        "halted": told.act_document(view.halted),
        "open": _some(view.open),
        "attention": _some(view.attention),
        "refused": [told.refusals_document(*one) for one in view.refused],
        "passed_over": [told.span_document(one) for one in view.seen.job.spans] if view.seen.job else [],
        "took": [{"slot": one.run.slot.key, "seconds": one.span.total_seconds()} for one in view.durations],
    }


def runs_of_job(asked: Asked) -> Flow[Document]:
    name = named("jobs", asked.subject)
    page = yield from _page(asked, name)
    if not page["runs"]:
        refuse_unknown(name, (yield from job_names()))
    return page


# --- runs -------------------------------------------------------------------------------------------------------------


def runs(asked: Asked) -> Flow[Document]:
    return (yield from _page(asked, asked.given.get("job")))


def run(asked: Asked) -> Flow[Document]:
    """A slot that is on record."""
    slot = slot_named(named("runs", asked.subject))
    found = yield from why(slot.job, slot, asked.site.desk.store.traits)
    if found is None or found.stories[0].run is None:
        raise NotOnRecord(f"there is no record of {slot.key}")
    return told.story_document(found.stories[0], found)


def why_it(asked: Asked) -> Flow[Document]:
    """A slot, on record or not, or those of a job that matter."""
    is_slot = "@" in asked.subject
    subject = named("runs" if is_slot else "jobs", asked.subject)
    slot = slot_named(subject) if is_slot else None
    name = slot.job if slot else subject
    found = yield from why(name, slot, asked.site.desk.store.traits)
    if found is None:
        raise (yield from _unknown(name))
    if any(story.case in (Case.NO_SLOT, Case.NO_REQUEST) for story in found.stories):
        raise NotOnRecord(f"{subject} is no slot of that job, and nobody asked for it")
    return told.why_document(found)


def timeline(asked: Asked) -> Flow[Document]:
    given = asked.given
    end = given.get("end", asked.site.now)
    start = given.get("start", end - HOUR)
    if start >= end:
        raise Problem(400, "the end comes after the start")
    found = yield from read_stretch.stretch(start, end, given.get("job"), given.get("limit", 1000))
    return {
        "now": iso(found.now),
        "start": iso(found.start),
        "end": iso(found.end),
        "whole_from": iso(found.whole_from),
        "runs": [{**told.run_document(one), "past": _past(one)} for one in found.runs],
        "refused": [told.refused_document(*one) for one in found.ghosts],
    }


# --- what else there is -----------------------------------------------------------------------------------------------


def holders(_asked: Asked) -> Flow[Document]:
    now, found = yield from read_overview.holders()
    return {"holders": [_holder(one, now) for one in found]}


def locks(asked: Asked) -> Flow[Document]:
    page = yield from read_lists.held("lock/", asked.given.get("after", ""), asked.given.get("limit", SHOWN))
    return {"locks": [told.held_document(one) for one in page.held], "next": page.next}


def leaders(asked: Asked) -> Flow[Document]:
    page = yield from read_lists.held("leader/", asked.given.get("after", ""), asked.given.get("limit", SHOWN))
    return {"leaders": [told.held_document(one, told.leader_says) for one in page.held], "next": page.next}


def effects(asked: Asked) -> Flow[Document]:
    given = asked.given
    what = given.get("what")
    if what is not None and names_effect(what):
        raise Problem(400, "`what` is a job, a slot or an idempotent function, and no single effect")
    limit, everything = given.get("limit", SHOWN), given.get("all", False)
    page = yield from effects_page(what, given.get("after"), limit, everything=everything)
    return {"effects": [told.effect_document(one) for one in page.effects], "next": page.next}


def alerts(asked: Asked) -> Flow[Document]:
    page = yield from read_lists.alerts(open=asked.given.get("open", True))
    return {"alerts": [told.alert_document(one) for one in page.alerts], "more": page.more}


def observed(_asked: Asked) -> Flow[Document]:
    return {"observed": [told.observed_document(*one) for one in (yield from read_lists.observed()).items()]}


def beats(_asked: Asked) -> Flow[Document]:
    return {"beats": [told.beats_document(*one) for one in (yield from read_lists.beats()).items()]}


# --- parts ------------------------------------------------------------------------------------------------------------


def _page(asked: Asked, job: str | None) -> Flow[Document]:
    given = asked.given
    page = yield from read_lists.newest_runs(job, given.get("state"), given.get("after"), given.get("limit", SHOWN))
    return {"runs": _runs(page.runs), "next": page.next}


def _unknown(name: str) -> Flow[NotOnRecord]:
    refuse_unknown(name, (yield from job_names()))
    return NotOnRecord(f"no job is called {name!r}")


def _runs(found: Iterable[RunSeen]) -> list[Document]:
    return [told.run_document(one) for one in found]


def _some(found: read_lists.Runs) -> Document:
    return {"count": found.number, "more": found.more, "runs": _runs(found.runs)}


def _past(one: RunSeen) -> list[Document]:
    return [told.past_document(past) for past in one.record.past] if one.record else []


def _holder(one: HolderSeen, now: Instant) -> Document:
    also = {"life": one.life(now), "running": one.holder.running, "skew": one.holder.skew.total_seconds()}
    return {**told.holder_document(one), **also}


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
