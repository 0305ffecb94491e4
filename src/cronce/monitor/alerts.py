"""Alerts: findings in the store, so that those who should know are told, and told once.

*An alert is a cell*, `alert/<kind>/<subject>`. It is open from when the finding is raised until every destination that
was told of it has been told that it is over. However many processes watch, and however often they restart, it is raised
once: each write names the version that it rests on, and one that lost is not repeated, since the next look sees what
won.

*A notice is claimed before it is sent.* Destinations are named by their digests, so the same webhook in ten processes
is one. A process that claims a notice has half a minute to send it and record that. If it fails, or ends before that,
any process may try again: a notice comes at least once, and twice only if its sender died in between.

*Nothing flaps.* What is gone has to be gone at the next look, too, before it is cleared. What comes back within five
minutes of being cleared is sent again only if it is still there when they are over, unless it is critical. And a new
leader, which cannot know some things yet, does not clear an alert because it did not find its reason.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from enum import StrEnum
from hashlib import blake2b
from itertools import groupby
from typing import Final, Literal, TypeVar

from cronce.errors import NotOnRecord
from cronce.model import Cell, Epoch, Instant, Mark, Write, alert_cell
from cronce.protocol.codec import all_readable, readable
from cronce.protocol.notices import Alert, Delivery, Handled, Notice, decode_alert, encode_notice
from cronce.runtime.client import Client
from cronce.runtime.flow import Flow
from cronce.runtime.queries import read_all
from cronce.runtime.scheduling.roster import chunks
from cronce.stores.base import Scan
from cronce.telling.documents import handled_document
from cronce.telling.words import iso, safe
from cronce.value import NamedTuple

T = TypeVar("T")

Severity = Literal["critical", "warning", "info"]
"""Critical: something ran twice, did not run, or may have. Warning: it will, unless one acts. Info: worth knowing."""


_LEASE_EXPIRED: Final = "The lease expired, and no process runs the slot now."


class AlertKind(StrEnum):
    """What is wrong. The name is part of an alert's key, so it is never changed. With it goes what the page says of it,
    besides the text of the alert."""

    of: Literal["job", "store", ""]
    """What its alerts are about: those of one job, or of the store, are one incident."""
    heading: str
    """Of its card on the page; the subject stands for {}."""
    certain: str
    unsure: str

    def __new__(
        cls, name: str, heading: str, of: Literal["job", "store", ""] = "", certain: str = "", unsure: str = ""
    ) -> "AlertKind":
        kind = str.__new__(cls, name)
        kind._value_, kind.heading, kind.of, kind.certain, kind.unsure = name, heading, of, certain, unsure
        return kind

    SILENT = "silent", "{} has no scheduler", "job"  # a job is scheduled, and no live scheduler carries it
    GONE = (  # a scheduler stopped sending heartbeats without shutting down
        "gone",
        "{} is gone",
        "",
        "It stopped sending heartbeats.",
        "Whether the process died, or only lost the store.",
    )
    CROWDED = "crowded", "More schedulers than expected"  # there are more schedulers than expected
    # a slot is long due, and there is no run of it
    MISSED = "missed", "{} missed its slots", "job", "The slot did not run."
    LATE = "late", "{} is late", "job"  # a slot started late, or has not started yet
    # the latest slot of a job failed
    FAILED = "failed", "{} failed", "job", "The run ended, and its failure is on record."
    # a run takes longer than ever, than its lease allows or than its timeout
    OVERRUN = "overrun", "{} takes too long", "job"
    NO_PROGRESS = "no-progress", "{} makes no progress", "job"  # a run reports its progress, and makes none
    # a run ended on this machine, and that could not be recorded yet
    UNSAID = "unsaid", "The end of {} is not recorded yet"
    # a lease expired long ago and no process acted on it
    STUCK = "stuck", "{} was left by its process", "", _LEASE_EXPIRED
    LAPSING = "lapsing", "Leases of {} keep expiring"  # leases of a job lapse again and again
    # runs whose holder died, and that do not run again by themselves
    LOST = "lost", "{} was lost", "", _LEASE_EXPIRED, "How much of its work was done."
    UNKNOWN = (  # runs that may or may not have happened
        "unknown",
        "{} may or may not have run",
        "",
        "No process runs the slot now, and effects that are done are not repeated.",
        "Whether all of its work was done.",
    )
    # effects that may or may not have happened
    IN_DOUBT = "in-doubt", "{}: effects in doubt", "", "", "Whether the effect happened."
    SKEW = "skew", "The clock of {} is off"  # a machine's clock is off
    CLOCK = "clock", "The store's clock jumped", "store"  # the store's clock jumped, and is not believed
    # the store's clock was far ahead once, and closed slots of the future
    AHEAD = "ahead", "Records are dated in the future", "store"
    AMNESIA = "amnesia", "The store lost records", "store"  # the store forgot, or was set back
    COPIED = "copied", "{} has a copy of a store"  # this is a copy of a store, or was restored elsewhere
    UNREACHABLE = "unreachable", "The store does not answer {}"  # the store does not answer this process
    UNUSABLE = "unusable", "{} cannot use its store"  # the store needs a person
    SUPERSEDED = "superseded", "{} has an old version"  # an old version of a job is still alive somewhere
    FLAPPING = "flapping", "{} keeps losing its leader"  # a leadership changes hands again and again
    BEAT_SILENT = "beat-silent", "{} stopped sending heartbeats"  # the heartbeat of another scheduler is overdue
    BEAT_DOUBLE = "beat-double", "{} runs more than once"  # it comes too often: there are two of it
    DOUBLED = "doubled", "{} ran twice"  # calls were only observed, and some of them were duplicates
    # live schedulers have different functions under one name
    SHARED_NAME = "shared-name", "{} is the name of two functions"
    # machines have different versions of the time zone database
    TZDATA = "tzdata", "Machines have different time zone data"


def known_kind(name: str) -> AlertKind | None:
    """None: only a newer cronce has it."""
    return next((kind for kind in AlertKind if kind == name), None)


SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "warning", "info")


def rank(severity: str) -> int:
    """The worst is the first; one of a newer cronce is the last."""
    known: tuple[str, ...] = SEVERITIES
    return known.index(severity) if severity in known else len(known)


_PLACES: Final = {str(kind): place for place, kind in enumerate(AlertKind)}


def worst_first(one: Alert) -> tuple[int, int, Instant, str]:
    """In which order they are told: by severity, then as the kinds stand above, what explains others before these."""
    return rank(one.severity), _PLACES.get(one.kind, len(_PLACES)), one.since, one.subject


# --- findings that are many, or say the same -------------------------------------------------------------------------

ALERTS_PER_KIND: Final = 10
"""Of a kind, so many stand by themselves."""

REST_OF_KIND: Final = "*"
"""What the rest of them is about: no job is called that."""


def gathered(found: Iterable[Alert], standing: Collection[str] = ()) -> list[Alert]:
    """What is told of findings that are many, or say the same: ten thousand jobs that fail together are ten alerts and
    one more, and not ten thousand messages.

    The worst first. Those that are open stay on their own. While the rest of a kind is open, none moves out of it, so
    that as they recover, one by one, nothing is sent until they all have."""
    ordered = sorted(_news(list(found), standing), key=lambda one: (one.kind, worst_first(one)))
    told: list[Alert] = []
    for kind, group in groupby(ordered, key=lambda one: one.kind):
        same = list(group)
        alone = [one for one in same if one.id in standing]
        others = [one for one in same if one.id not in standing]
        room = 0 if f"{kind}/{REST_OF_KIND}" in standing else max(ALERTS_PER_KIND - len(alone), 0)
        told += [*alone, *others[:room], *_rest(kind, others[room:])]
    return sorted(told, key=worst_first)


def _news(found: list[Alert], standing: Collection[str]) -> Iterator[Alert]:
    """Where no scheduler is alive no slot runs: that is said once, and not of each job."""
    none_alive = any(one.kind == AlertKind.SILENT and not one.subject for one in found)
    for one in found:
        follows = none_alive and one.kind in (AlertKind.MISSED, AlertKind.LATE)
        if not follows or one.id in standing or f"{one.kind}/{REST_OF_KIND}" in standing:
            yield one


def _rest(kind: str, rest: list[Alert]) -> Iterator[Alert]:
    if rest:
        first = rest[0]
        text = f"{kind}: and {len(rest):,} more, such as {first.subject}: {first.text}"
        yield Alert(kind, REST_OF_KIND, first.severity, text, min(one.since for one in rest), remedy=first.remedy)


IsOver = Callable[[Alert], bool]

REWORDED: Final = timedelta(minutes=1)
"""How often the text of an alert is written anew at most: many say for how long something lasts."""

QUIET_BEFORE_CLEARED: Final = timedelta(minutes=5)
GIVEN_UP: Final = timedelta(hours=1)
"""After this long a recovery is no news, and destinations that could not be told of it are given up."""

CLEARED_KEPT: Final = timedelta(days=7)
FIRST_PAUSE: Final = timedelta(seconds=5)
MAX_NOTICE_PAUSE: Final = timedelta(minutes=5)

LONGEST_SUBJECT: Final = 200
"""Bytes of a subject that fit into a key; of a longer one there stands its digest. The alert has it in full."""


class AlertInCell(NamedTuple):
    """An alert and the cell that it was read from."""

    cell: Cell
    alert: Alert


class OpenAlerts(NamedTuple):
    """The alerts that are open, and those that are over but not yet reported as over everywhere, worst first."""

    now: Instant
    epoch: Epoch
    posted: tuple[AlertInCell, ...]


class NoticeClaim(NamedTuple):
    """The right to send a notice, for a while."""

    key: str
    alert: Alert
    delivery: Delivery


def key_of(kind: str, subject: str) -> str:
    if subject.isprintable() and len(subject.encode(errors="replace")) <= LONGEST_SUBJECT:
        return alert_cell(kind, subject)
    return alert_cell(kind, f"#{blake2b(subject.encode(errors='replace'), digest_size=16).hexdigest()}")


# --- what becomes of an alert, pure -----------------------------------------------------------------------------------


def raised(was: Alert | None, finding: Alert, now: Instant, *, reword: bool) -> Alert | None:
    """The alert of a finding; None: it stands as it is. While it stands it gets worse and never better, so that one
    which wavers is told twice at most."""
    if was is None:
        return finding
    if was.cleared is not None:
        since = was.since if now - was.cleared < QUIET_BEFORE_CLEARED else finding.since
        again = finding._replace(since=since, times=was.times + 1, deliveries=was.deliveries)
        return _told_at_once(again, now) if again.severity == "critical" else again
    if rank(finding.severity) < rank(was.severity):
        return finding._replace(since=was.since, times=was.times)
    words = was._replace(text=finding.text, remedy=finding.remedy, slots=finding.slots, effects=finding.effects)
    return words if reword and words != was else None


def _told_at_once(alert: Alert, now: Instant) -> Alert:
    told = alert.deliveries.items()
    return alert._replace(deliveries={to: one._replace(until=now) if one.sent else one for to, one in told})


def due(alert: Alert, to: str, now: Instant) -> Notice | None:
    """What that destination should be told of it now."""
    wanted: Notice = "raised" if alert.cleared is None else "cleared"
    told = alert.deliveries.get(to)
    if wanted == "raised" and is_seen_to(alert, now):
        return None
    if told is None:
        return "raised" if wanted == "raised" else None
    behind = told.notice != wanted or told.sent is None or (wanted == "raised" and _was_snoozed(alert, told))
    return wanted if behind and told.until <= now else None


def is_seen_to(alert: Alert, now: Instant) -> bool:
    """Whether a person works on it, or has snoozed it: then nothing more is sent about it, also to those who have not
    heard of it yet."""
    return alert.handled is not None and (alert.handled.until is None or now < alert.handled.until)


def is_snoozed(alert: Alert, now: Instant) -> bool:
    return alert.handled is not None and alert.handled.until is not None and now < alert.handled.until


def _was_snoozed(alert: Alert, told: Delivery) -> bool:
    """Whether it was snoozed after it was told: if it still stands then, it is told again."""
    until = alert.handled.until if alert.handled else None
    return until is not None and told.sent is not None and told.sent < until


def over(alert: Alert, now: Instant) -> bool:
    """Whether no destination has to be told anything more of it."""
    if alert.cleared is None:
        return False
    all_told = all(one.notice == "cleared" and one.sent for one in alert.deliveries.values())
    return all_told or now - alert.cleared >= GIVEN_UP


def pause(tries: int) -> timedelta:
    """How long to wait after so many tries."""
    return min(FIRST_PAUSE * (1 << min(tries - 1, 10)), MAX_NOTICE_PAUSE)


def _concluded(alert: Alert, claim: Delivery, now: Instant, *, sent: bool) -> Delivery:
    """Of a recovery that was told, `until` is when it may be told that it is back."""
    if not sent:
        return claim._replace(until=now + pause(claim.tries))
    return claim._replace(
        sent=now, until=(alert.cleared or now) + QUIET_BEFORE_CLEARED if claim.notice == "cleared" else now
    )


# --- incidents: alerts of one cause are one thing to a person ---------------------------------------------------------
#
# A host that dies with three runs is one message and one card, and not seven. *A cause* is a text: the host that died,
# the job, the store. Alerts of one cause that began within a quarter of an hour of each other are one incident; what
# begins later is news again.

TOGETHER: Final = timedelta(minutes=15)

TOUCHED_NAMED: Final = 20
"""So many slots, and effects, an alert names of those that it touches."""

SCHEDULERS, STORE = "schedulers", "store"
"""Causes: no scheduler is alive; the store itself."""


def host_cause(holder: str) -> str:
    return f"host {holder.partition(':')[0]}"


def with_causes(found: Sequence[Alert]) -> list[Alert]:
    """Each with its cause. Where no scheduler is alive, that is why hosts are gone and runs are lost."""
    none_alive = any(one.kind == AlertKind.SILENT and not one.subject for one in found)
    return [one._replace(cause=_cause(one, none_alive=none_alive)) for one in found]


def _cause(one: Alert, *, none_alive: bool) -> str:
    if none_alive and (one.cause.startswith("host ") or one.id == f"{AlertKind.SILENT}/"):
        return SCHEDULERS
    if one.cause:
        return one.cause
    kind = known_kind(one.kind)
    if kind and kind.of == "store":
        return STORE
    return f"job {one.subject}" if kind and kind.of == "job" and one.subject else one.id


class Incident(NamedTuple):
    """Alerts of one cause, the worst first: that one speaks for them."""

    alerts: tuple[Alert, ...]

    @property
    def lead(self) -> Alert:
        return self.alerts[0]

    @property
    def since(self) -> Instant:
        return min(one.since for one in self.alerts)

    @property
    def slots(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(slot for one in self.alerts for slot in one.slots))

    @property
    def effects(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(effect for one in self.alerts for effect in one.effects))

    @property
    def handled(self) -> Handled | None:
        """What was said of the worst of them that a watcher has raised."""
        return next((one.handled for one in self.alerts if one.times), None)

    def is_snoozed(self, now: Instant) -> bool:
        return any(is_snoozed(one, now) for one in self.alerts if one.handled == self.handled)


def incidents(alerts: Iterable[Alert]) -> list[Incident]:
    """The worst first."""
    groups: list[list[Alert]] = []
    for one in sorted(alerts, key=lambda one: (one.cause or one.id, one.since)):
        last = groups[-1][-1] if groups else None
        if last and (last.cause or last.id) == (one.cause or one.id) and one.since - last.since <= TOGETHER:
            groups[-1].append(one)
        else:
            groups.append([one])
    found = [Incident(tuple(sorted(group, key=worst_first))) for group in groups]
    return sorted(found, key=lambda one: worst_first(one.lead))


def incident_of(alert: Alert, alerts: Iterable[Alert]) -> Incident:
    """The one that it is part of."""
    return next(one for one in incidents(alerts) if any(each.id == alert.id for each in one.alerts))


def incident_document(one: Incident) -> dict[str, object]:
    return {
        "id": one.lead.id,
        "cause": one.lead.cause or one.lead.id,
        "severity": one.lead.severity,
        "since": iso(one.since),
        "alerts": [each.id for each in one.alerts],
        "slots": list(one.slots),
        "effects": list(one.effects),
        "handled": handled_document(one.handled),
    }


def is_covered(alert: Alert, incident: Incident, to: str) -> bool:
    """Whether that destination knows: it was told of another that is as bad; or will be told that all is over."""
    others = [one for one in incident.alerts if one.id != alert.id]
    told = [(one, one.deliveries[to]) for one in others if to in one.deliveries]
    if alert.cleared is None:
        return any(_is_told(one, said) and rank(one.severity) <= rank(alert.severity) for one, said in told)
    own = alert.deliveries.get(to)
    owed = any(one.cleared and said.notice == "raised" and said.tries for one, said in told)
    return own is not None and not own.tries and owed


def _is_told(one: Alert, said: Delivery) -> bool:
    return one.cleared is None and said.notice == "raised" and said.sent is not None


def goes_on(alert: Alert, incident: Incident) -> bool:
    """Whether an alert is over, and its incident is not: then nothing is sent yet."""
    return alert.cleared is not None and any(one.cleared is None for one in incident.alerts)


# --- at the store -----------------------------------------------------------------------------------------------------


class Alerts:
    """The alerts of a store. The leader remembers here what it found at its last look, and what was gone."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._gone: set[str] = set()
        self._found: set[str] = set()

    def standing(self) -> Flow[OpenAlerts]:
        page = yield from self._client.scan(Scan("alert/", mark=Mark.OPEN))
        epoch, cells = page.epoch, list(page.cells)
        while page.next is not None:
            page = yield from self._client.scan(Scan("alert/", mark=Mark.OPEN, after=page.next))
            cells += page.cells
        posted = (AlertInCell(cell, alert) for cell in cells if (alert := _read(cell)) is not None)
        return OpenAlerts(page.now, epoch, tuple(sorted(posted, key=lambda one: worst_first(one.alert))))

    def settle(self, findings: Iterable[Alert], is_over: IsOver, *, anew: bool = False) -> Flow[None]:
        """Raise what was found, reword what has changed, clear what is gone for the second time, and free what
        every destination knows is over. What another process changed meanwhile is left for the next look. `is_over`:
        whether one is that was never found here; `anew`: others looked in between."""
        if anew:
            self._gone, self._found = set(), set()
        seen = yield from self.standing()
        stand = {one.cell.key: one for one in seen.posted}
        raised_now = {one.alert.id for one in seen.posted if one.alert.cleared is None}
        told = ((key_of(one.kind, one.subject), one) for one in gathered(findings, raised_now))
        found = {key: one for key, one in told if not _is_less(one, stand.get(key))}
        writes = [write for one in seen.posted if (write := self._settled(one, found, seen.now)) is not None]
        missing = (one for one in seen.posted if one.cell.key not in found and one.alert.cleared is None)
        self._gone = {one.cell.key for one in missing if one.cell.key in self._found or is_over(one.alert)}
        self._found = (self._found & stand.keys()) | found.keys()
        for keys in chunks(sorted(found.keys() - stand.keys())):
            loaded, _ = yield from self._client.load(keys)
            pairs = ((cell, raised(_read(cell), found[cell.key], seen.now, reword=True)) for cell in loaded.cells)
            writes += [_written(cell, alert) for cell, alert in pairs if alert is not None]
        for some in chunks(writes):
            yield from self._client.swap(some, seen.epoch.seen)

    def _settled(self, one: AlertInCell, found: dict[str, Alert], now: Instant) -> Write | None:
        cell, alert = one
        finding = found.get(cell.key)
        if finding is not None:
            new = raised(alert, finding, now, reword=cell.until is None or cell.until <= now)
            return None if new is None else _written(cell, new)
        if alert.cleared is None and cell.key in self._gone:
            alert = alert._replace(cleared=now)
            return _freed(cell, alert) if over(alert, now) else _written(cell, alert)
        return _freed(cell, alert) if over(alert, now) else None

    def claim(self, key: str, to: str, lasting: timedelta) -> Flow[NoticeClaim | None]:
        """The right to tell that destination what it should be told of the alert; None: nothing, or another does."""

        def claimed(alert: Alert, now: Instant) -> tuple[NoticeClaim | None, Alert | None]:
            notice = due(alert, to, now)
            if notice is None:
                return None, None
            before = alert.deliveries.get(to)
            tries = before.tries + 1 if before and before.notice == notice else 1
            delivery = Delivery(notice, None, now + lasting, tries)
            alert = _with(alert, to, delivery)
            return NoticeClaim(key, alert, delivery), alert

        return (yield from self._change(key, claimed))

    def conclude(self, claim: NoticeClaim, to: str, *, sent: bool) -> Flow[None]:
        """Whether it was sent. Nothing is said if the claim has lapsed and another has it, or there is other news."""

        def concluded(alert: Alert, now: Instant) -> tuple[None, Alert | None]:
            if alert.deliveries.get(to) != claim.delivery:
                return None, None
            return None, _with(alert, to, _concluded(alert, claim.delivery, now, sent=sent))

        yield from self._change(claim.key, concluded)

    def cover(self, key: str, to: str) -> Flow[None]:
        """That destination was told with another alert of the same cause."""

        def covered(alert: Alert, now: Instant) -> tuple[None, Alert | None]:
            notice = due(alert, to, now)
            until = now + QUIET_BEFORE_CLEARED if notice == "cleared" else now
            return None, _with(alert, to, Delivery(notice, now, until, 0)) if notice else None

        yield from self._change(key, covered)

    def handle(self, key: str, by: str, reason: str, span: timedelta | None) -> Flow[Alert | None]:
        """Record that a person works on it or, for a span, that it can wait. None: no such alert is open."""

        def handled(alert: Alert, now: Instant) -> tuple[Alert | None, Alert | None]:
            if alert.cleared is not None:
                return None, None
            alert = alert._replace(handled=Handled(by, now, reason, now + span if span else None))
            return alert, alert

        return (yield from self._change(key, handled))

    def _change(self, key: str, change: Callable[[Alert, Instant], tuple[T, Alert | None]]) -> Flow[T | None]:
        """What comes of a change to an alert that is open, and what it is then; None: it stays as it is."""

        def make(cell: Cell, now: Instant) -> tuple[T | None, Write | None]:
            alert = _read(cell) if cell.mark is Mark.OPEN else None
            answer, changed = change(alert, now) if alert else (None, None)
            if changed is None:
                return answer, None
            return answer, _freed(cell, changed) if over(changed, now) else _kept(cell, changed)

        return (yield from self._client.rewrite(key, make))


