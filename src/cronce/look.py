"""Looking from Python: `cron.look.runs("billing")` gives what `cronce runs billing --json` prints, typed.

The documents are those of the command line, key by key: instants are ISO 8601 texts in UTC, what is missing is None.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypedDict, cast

from cronce.errors import BadInput
from cronce.model import Instant, Slot, check_name
from cronce.monitor import read_lists
from cronce.monitor.alerts import incident_document, incidents
from cronce.monitor.read_jobs import JobIndex
from cronce.monitor.read_overview import Overview, overview
from cronce.protocol.record import Act
from cronce.runtime import queries
from cronce.runtime.clock_repair import clock_doubt
from cronce.runtime.flow import Flow
from cronce.runtime.journal import Journal
from cronce.runtime.node import Node
from cronce.runtime.prevented import prevented_in
from cronce.runtime.queries import HolderSeen, RunSeen
from cronce.runtime.run_lists import Order, runs
from cronce.runtime.why import Why, slot_meant, why
from cronce.stores.base import Scan
from cronce.telling import documents as told
from cronce.telling.documents import LEADERS, LOCK_LEASES
from cronce.telling.words import iso
from cronce.value import NamedTuple

MAX_RUNS: Final = 10_000
"""The highest number of runs to ask for."""


class ActDocument(TypedDict):
    """What a person did by hand."""

    by: str | None
    at: str | None
    reason: str | None


class RunDocument(TypedDict):
    """A run of a slot."""

    job: str
    slot: str
    state: str
    outcome: str | None
    holder: str | None
    fence: str | None
    grant: int | None
    started: str | None
    finished: str | None
    reason: str | None
    lapsed: bool
    host_gone: bool
    fate: str | None
    by: str | None
    payload: Any
    progress: list[int] | None


class SlotDocument(TypedDict):
    """What is known of a slot: the sentence is for people, the case for programs."""

    slot: str
    case: str
    sentence: str
    run: RunDocument | None
    past: list[dict[str, Any]]
    refused: list[dict[str, Any]]
    effects: dict[str, Any]
    output: str


class WhyDocument(TypedDict):
    """A job, and its slots that matter; or the one that was asked about."""

    job: str
    next: str | None
    carried: bool
    paused: bool | None
    pause: ActDocument | None
    floor: str | None
    refusals: dict[str, int]
    effects: dict[str, Any] | None
    slots: list[SlotDocument]


class Counted(TypedDict):
    """How many runs there are, and the newest of them; with `more` there are more than were counted."""

    count: int
    more: bool
    runs: list[RunDocument]


class Upcoming(TypedDict):
    job: str
    next: str
    carried: bool


class StatusDocument(TypedDict):
    """The whole at a glance: what is wrong first."""

    now: str
    store: str
    halted: ActDocument | None
    incidents: list[dict[str, Any]]
    alerts: list[dict[str, Any]]
    attention: Counted
    in_doubt: dict[str, Any]
    holders: list[dict[str, Any]]
    guests: list[dict[str, Any]]
    open: Counted
    next: list[Upcoming]
    newest: list[RunDocument]
    prevented: int
    locks: list[dict[str, Any]]
    leaders: list[dict[str, Any]]
    observed: list[dict[str, Any]]


class Look:
    """What `cron.look` is: reads the store, and changes nothing."""

    def __init__(self, node: Callable[[], Node], place: str, journal: Journal) -> None:
        self._node, self._place, self._journal = node, place, journal

    def runs(
        self, job: str | None = None, *, state: str | None = None, limit: int = 20, by: Order = "ran"
    ) -> list[RunDocument]:
        """The latest runs of a job, or of all; `by="slot"` orders them by their slots. As `cronce runs --json`."""
        if not 1 <= limit <= MAX_RUNS:
            raise BadInput(f"limit must be from 1 to {MAX_RUNS:,}, not {limit}")
        found = self._node().do(find_runs(job, state, limit, by))
        return [cast(RunDocument, told.run_document(one)) for one in found]

    def why(self, what: str | Slot) -> WhyDocument:
        """Why a slot ran, runs or did not run, or how a job's latest slots stand. As `cronce why --json`."""
        found = find_why(self._node(), what.key if isinstance(what, Slot) else what, self._journal)
        return cast(WhyDocument, told.why_document(found))

    def status(self) -> StatusDocument:
        """The store, who is alive, what runs, what is next, what is wrong. As `cronce status --json`."""
        return status_document(self._node().do(find_status()), self._place)


