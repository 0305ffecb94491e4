"""Incidents: alerts of one cause are one thing to a person. A host that dies with three runs is one message and one
card, and not seven. Pure, but for the flow that puts a person's word on record.

*A cause* is a text that the folds give to each finding: the host that died, the job, the store. Alerts of one cause
that began within a quarter of an hour of each other are one incident; what begins later is news again.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from cronce.errors import NotOnRecord
from cronce.model import Instant, Mark
from cronce.monitor.alerts import AlertKind, Alerts, facts_of, is_snoozed, key_of, rank, worst_first
from cronce.protocol.codec import all_readable
from cronce.protocol.notices import Alert, Delivery, Handled, decode_alert
from cronce.runtime.client import Client
from cronce.runtime.flow import Flow
from cronce.runtime.queries import read_all
from cronce.stores.base import Scan
from cronce.telling.documents import handled_document
from cronce.telling.words import iso, safe
from cronce.value import NamedTuple

TOGETHER: Final = timedelta(minutes=15)

TOUCHED_NAMED: Final = 20
"""So many slots, and effects, an alert names of those that it touches."""

SCHEDULERS, STORE = "schedulers", "store"
"""Causes: no scheduler is alive; the store itself."""


def host_cause(holder: str) -> str:
    return f"host {holder.partition(':')[0]}"


def with_causes(found: Sequence[Alert]) -> list[Alert]:
    """Each with its cause. Where no scheduler is alive, that is why hosts are gone and runs are lost."""
    nobody = any(one.kind == AlertKind.SILENT and not one.subject for one in found)
    return [one._replace(cause=_cause(one, nobody=nobody)) for one in found]


def _cause(one: Alert, *, nobody: bool) -> str:
    if nobody and (one.cause.startswith("host ") or one.id == f"{AlertKind.SILENT}/"):
        return SCHEDULERS
    if one.cause:
        return one.cause
    of = facts_of(one.kind).of
    if of == "store":
        return STORE
    return f"job {one.subject}" if of == "job" and one.subject else one.id


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


def handle(client: Client, name: str, by: str, reason: str, span: timedelta | None = None) -> Flow[dict[str, object]]:
    """Put on record that somebody is on it or, for a span, that it can wait: of all alerts of the incident."""
    _, cells = yield from read_all(Scan("alert/", mark=Mark.OPEN))
    standing = [one for _, one in all_readable(cells, decode_alert) if one.cleared is None]
    wanted = next((one for one in standing if one.id in (name, f"{name}/")), None)
    if wanted is None:
        known = ", ".join(one.id for one in standing[:5]) or "none"
        raise NotOnRecord(safe(f"no alert {name[:80]} is open; open alerts: {known}"))
    incident, handled = incident_of(wanted, standing), None
    for one in incident.alerts:
        done = yield from Alerts(client).handle(key_of(one.kind, one.subject), by, reason, span)
        handled = done.handled if done else handled
    return {"id": wanted.id, "alerts": [one.id for one in incident.alerts], "handled": handled_document(handled)}


# --- who is told ------------------------------------------------------------------------------------------------------


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
    """Whether an alert is over, and its incident is not: then nobody is told yet."""
    return alert.cleared is not None and any(one.cleared is None for one in incident.alerts)
