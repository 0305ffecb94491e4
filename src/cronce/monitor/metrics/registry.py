"""Values of the metrics: counted in one process, and added up over several.

A value is known by its metric and its labels. A histogram is a list: the sum of what was observed, then how many fell
into each bucket, the last being those above all.

*Bounded.* Each job is a label, and jobs may be many. The first `JOBS` of them that a process counts have a label of
their own, the others share `job="other"`; a job never changes over, so no counter ever falls.
"""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import Final, cast

from cronce.monitor.metrics.catalogue import METRICS, Merge

JOBS: Final = 200
"""Jobs that have a label of their own, in each process."""

OTHER: Final = "other"

Key = tuple[str, ...]
"""The metric, and the values of its labels in their order."""

Histogram = list[float]
Value = float | Histogram
Values = Mapping[Key, Value]

_BY_JOB: Final = frozenset(name for name, metric in METRICS.items() if metric.labels[:1] == ("job",))


class Registry:
    """For any number of threads. `before` is what whoever had this place before has counted: it goes on from there."""

    def __init__(self, before: Values | None = None) -> None:
        self._lock = threading.Lock()
        self._values: dict[Key, Value] = {
            key: list(value) if isinstance(value, list) else value
            for key, value in (before or {}).items()
            if METRICS[key[0]].kind != "gauge"
        }
        self._jobs = {key[1] for key in self._values if key[0] in _BY_JOB}

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        with self._lock:
            key = self._key(name, labels)
            self._values[key] = cast(float, self._values.get(key, 0)) + by

    def observe(self, name: str, seconds: float, *labels: str) -> None:
        buckets = METRICS[name].buckets
        with self._lock:
            key = self._key(name, labels)
            value = self._values.get(key)
            if value is None:
                value = self._values[key] = [0] * (len(buckets) + 2)
            assert isinstance(value, list)
            value[0] += seconds
            value[bisect_left(buckets, seconds) + 1] += 1

    def read(self) -> dict[Key, Value]:
        with self._lock:
            return {key: list(value) if isinstance(value, list) else value for key, value in self._values.items()}

    def forked(self) -> None:
        """In the child: a thread of the parent may have held the lock for ever, and what it counted is the parent's."""
        self._lock = threading.Lock()
        self._values, self._jobs = {}, set()

    def _key(self, name: str, labels: Key) -> Key:
        return (name, self._label(labels[0]), *labels[1:]) if name in _BY_JOB else (name, *labels)

    def _label(self, job: str) -> str:
        if job not in self._jobs:
            if len(self._jobs) >= JOBS:
                return OTHER
            self._jobs.add(job)
        return job


# --- several processes ----------------------------------------------------------------------------------------------

_MERGES: Final[Mapping[Merge, Callable[[Iterable[float]], float]]] = {
    "sum": sum,
    "max": max,
    "min": min,
    "widest": lambda values: max(values, key=abs),
}


def merged(all_values: Iterable[Values]) -> dict[Key, Value]:
    """The values of several processes as those of one."""
    found: dict[Key, list[Value]] = {}
    for values in all_values:
        for key, value in values.items():
            found.setdefault(key, []).append(value)
    return {key: _merged(key[0], values) for key, values in found.items()}


def _merged(name: str, values: list[Value]) -> Value:
    metric = METRICS[name]
    if metric.kind == "histogram":
        return [sum(column) for column in zip(*cast(list[Histogram], values), strict=True)]
    return _MERGES[metric.merge](cast(list[float], values))


def without_gauges(values: Values) -> Values:
    """What still counts of a process that is gone."""
    return {key: value for key, value in values.items() if METRICS[key[0]].kind != "gauge"}
