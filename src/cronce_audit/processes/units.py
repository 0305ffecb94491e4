"""Workloads of Kubernetes that leave it to an image which this tree builds what they start.

A manifest names an image, a Dockerfile none. That they belong together is told by their names: the image is called like
the folder of the Dockerfile, its ending (`Dockerfile.worker`), the package beside it, or the service that builds it. A
tree with one Dockerfile, at its root, and one image that is not known to be somebody else's, has made the one for the
other.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce_audit.containers.facts import Image, Service, joined
from cronce_audit.containers.running import ProcessOne, containers
from cronce_audit.javascript.code import Package
from cronce_audit.kubernetes.facts import running, workloads
from cronce_audit.model import CommandLine as Command
from cronce_audit.model import Confidence, Facts, Place
from cronce_audit.processes.argv import UNKNOWN, Count

_OTHERS: Final = frozenset({
    "redis", "valkey", "memcached", "postgres", "postgresql", "mysql", "mariadb", "mongo", "mongodb", "rabbitmq",
    "nginx", "traefik", "envoy", "kafka", "zookeeper", "elasticsearch", "opensearch", "minio", "vault", "consul",
    "etcd", "prometheus", "grafana", "alertmanager", "loki", "busybox", "alpine", "pgbouncer", "flower", "mailhog",
    "jaeger", "keycloak", "registry", "haproxy", "nats", "influxdb", "clickhouse", "clickhouse-server", "adminer"
})  # fmt: skip
"""What is run beside an app, and built elsewhere."""
_NAMELESS: Final = frozenset({"", "docker", ".docker", "deploy", "build"})
"""Folders that give no name to the Dockerfile in them."""


def _only(facts: Facts) -> Image | None:
    """The image that all workloads must mean, as there is no other Dockerfile, and no other image in the manifests."""
    made = facts.of(Image)
    used = {_basename(each.image) for one in facts.conclude(workloads) for each in one.containers} - _OTHERS
    is_only = len(made) == len(used) == 1 and PurePosixPath(made[0].path).parent.name in _NAMELESS
    return made[0] if is_only else None


def images(facts: Facts) -> Mapping[str, Image]:
    """The images of this tree by the names that they may go by; a name that two have is neither's."""
    found: dict[str, list[Image]] = {}
    for image in facts.of(Image):
        for name in _names(image, facts):
            found.setdefault(name, []).append(image)
    return {name: same[0] for name, same in found.items() if len(same) == 1}


def _names(image: Image, facts: Facts) -> set[str]:
    path = PurePosixPath(image.path)
    packages = {one.name for one in facts.of(Package) if PurePosixPath(one.path).parent == path.parent}
    services = {one.name for one in facts.of(Service) if one.dockerfile == image.path}
    ending = path.name.partition("Dockerfile.")[2]
    return {path.parent.name, ending, *map(_basename, packages), *services} - {""}


def _basename(image: str) -> str:
    """`shop` of `registry.example:5000/team/shop:4@sha256:…`, and of `@team/shop`."""
    return image.partition("@sha256")[0].rpartition("/")[2].partition(":")[0]


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
    container: ProcessOne | None = None

    @property
    def name(self) -> str:
        return self.command.unit


def units(facts: Facts) -> Sequence[Unit]:
    plain = (Unit(one, one.place, _count(one.copies), one.place) for one in facts.of(Command))
    return [*_contained(facts), *plain, *_of_workloads(facts)]


def commands(facts: Facts) -> Sequence[Command]:
    return [unit.command for unit in facts.conclude(units)]


def _contained(facts: Facts) -> Iterator[Unit]:
    """Services and images, overrides included; of a service without words the Dockerfile has them."""
    for container in facts.conclude(containers):
        service, image, start = container.service, container.image, container.start
        known = image.environment if image else ()
        if service is not None:
            place = service.copies_place if container.inherits else start.place
            environment = (*known, *service.environment)
            command = Command(start.words, place, "compose", service.name, service.copies, environment)
            copies = _count(service.copies)
            yield Unit(command, start.place, copies, service.copies_place, service.dockerfile, container=container)
        elif image is not None:
            command = Command(start.words, start.place, "dockerfile", image.path, None, known)
            yield Unit(command, start.place, UNKNOWN, start.place, image.path, container=container)


