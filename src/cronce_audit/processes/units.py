"""Everything that starts a program, in how many copies, and who says so: the words may stand in a Dockerfile, and the
number in a compose file, a manifest or the values of a chart."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from cronce_audit.common import Command
from cronce_audit.containers.facts import Image, Service
from cronce_audit.containers.running import containers
from cronce_audit.containers.starts import joined
from cronce_audit.images import left_to_images
from cronce_audit.kubernetes.facts import Field
from cronce_audit.kubernetes.seen import most_replicas, workloads
from cronce_audit.model import Confidence, Facts, Place
from cronce_audit.processes.counts import UNKNOWN, Count


class Unit(NamedTuple):
    """A service, workload, unit or line that starts a command."""

    command: Command
    """Its place is that of whoever starts it."""
    words_at: Place
    copies: Count
    copies_at: Place
    dockerfile: str = ""
    """Of the image it is started in; "" where that is not known."""
    confidence: Confidence = Confidence.HIGH

    @property
    def name(self) -> str:
        return self.command.unit


def units(facts: Facts) -> Sequence[Unit]:
    return [*_plain(facts), *_of_services(facts), *_of_workloads(facts)]


def _plain(facts: Facts) -> Iterator[Unit]:
    """Those that have the words themselves."""
    whole = [one.service for one in facts.conclude(containers) if one.service]
    services = {(one.place.path, one.name): one for one in (*facts.of(Service), *whole)}
    idle = facts.conclude(_idle)
    replicas = facts.conclude(_replicas)
    for command in facts.of(Command):
        place, copies = command.place, _count(command.copies)
        service, field = services.get((place.path, command.unit)), replicas.get(place)
        if command.origin == "compose" and service:
            yield Unit(command, place, copies, service.copies_place, service.dockerfile)
        elif command.origin == "kubernetes" and field:
            yield Unit(command, place, _count(field.number), field.place)
        elif command.origin != "dockerfile":
            yield Unit(command, place, copies, place)
        elif command.unit not in idle:
            yield Unit(command, place, copies, place, command.unit)


def _idle(facts: Facts) -> set[str]:
    """Dockerfiles of which no container starts what they say: every service that builds one says something else."""
    images = {one.path: joined(one.entrypoint, one.cmd) for one in facts.of(Image)}
    built, in_force = set(), set()
    for container in facts.conclude(containers):
        path = container.service.dockerfile if container.service else ""
        start = images.get(path)
        if start:
            built.add(path)
            if container.start.words[: len(start.words)] == start.words:
                in_force.add(path)
    return built - in_force


def _replicas(facts: Facts) -> Mapping[Place, Field]:
    """By the place of each command of a workload."""
    return {
        container.place: field
        for workload in facts.conclude(workloads)
        if workload.kind != "DaemonSet" and (field := most_replicas(workload, facts))
        for container in workload.containers
    }


def _of_services(facts: Facts) -> Iterator[Unit]:
    """Services that start what their image says: the Dockerfile has the words, the compose file the copies."""
    for container in facts.conclude(containers):
        service, start = container.service, container.start
        if service is not None and container.inherits:
            command = Command(start.words, service.copies_place, "compose", service.name, service.copies)
            yield Unit(command, start.place, _count(service.copies), service.copies_place, service.dockerfile)


def _of_workloads(facts: Facts) -> Iterator[Unit]:
    """Workloads that do the same. That the image is this one is told by names."""
    for workload, container, image, start in left_to_images(facts):
        field = most_replicas(workload, facts)
        if field and field.number:
            place, copies = field.place, Count(field.number)
            command = Command(start.words, place, "kubernetes", workload.unit, field.number, container.environment)
            yield Unit(command, start.place, copies, place, image.path, Confidence.MEDIUM)


def _count(copies: int | None) -> Count:
    return UNKNOWN if copies is None else Count(max(copies, 1))
