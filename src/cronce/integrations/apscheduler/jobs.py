"""What a job of APScheduler is to us: a name, terms, and slots."""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from inspect import isclass, ismethod
from typing import Any, Final, cast

from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.triggers.date import DateTrigger

from cronce.errors import BadInput, BadPolicy
from cronce.integrations.apscheduler.triggers import is_read_off, shortest_gap, slot_instant
from cronce.integrations.names import name_from
from cronce.model import Slot
from cronce.protocol.lease import lease_for
from cronce.runtime.declare import MOST_TURNS, Declaration, Policies, declare

THEIRS: Final = ("every", "at", "tz", "gap", "fold", "start", "end", "missed", "jitter", "start_within")
"""Policies that say when a job fires: here its trigger, coalesce and misfire_grace_time do."""

_MADE_UP: Final = re.compile(r"[0-9a-f]{32}")
"""An id that nobody gave: APScheduler makes another one in each process."""


def is_private(scheduler: Any, alias: str) -> bool:
    """Whether a job store is this process's own."""
    return type(scheduler._jobstores.get(alias)) is MemoryJobStore


def is_unnamed(job: Any) -> bool:
    return _MADE_UP.fullmatch(job.id) is not None


def is_errand(job: Any, *, private: bool) -> bool:
    """Something that this process asked of itself, once, as web applications do for what can wait. Nobody else knows of
    it: whoever wants a date to run once for all gives it an id, and an instant that others come to as well."""
    return private and isinstance(job.trigger, DateTrigger) and (is_unnamed(job) or is_read_off(job.trigger))


def name_of(job: Any, *, private: bool) -> str:
    """The job's name, the same in every process: its id. Without one, what it calls says which it is."""
    if not (private and is_unnamed(job)):
        return name_from(job.id)
    remedy = f"give {job.name} an id: add_job(…, id='{name_from(job.name)}')"
    if job.func_ref is None or (ismethod(job.func) and not isclass(job.func.__self__)):
        raise BadInput(f"nobody can tell in another process which job this is; {remedy}")
    try:
        given = json.dumps([list(job.args), dict(job.kwargs)], sort_keys=True)
    except TypeError:
        raise BadInput(f"nobody can tell in another process which job this is by its arguments; {remedy}") from None
    return name_from(f"{job.func_ref} {given}" if job.args or job.kwargs else job.func_ref)


def check_policies(policies: Policies) -> Policies:
    for word in policies.keys() & set(THEIRS):
        raise BadPolicy(f"{word} is not for protect: APScheduler says when a job fires, by its trigger and its options")
    if declare("any", None, **policies).mode == "observe":
        raise BadPolicy(
            "protect puts slots into a scheduler's jobs, and they do not run as before; to only observe one, leave out"
            " protect and put @cron.observe('name') above its function"
        )
    return policies


class Jobs:
    """The jobs of a scheduler, each with its policies."""

    def __init__(self, policies: Policies, single: Mapping[str, Policies]) -> None:
        for of_one in single.values():
            check_policies(cast(Policies, {**policies, **of_one}))
        self._policies, self.single = check_policies(policies), single

    def declaration(self, job: Any) -> Declaration | None:
        """The job, in our words; None for an errand. max_instances holds for all schedulers together. Where run times
        are not coalesced each waits for its turn; else one that finds another at work is skipped, as APScheduler does.
        A date has one slot, and nothing to overlap with."""
        private = is_private(job._scheduler, job._jobstore_alias)
        if is_errand(job, private=private):
            return None
        words: dict[str, Any] = {"overlap": "skip" if job.coalesce else "wait", "turns": job.max_instances}
        if isinstance(job.trigger, DateTrigger) or job.max_instances > MOST_TURNS:
            words = {"overlap": "allow"}
        words |= self._policies | self.single.get(job.id, {})
        if words.get("lease") is None:
            words["lease"] = lease_for(words.get("on_lost") or "skip", shortest_gap(job.trigger))
        return declare(name_of(job, private=private), None, **words)


def slot_of(job: Any, name: str, run_time: datetime) -> Slot:
    return Slot(name, slot_instant(job.trigger, run_time))