def _of_workloads(facts: Facts) -> Iterator[Unit]:
    """What their containers start. Names tell that the image of one without words is made in this tree."""
    known, only = facts.conclude(images), facts.conclude(_only)
    for workload in (*facts.conclude(workloads), *(one for one in running(facts) if not one.partial)):
        field = workload["replicas"] if workload.kind != "DaemonSet" else None
        number = field.number if field else None if workload.kind == "DaemonSet" else 1
        for container in workload.containers:
            name = _basename(container.image)
            image = known.get(name) or (only if name not in _OTHERS else None)
            start = joined(image.entrypoint, image.cmd) if image else None
            command = Command(
                container.words, container.place, "kubernetes", workload.unit, number, container.environment
            )
            if container.words:
                yield Unit(command, command.place, _count(number), field.place if field else command.place)
            elif image and start and field and number:
                inside = command._replace(words=start.words, place=field.place)
                yield Unit(inside, start.place, Count(number), field.place, image.path, Confidence.MEDIUM)


def _count(copies: int | None) -> Count:
    return UNKNOWN if copies is None else Count(max(copies, 1))


_ASIDE: Final = frozenset({"docker", ".docker", "deploy", "deployment", "build", "compose", "infra", "ops"})
"""Folders for what belongs to the folder above them."""


class Home(NamedTuple):
    """The folders in which a command may be started, the likeliest first; "" is the root of the tree."""

    folders: tuple[str, ...]
    alone: bool = False
    """Only what is in the folder itself, and not what is further down."""

    def find(self, wanted: str, files: Collection[str], packages: Collection[str] = ()) -> str | None:
        """The file, by its path from the root on; "" where several fit, None where none does. What is in a package is
        not found by the end of its name."""
        for folder in self.folders:
            prefix = f"{folder}/" if folder else ""
            if prefix + wanted in files:
                return prefix + wanted
            below = [path for path in files if path.startswith(prefix) and path.endswith(f"/{wanted}")]
            below = [path for path in below if not _is_in(packages, path.removesuffix(f"/{wanted}"), folder)]
            if below and not self.alone:
                return below[0] if len(below) == 1 else ""
        return None

    def find_end(self, path: str, files: Collection[str]) -> str | None:
        """As `find`, of the longest end of a path that is there: `/app/src/jobs.py` in a container is src/jobs.py."""
        parts = [part for part in PurePosixPath(path).parts if part != "/"]
        ends = (self.find("/".join(parts[start:]), files) for start in range(len(parts)))
        return next((found for found in ends if found is not None), None)


def home(place: Place, by: Unit | None) -> Home:
    """Of a command at a place. An image has its own folder, and what a compose file says of somebody else's image may
    mean any file; scripts, units of systemd, manifests and Python code stand somewhere in what they start."""
    if by and by.dockerfile:
        return Home(_with_aside(by.dockerfile))
    if by and by.command.origin in ("procfile", "compose"):
        return Home(_with_aside(place.path), alone=by.command.origin == "compose")
    return Home(tuple(_text(folder) for folder in PurePosixPath(place.path).parents))


def _with_aside(path: str) -> tuple[str, ...]:
    """`svc/docker/Dockerfile` belongs to svc/docker, and to svc."""
    folder = PurePosixPath(path).parent
    aside = next((number for number, part in enumerate(folder.parts) if part in _ASIDE), None)
    return (_text(folder),) if aside is None else (_text(folder), "/".join(folder.parts[:aside]))


def _is_in(packages: Collection[str], start: str, folder: str) -> bool:
    """Whether a path starts in a package below the folder."""
    inner = [_text(each) for each in (PurePosixPath(start), *PurePosixPath(start).parents)]
    return any(each in packages for each in inner if len(each) > len(folder))


def _text(folder: PurePosixPath) -> str:
    return "" if folder == PurePosixPath() else str(folder)
