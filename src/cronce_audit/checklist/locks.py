"""What the checklists ask of locks and of keys for effects."""

from typing import Final

from cronce_audit.checklist.answers import Answer, Evidence, Seen, cannot_tell, met, not_met, not_relevant
from cronce_audit.checklist.scheduled import all_guarded
from cronce_audit.crontab.read import Line
from cronce_audit.java.facts import Scheduled
from cronce_audit.javascript.facts import LockCall
from cronce_audit.locks.guards import guards

ETERNAL: Final = ("lock-without-expiry", "lock-expires-in-a-second-step", "redis-lock-without-expiry")
SHORT: Final = (
    "lock-released-by-anyone", "lock-renewed-by-anyone", "redis-lock-released-by-anyone",
    "redis-lock-renewed-by-anyone", "lock-let-go-too-soon", "waits-for-the-lock-and-runs-again",
)  # fmt: skip
_NO_LOCK: Final = "no lock was found"


def _others(seen: Seen) -> list[Evidence]:
    """Locks that are not cronce's."""
    made = [one for one in seen.facts.conclude(guards).values() if one.kind != "cronce"]
    found = {one.place: Evidence(one.kind, one.place) for one in made}
    found |= {one.place: Evidence("redis lock", one.place) for one in seen.facts.of(LockCall)}
    found |= {one.lock.place: Evidence("ShedLock", one.lock.place) for one in seen.facts.of(Scheduled) if one.lock}
    return [found[place] for place in sorted(found)]


def _cronces(seen: Seen) -> list[Evidence]:
    places = {one.place for one in seen.facts.conclude(guards).values() if one.kind == "cronce"}
    places |= {line.place for line in seen.facts.of(Line) if line.guard == "cronce"}
    return [Evidence("cronce", place) for place in sorted(places)]


def locks_run_out(seen: Seen) -> Answer:
    """When the holder crashes."""
    if found := seen.found(*ETERNAL):
        return not_met(*found)
    if held := [*_others(seen), *_cronces(seen)]:
        return met(*held)
    return not_relevant(_NO_LOCK)


def locks_last(seen: Seen) -> Answer:
    """As long as the run, or are renewed."""
    if found := seen.found(*SHORT, *ETERNAL):
        return not_met(*found)
    if made := _others(seen):
        return cannot_tell("how long the longest run takes, beside each time to live; cronce renews its leases", *made)
    if held := _cronces(seen):
        return met("cronce renews its leases while a run works", *held)
    return not_relevant(_NO_LOCK)


def store_is_safe(seen: Seen) -> Answer:
    """That the locks are kept in."""
    if not (_others(seen) or _cronces(seen)):
        return not_relevant(_NO_LOCK)
    shows = "`cronce doctor` on each machine: it says whether the store persists, and what it does in a failover"
    return cannot_tell(shows, *seen.mentioned("doctor"))


def connections_are_given_back(seen: Seen) -> Answer:
    if made := _others(seen):
        return cannot_tell("how many connections the store counts, now and in a week", *made)
    if held := _cronces(seen):
        return met("cronce holds no connection for as long as a run works", *held)
    return not_relevant(_NO_LOCK)


def effects_have_keys(seen: Seen) -> Answer:
    if kept := seen.mentioned("once"):
        return met(*kept)
    shows = (
        "a key for each effect that must happen once: a unique column beside the effect, or `run.on(…).once(…)` of"
        " cronce"
    )
    return cannot_tell(shows, *seen.mentioned("keys"))


def skew_does_no_harm(seen: Seen) -> Answer:
    if found := seen.found("slot-named-after-the-clock", "clock-not-in-step"):
        return not_met(*found)
    if all_guarded(seen.facts) and not _others(seen):
        return met("the slot comes from the schedule, and time from the store", *_cronces(seen))
    return cannot_tell("clocks in step: `cronce audit --live` on each machine")