def handle(client: Client, name: str, by: str, reason: str, span: timedelta | None = None) -> Flow[dict[str, object]]:
    """Record that a person works on it or, for a span, that it can wait: of all alerts of the incident."""
    cells = (yield from read_all(Scan("alert/", mark=Mark.OPEN))).cells
    standing = [one for _, one in all_readable(cells, decode_alert) if one.cleared is None]
    wanted = next((one for one in standing if one.id in (name, f"{name}/")), None)
    if wanted is None:
        raise no_such_alert(name, standing)
    incident, handled = incident_of(wanted, standing), None
    for one in incident.alerts:
        done = yield from Alerts(client).handle(key_of(one.kind, one.subject), by, reason, span)
        handled = done.handled if done else handled
    return {"id": wanted.id, "alerts": [one.id for one in incident.alerts], "handled": handled_document(handled)}


def no_such_alert(name: str, known: Iterable[Alert]) -> NotOnRecord:
    ids = list(dict.fromkeys(one.id for one in known))
    return NotOnRecord(safe(f"no alert {name[:80]} is open; open alerts: {', '.join(ids[:5]) or 'none'}"))


def _is_less(finding: Alert, posted: AlertInCell | None) -> bool:
    """What is only worth knowing does not keep alive what was worse: first everybody hears that that is over."""
    return finding.severity == "info" and posted is not None and posted.alert.severity != "info"


def _read(cell: Cell) -> Alert | None:
    """What a newer cronce wrote is left to that."""
    return readable(cell, decode_alert) if cell.version else None


def _with(alert: Alert, to: str, delivery: Delivery) -> Alert:
    return alert._replace(deliveries={**alert.deliveries, to: delivery})


def _written(cell: Cell, alert: Alert) -> Write:
    return Write(cell.key, cell.version, encode_notice(alert), Mark.OPEN, ttl=REWORDED)


def _kept(cell: Cell, alert: Alert) -> Write:
    return Write(cell.key, cell.version, encode_notice(alert), cell.mark)


def _freed(cell: Cell, alert: Alert) -> Write:
    return Write(cell.key, cell.version, encode_notice(alert), Mark.FREE, ttl=CLEARED_KEPT)
