"""CronJobs and workloads as they will be: with the values of their charts, and what patches say of them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from cronce_audit.kubernetes.facts import VALUES, ChartValues, CronJob, Field, Patched, PatchFile, Scaler, Workload
from cronce_audit.kubernetes.templates import MARK
from cronce_audit.model import Facts, Place
from cronce_audit.yaml import UNKNOWN

Said = Mapping[str, Field | None]


Entries = Mapping[str, tuple[str, Place]]


def cron_jobs(facts: Facts) -> Sequence[CronJob]:
    """All of them; those that only change another are partial."""
    files = {patch.path for patch in facts.of(PatchFile)}
    found = []
    for job in facts.of(CronJob):
        partial = job.partial or job.place.path in files
        others: frozenset[str] = frozenset() if partial else _others("CronJob", job.name, facts)
        found.append(replace(job, partial=partial, said=_said(job, others, facts)))
    return found


def running(facts: Facts) -> Iterator[CronJob]:
    """Those that are not suspended."""
    for job in facts.conclude(cron_jobs):
        suspend = job["suspend"]
        if suspend is None or suspend.text.lower() != "true":
            yield job


def whole(facts: Facts) -> Iterator[CronJob]:
    """Those of which all is seen, and whose runs nothing else guards."""
    for job in running(facts):
        if not job.partial and not job.is_guarded:
            yield job


def workloads(facts: Facts) -> Sequence[Workload]:
    """Those that are whole."""
    files = {patch.path for patch in facts.of(PatchFile)}
    return [
        replace(one, said=_said(one, _others(one.kind, one.name, facts), facts))
        for one in facts.of(Workload)
        if not one.partial and one.place.path not in files
    ]


def most_replicas(workload: Workload, facts: Facts) -> Field | None:
    """How many there are, by the values that make the most of it."""
    told = [workload["replicas"], *raised(workload, facts)]
    return max(told, key=lambda field: (field and field.number) or 0)


def raised(workload: Workload, facts: Facts) -> Iterator[Field]:
    """How many there are by each of the files of values that are used on top of the chart's own."""
    written = facts.conclude(_as_written).get(workload.place)
    if written is None or written.known:
        return
    for values in facts.of(ChartValues):
        if values.chart == workload.chart and PurePosixPath(values.path).name not in VALUES:
            field = _filled(written, _entries(values))
            if field.place.path == values.path:
                yield field


def _as_written(facts: Facts) -> Mapping[Place, Field | None]:
    return {one.place: one["replicas"] for one in facts.of(Workload)}


def at_most(scaler: Scaler, facts: Facts) -> Field | None:
    return _told(scaler.most, scaler.chart, facts)


def _said(one: CronJob | Workload, others: frozenset[str], facts: Facts) -> Said:
    """What somebody else says of it is not known from here."""
    told = {name: _told(field, one.chart, facts) for name, field in one.said.items()}
    return {
        name: Field(UNKNOWN, one.place) if field is None and name in others else field for name, field in told.items()
    }


def _others(kind: str, name: str, facts: Facts) -> frozenset[str]:
    """The fields that patches give to it."""
    patched = facts.conclude(_patched)
    return patched[kind, name] | patched[kind, ""] | patched["", ""]


def _patched(facts: Facts) -> Mapping[tuple[str, str], frozenset[str]]:
    found: dict[tuple[str, str], frozenset[str]] = defaultdict(frozenset)
    for patch in facts.of(Patched):
        found[patch.kind, patch.name] |= patch.fields
    return found


def _charts(facts: Facts) -> Mapping[str, Entries]:
    return {
        values.chart: _entries(values) for values in facts.of(ChartValues) if PurePosixPath(values.path).name in VALUES
    }


def _entries(values: ChartValues) -> Entries:
    return {path: (text, Place(values.path, line)) for path, text, line in values.entries}


def _told(field: Field | None, chart: str | None, facts: Facts) -> Field | None:
    """With the chart's own values; what is to be changed then stands there."""
    if field is None or field.known:
        return field
    return _filled(field, facts.conclude(_charts).get(chart or "", {}))


def _filled(field: Field, entries: Entries) -> Field:
    text, place = field.text, field.place
    for mark in MARK.finditer(field.text):
        path, _, default = mark[1].partition("|")
        value, where = entries.get(path, (default, place))
        if value:
            text, place = text.replace(mark[0], value, 1), where
    return Field(text, place)
