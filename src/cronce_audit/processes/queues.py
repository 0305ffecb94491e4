"""Messages that a broker delivers a second time while the first is still waiting for its moment."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from cronce_audit.model import Confidence, Facts, Found, Place, Rule, Severity, rule
from cronce_audit.processes.celery import settings_called
from cronce_audit.python.facts import Table
from cronce_audit.python.names import names

_DEFAULT: Final = 3600
"""Seconds, of Celery with Redis; SQS has its own, which is shorter."""
_BROKER: Final = frozenset({"broker", "broker_url", "celery_broker_url"})
_OPTIONS: Final = frozenset({"broker_transport_options", "celery_broker_transport_options"})


@rule(
    "CR214",
    "countdown-beyond-visibility-timeout",
    Severity.ERROR,
    Confidence.HIGH,
    remedy="make `visibility_timeout` longer than the longest countdown; or let a schedule send the task when it is "
    "due",
)
def _redelivered(facts: Facts) -> Iterator[Found]:
    """A worker holds a message with a countdown unacknowledged. Redis and SQS hand it to another after the timeout."""
    found = _timeout(facts)
    if found is None:
        return
    timeout, said, sure, severity = found
    known = facts.conclude(names)
    for call in known.calls("apply_async", "retry", "send_task"):
        wait = known.constant(call.called.keyword("countdown"), call.scope.module)
        if isinstance(wait, int | float) and wait > timeout:
            yield Found(
                call.place,
                f"a countdown of {wait:g} s is longer than the visibility timeout of {timeout:g} s ({said}): "
                "the broker hands the waiting message to a second worker, and the task runs in both",
                sure,
                severity,
            )


class _Timeout(NamedTuple):
    """Seconds, and who says so."""

    seconds: float
    said: str
    confidence: Confidence | None = None
    severity: Severity | None = None


def _timeout(facts: Facts) -> _Timeout | None:
    """The one that is set; the default, where none is and Redis is the broker."""
    timeouts = dict(_timeouts(facts))
    place, seconds = next(iter(timeouts.items()), (None, None))
    if seconds is not None and set(timeouts.values()) == {seconds}:
        return _Timeout(seconds, str(place))
    if not any(settings_called(facts, _OPTIONS)) and (broker := _redis(facts)):
        said = f"the default, as {broker} names Redis"
        return _Timeout(_DEFAULT, said, Confidence.MEDIUM, Severity.WARNING)
    return None


def _redis(facts: Facts) -> Place | None:
    """Where Redis is named as the broker, if nothing else is."""
    known = facts.conclude(names)
    brokers = [(place, known.constant(value, module)) for _, value, place, module in settings_called(facts, _BROKER)]
    literal = all(isinstance(url, str) and url.startswith(("redis://", "rediss://")) for _, url in brokers)
    return brokers[0][0] if brokers and literal else None


def _timeouts(facts: Facts) -> Iterator[tuple[Place, float | None]]:
    known = facts.conclude(names)
    for name, value, place, module in settings_called(facts, _OPTIONS):
        if name.endswith("[visibility_timeout]"):
            given = known.constant(value, module)
        elif isinstance(value, Table) and value.get("visibility_timeout"):
            given = known.constant(value.get("visibility_timeout"), module)
        else:
            continue
        yield place, given if isinstance(given, int | float) else None


RULES: Final[tuple[Rule, ...]] = (_redelivered,)
