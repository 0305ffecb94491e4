"""What manifests say about CronJobs, other workloads, charts and patches."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cronce_audit.model import Place
from cronce_audit.yaml import UNKNOWN

_INTEGER: Final = re.compile(r"(?a:-?[0-9]{1,9})")
VALUES: Final = frozenset({"values.yaml", "values.yml"})


@dataclass(frozen=True, slots=True)
class Field:
    """What a field says, and where. None instead of a Field is a field that is not there, and that is sure."""

    text: str
    place: Place

    @property
    def known(self) -> bool:
        return UNKNOWN not in self.text

    @property
    def number(self) -> int | None:
        return int(self.text) if _INTEGER.fullmatch(self.text) else None


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod, not one that only prepares it."""

    name: str
    image: str
    place: Place
    """Of its command, where it has one."""
    words: tuple[str, ...]
    """Command and arguments; empty where the image has them."""
    environment: tuple[tuple[str, str], ...]
    is_told: bool
    """All of its environment is spelled out in these."""
    unexpanded: tuple[Field, ...]
    """Texts for a shell where there is none: `$(date)`."""


@dataclass(frozen=True, slots=True)
class CronJob:
    """An object that has a jobTemplate. The place is that of its schedule."""

    place: Place
    name: str
    namespace: str
    partial: bool
    """It changes another: what it has not is not missing."""
    chart: str | None
    said: Mapping[str, Field | None]
    """Its fields and those of its Job and pod, by their names in Kubernetes."""
    containers: tuple[Container, ...]

    def __getitem__(self, name: str) -> Field | None:
        return self.said[name]

    @property
    def called(self) -> str:
        return f"CronJob `{self.name}`" if self.name else "this CronJob"

    @property
    def is_guarded(self) -> bool:
        return any("cronce" in re.split(r"[\s/;&|]", word) for each in self.containers for word in each.words)


@dataclass(frozen=True, slots=True)
class Workload:
    """A Deployment, StatefulSet, ReplicaSet or DaemonSet. The place is that of its kind."""

    kind: str
    name: str
    """With … for what a template puts in; "" where that is all."""
    place: Place
    partial: bool
    chart: str | None
    said: Mapping[str, Field | None]
    """`replicas`, `strategy` and `maxSurge`."""
    containers: tuple[Container, ...]

    @property
    def called(self) -> str:
        return f"{self.kind} `{self.name}`" if self.name else f"the {self.kind} of {_file(self.place)}"

    @property
    def unit(self) -> str:
        return unit(self.kind, self.name, self.place)

    def __getitem__(self, name: str) -> Field | None:
        return self.said[name]


def unit(kind: str, name: str, place: Place) -> str:
    """As commands call what starts them."""
    return f"{kind}/{name}" if name else f"{kind} of {_file(place)}"


def _file(place: Place) -> str:
    return "/".join(place.path.split("/")[-2:])


@dataclass(frozen=True, slots=True)
class Scaler:
    """A HorizontalPodAutoscaler, and the most that it starts."""

    kind: str
    name: str
    most: Field | None
    chart: str | None
    place: Place


@dataclass(frozen=True, slots=True)
class Patched:
    """Fields that a patch gives to an object of this kind and name; "" is any."""

    kind: str
    name: str
    fields: frozenset[str]


@dataclass(frozen=True, slots=True)
class PatchFile:
    """A file that a kustomization uses as a patch."""

    path: str


@dataclass(frozen=True, slots=True)
class ChartValues:
    """What a chart's values.yaml says, or one beside it that is used on top: by dotted path, the text and the line."""

    chart: str
    path: str
    entries: tuple[tuple[str, str, int], ...]
