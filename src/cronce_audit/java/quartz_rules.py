"""What goes wrong with Quartz on several instances."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from cronce_audit.java.facts import QuartzSettings
from cronce_audit.java.fleet import is_alone, module_of, several
from cronce_audit.model import Confidence, Facts, Found, Place, Severity, rule

_JDBC: Final = ("JobStoreTX", "JobStoreCMT", "LocalDataSourceJobStore")


class Scheduler(NamedTuple):
    """The settings of one program, from all its files: those of a profile stand beside the others."""

    values: dict[str, list[tuple[str, Place]]]

    def place(self, name: str) -> Place | None:
        return self.values[name][0][1] if name in self.values else None

    def says(self, name: str, *wanted: str) -> bool:
        """Whether any of the files says so."""
        return any(value.lower() in wanted for value, _ in self.values.get(name, ()))

    def is_open(self, name: str) -> bool:
        """A variable stands for it: nobody knows from here."""
        return any("$" in value or "@" in value for value, _ in self.values.get(name, ()))

    @property
    def database(self) -> Place | None:
        """Where a store in a database is chosen."""
        chosen = [place for value, place in self.values.get("jobStore.class", ()) if value.endswith(_JDBC)]
        spring = [place for value, place in self.values.get("spring.job-store-type", ()) if value.lower() == "jdbc"]
        return next(iter(chosen + spring), None)

    @property
    def memory(self) -> Place | None:
        """Where a store in memory is chosen."""
        chosen = [place for value, place in self.values.get("jobStore.class", ()) if value.endswith("RAMJobStore")]
        spring = [place for value, place in self.values.get("spring.job-store-type", ()) if value.lower() == "memory"]
        return next(iter(chosen + spring), None)

    @property
    def is_clustered(self) -> bool:
        return self.says("jobStore.isClustered", "true")


def schedulers(facts: Facts) -> Sequence[Scheduler]:
    found: dict[str, Scheduler] = {}
    for settings in facts.of(QuartzSettings):
        scheduler = found.setdefault(module_of(settings.path), Scheduler({}))
        for name, value, line in settings.values:
            scheduler.values.setdefault(name, []).append((value, Place(settings.path, line)))
    return list(found.values())


@rule(
    "CR811",
    "quartz-not-clustered",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="set `org.quartz.jobStore.isClustered = true` and `org.quartz.scheduler.instanceId = AUTO`, with a store in "
    "a database that all instances share",
)
def _not_clustered(facts: Facts) -> Iterator[Found]:
    for scheduler in facts.conclude(schedulers):
        if scheduler.is_clustered or scheduler.is_open("jobStore.isClustered"):
            continue
        store = scheduler.database or scheduler.memory
        evidence = several(facts, store.path) if store else None
        kept = "a database, and is not clustered" if scheduler.database else "memory"
        message = f"Quartz keeps its jobs in {kept}: every instance fires them all"
        if store and evidence:
            message = f"{message}, and {evidence.how} ({evidence.place})"
            yield Found(store, message, evidence.confidence, Severity.ERROR)
        elif scheduler.database and not is_alone(facts, scheduler.database.path):
            yield Found(
                scheduler.database, f"{message}, also the new one beside the old in a deploy", Confidence.MEDIUM
            )


@rule(
    "CR812",
    "quartz-acquires-without-a-lock",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="set `org.quartz.jobStore.acquireTriggersWithinLock = true`",
)
def _without_lock(facts: Facts) -> Iterator[Found]:
    for scheduler in facts.conclude(schedulers):
        place = scheduler.place("jobStore.isClustered")
        locks = scheduler.says("jobStore.acquireTriggersWithinLock", "true")
        unknown = scheduler.is_open("jobStore.acquireTriggersWithinLock") or _takes_batches(scheduler)
        if place and scheduler.database and scheduler.is_clustered and not locks and not unknown:
            yield Found(
                place,
                "Quartz is clustered and acquires triggers without a lock (acquireTriggersWithinLock is not set): two "
                "instances can fire one trigger for the same time",
            )


def _takes_batches(scheduler: Scheduler) -> bool:
    """With more than one trigger at a time Quartz takes the lock whatever the setting says."""
    batches = scheduler.values.get("scheduler.batchTriggerAcquisitionMaxCount", ())
    return any(value != "1" for value, _ in batches)


@rule(
    "CR813",
    "quartz-instances-share-an-id",
    Severity.ERROR,
    Confidence.HIGH,
    remedy="set `org.quartz.scheduler.instanceId = AUTO`",
)
def _share_an_id(facts: Facts) -> Iterator[Found]:
    name = "scheduler.instanceId"
    for scheduler in facts.conclude(schedulers):
        clustered = scheduler.place("jobStore.isClustered")
        if not (clustered and scheduler.is_clustered and scheduler.database):
            continue
        if scheduler.says(name, "auto", "sys_prop") or scheduler.is_open(name):
            continue
        given = scheduler.values.get(name)
        said = f"instanceId is `{given[0][0]}`" if given else "instanceId is not set, which means NON_CLUSTERED"
        yield Found(
            given[0][1] if given else clustered,
            f"Quartz is clustered and {said} in every instance: each takes the others' running jobs for its own, left "
            "over from a crash, and recovers them",
        )


RULES: Final = (_not_clustered, _without_lock, _share_an_id)
