"""What is wrong with a lock made by hand."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cronce_audit.locks.handmade import Lock, compares_owner, is_atomic, locks
from cronce_audit.locks.spelled import spelling
from cronce_audit.model import Confidence, Facts, Found, Place, Severity, rule
from cronce_audit.python.apscheduler.jobs import jobs
from cronce_audit.python.apscheduler.triggers import seconds_between
from cronce_audit.python.facts import Call, Called, Const, Name, Operation, Value
from cronce_audit.python.names import Names, names

_NOW: Final = frozenset({
    "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today", "time.time",
    "time.time_ns", "time.strftime", "django.utils.timezone.now", "django.utils.timezone.localtime",
    "django.utils.timezone.localdate", "pendulum.now", "arrow.utcnow", "arrow.now", "time.gmtime", "time.localtime",
})  # fmt: skip
_SECONDS: Final = frozenset({"time.time", "time.time_ns"})
_FINE: Final = re.compile(r"%[HIMSTRXcfs]")
"""Parts of a format that change within a day."""
_JOBS: Final = re.compile(r"lock|cron|job|sched|slot|task|once|run_|nightly|daily|hourly", re.IGNORECASE)
_CLIENTS: Final = ("redis.", "valkey.", "aioredis.", "fakeredis.", "coredis.")


@rule(
    "CR301",
    "lock-released-by-anyone",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="compare and delete in one step, with a value of one's own: redis-py's `client.lock(name, timeout=…)` does "
    "so by a script; or `cron.lock(name)` of cronce, whose release names the fence",
)
def _released(facts: Facts) -> Iterator[Found]:
    for lock in _real(facts):
        for delete in lock.deletes if lock.expires or lock.renewals else ():
            if is_atomic(facts, delete):
                continue
            if compares_owner(delete, facts.conclude(spelling)):
                yield Found(
                    delete.place,
                    f"the lock taken at {lock.place} is read, compared and deleted in separate steps: when it runs out "
                    "in between, another's lock is deleted",
                )
            else:
                yield Found(
                    delete.place,
                    f"the lock taken at {lock.place} is deleted whoever holds it: when it has run out meanwhile, "
                    "another's lock is deleted, and a third gets in",
                )


@rule(
    "CR302",
    "lock-without-expiry",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="give it a time to live in the same command, `set(key, value, nx=True, ex=seconds)`, and renew it while the "
    "job works; cronce's leases are short and renewed",
)
def _for_ever(facts: Facts) -> Iterator[Found]:
    for lock in _real(facts):
        if lock.expires is False and not lock.renewals:
            sure = None if lock.deletes else Confidence.MEDIUM
            yield Found(
                lock.place, "this lock never runs out: after a crash nobody gets it again, and the job is lost", sure
            )
    known = facts.conclude(names)
    for call in known.calls("lock", "Lock"):
        if _is_clients_lock(call, known) and not _has_timeout(call.called):
            yield Found(
                call.place,
                "this lock has no timeout: after a crash nobody gets it again, and the job is lost",
                remedy="`client.lock(name, timeout=seconds)`, renewed by `lock.reacquire()` while the job works",
            )


@rule(
    "CR303",
    "lock-expires-in-a-second-step",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="set and expire in one command: `set(key, value, nx=True, ex=seconds)`",
)
def _two_steps(facts: Facts) -> Iterator[Found]:
    for lock in _real(facts):
        for expire in lock.renewals:
            if (
                lock.expires is False
                and expire.scope.function == lock.taken.scope.function
                and not _in_pipeline(expire, facts)
            ):
                yield Found(
                    expire.place,
                    f"the lock is set at {lock.place}, and given its time to live here: a crash in between leaves it "
                    "for ever",
                )


@rule(
    "CR304",
    "lock-renewed-by-anyone",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="renew only what is still one's own, in one step: redis-py's `lock.reacquire()` and `lock.extend()` do so "
    "by a script; cronce renews under the run's fence, and stops the run when it is lost",
)
def _renewed(facts: Facts) -> Iterator[Found]:
    for lock in _real(facts):
        for expire in lock.renewals:
            elsewhere = expire.scope.function != lock.taken.scope.function or expire.scope.loop
            if elsewhere and not is_atomic(facts, expire):
                how = (
                    "after a separate look" if compares_owner(expire, facts.conclude(spelling)) else "whoever holds it"
                )
                yield Found(
                    expire.place,
                    f"the lock taken at {lock.place} is extended {how}: one that lost it keeps another's alive, and "
                    "goes on",
                )


@rule(
    "CR305",
    "slot-named-after-the-clock",
    Severity.WARNING,
    Confidence.MEDIUM,
    remedy="name the slot after the schedule, not after the moment at which a host fired: cronce takes the latest "
    "scheduled instant, so 13:59:59.9 here and 14:00:00.1 there are one slot",
)
def _from_now(facts: Facts) -> Iterator[Found]:
    for lock in facts.conclude(locks):
        if not _JOBS.search(lock.name):
            continue
        for part in facts.conclude(spelling).parts(lock.key):
            if (fine := _is_now(part, lock.taken, facts)) is not None:
                yield Found(
                    lock.place,
                    "the key is made of the time at which this host asks: two hosts whose clocks are a moment apart "
                    "name different slots at the turn of the " + ("hour or minute" if fine else "day"),
                    severity=None if fine else Severity.INFO,
                )
                break


@rule(
    "CR306",
    "lock-outlives-the-interval",
    Severity.INFO,
    Confidence.HIGH,
    remedy="let it live for a little less than the interval, or, better, shortly, and renew it while the job works",
)
def _outlives(facts: Facts) -> Iterator[Found]:
    lives = _lives(facts)
    for job in facts.conclude(jobs):
        every = seconds_between(job)
        for place, life in lives.get(job.full_name, ()) if every else ():
            if every and life > every:
                yield Found(
                    place,
                    f"this lock lives for {life:g} s, and its job is due every {every:g} s ({job.place}): after a "
                    f"crash the next {int(life // every)} find it taken, and are lost",
                )


def _lives(facts: Facts) -> Mapping[str, Sequence[tuple[Place, float]]]:
    """For how many seconds the locks in each function live, where that is spelled out."""
    known = facts.conclude(names)
    found: dict[str, list[tuple[Place, float]]] = defaultdict(list)
    timed = [(lock.taken, {"ex": 1.0, "px": 0.001}) for lock in _real(facts)]
    timed += [(call, {"timeout": 1.0}) for call in known.calls("lock") if _is_clients_lock(call, known)]
    for call, units in timed:
        for name, unit in units.items():
            life = known.constant(call.called.keyword(name), call.scope.module)
            if isinstance(life, int | float):
                found[call.scope.function].append((call.place, life * unit))
    return found


def _real(facts: Facts) -> Iterator[Lock]:
    return (lock for lock in facts.conclude(locks) if lock.is_lock)


def _in_pipeline(call: Call, facts: Facts) -> bool:
    """Its commands are sent together, and run as one transaction."""
    made = facts.conclude(names).origin(call.receiver, call.scope.module)
    return isinstance(made, Called) and facts.conclude(spelling).of(made.function).rpartition(".")[2] == "pipeline"


def _is_now(value: Value, call: Call, facts: Facts) -> bool | None:
    """Whether it is the time of now: True if to the hour or finer, False if to the day; None if it is not."""
    if not isinstance(value, Called | Operation):
        return None
    known, spell = facts.conclude(names), facts.conclude(spelling)
    if not any(isinstance(part, Called) and _full(part, call, known) in _NOW for part in spell.parts(value)):
        return None
    full = {_full(part, call, known) for part in spell.parts(value) if isinstance(part, Called)}
    formats = [part.value for part in spell.parts(value) if isinstance(part, Const) and isinstance(part.value, str)]
    return bool(full & _SECONDS) or any(_FINE.search(text) for text in formats)


def _full(called: Called, call: Call, known: Names) -> str:
    return known.full_name(called.function, call.scope.module)


def _is_clients_lock(call: Call, known: Names) -> bool:
    if call.method == "Lock":
        return known.target(call).startswith(_CLIENTS) and call.called.args != ()
    return any(kind.startswith(_CLIENTS) for kind in known.kinds(call.receiver, call.scope.module))


def _has_timeout(called: Called) -> bool:
    """`lock(name, timeout)` of a client, `Lock(client, name, timeout)` of its class."""
    plain = 1 if isinstance(called.function, Name) and called.function.last == "lock" else 2
    given = called.keyword("timeout") or (called.args[plain] if len(called.args) > plain else None)
    return called.splat or given not in (None, Const(None))


RULES: Final = (_released, _for_ever, _two_steps, _renewed, _from_now, _outlives)