# --- for the command line, too ----------------------------------------------------------------------------------------


def find_runs(job: str | None, state: str | None, limit: int, by: Order = "ran") -> Flow[list[RunSeen]]:
    """The latest runs; whether there is such a job is asked only where it has none."""
    found = yield from runs(job, state, limit, by)
    if job is not None and not found:
        queries.refuse_unknown(job, (yield from queries.job_names()))
    return found


def find_why(node: Node, what: str, journal: Journal) -> Why:
    """What is known of a job, or of the slot that is named."""
    slot = node.do(slot_meant(what)) if "@" in what else None
    job = slot.job if slot else check_name(what)
    doubt = node.do(clock_doubt(node.ledger))
    found = node.do(why(job, slot, node.store.traits))
    if found is None:
        queries.refuse_unknown(job, node.do(queries.job_names()))
    assert found is not None
    return found._replace(journal=tuple(journal.all()), doubt=doubt.words if doubt else "")


class Status(NamedTuple):
    """The overview of the page, and who holds what."""

    overview: Overview
    carried: set[str]
    """The jobs that a live scheduler would run."""
    jobs: int
    paused: Mapping[str, Act]
    """The jobs that are paused, each by itself."""
    prevented: int
    """Duplicate runs that were prevented."""
    locks: Sequence[queries.HeldSeen]
    leaders: Sequence[queries.HeldSeen]
    observed: Sequence[dict[str, object]]


def find_status() -> Flow[Status]:
    index = JobIndex()
    yield from index.keep_up()
    seen = yield from overview(index=index)
    locks = (yield from queries.held(LOCK_LEASES.prefix, most=read_lists.LIST_SHOWN)).held
    leaders = (yield from queries.held(LEADERS.prefix, most=read_lists.LIST_SHOWN)).held
    watched = (yield from read_lists.observed()).items()
    observed = [told.observed_document(name, one) for name, one in watched]
    carried = yield from queries.carried([one for one in seen.holders if one.until > seen.now])
    counts = yield from queries.read_all(Scan("duplicates/"))
    prevented = sum(one.total for one in prevented_in(counts.cells).values())
    return Status(seen, carried, len(index), index.paused, prevented, _not_free(locks), _not_free(leaders), observed)


def _not_free(held: Sequence[queries.HeldSeen]) -> list[queries.HeldSeen]:
    return [one for one in held if one.state != "free"]


def status_document(found: Status, place: str) -> StatusDocument:
    seen = found.overview
    document = {
        **overview_document(seen, place),
        "incidents": [incident_document(one) for one in incidents(seen.alerts.alerts)],
        "guests": [
            {
                "name": one.name,
                "kind": one.kind,
                "jobs": [job.name for job in one.jobs],
                "next": [{"job": job.name, "schedule": job.schedule, "next": iso(job.next)} for job in one.jobs],
                "last": iso(one.last),
            }
            for one in seen.guests
        ],
        "next": [
            {"job": one.seen.name, "next": iso(one.next), "carried": one.seen.name in found.carried}
            for one in seen.upcoming
        ],
        "prevented": found.prevented,
        "locks": [told.held_document(one, LOCK_LEASES) for one in found.locks],
        "leaders": [told.held_document(one, LEADERS) for one in found.leaders],
        "observed": list(found.observed),
    }
    return cast(StatusDocument, {key: document[key] for key in StatusDocument.__annotations__})


# --- for the API, too -------------------------------------------------------------------------------------------------


def overview_document(seen: Overview, place: str) -> dict[str, object]:
    return {
        "now": iso(seen.now),
        "store": place,
        "halted": told.act_document(seen.halted),
        "alerts": [told.alert_document(one) for one in seen.alerts.alerts],
        "attention": counted_document(seen.attention),
        "in_doubt": {"count": seen.in_doubt.number, "more": seen.in_doubt.more},
        "holders": [living_document(one, seen.now) for one in seen.holders],
        "open": counted_document(seen.open),
        "newest": [told.run_document(one) for one in seen.newest],
    }


def counted_document(found: read_lists.RunList) -> dict[str, object]:
    return {"count": found.number, "more": found.more, "runs": [told.run_document(one) for one in found.runs]}


def living_document(one: HolderSeen, now: Instant) -> dict[str, object]:
    also = {"life": one.life(now), "running": one.holder.running, "skew": one.holder.skew.total_seconds()}
    return {**told.holder_document(one), **also}
