"""Workloads of Kubernetes that leave it to an image which this tree builds what they start.

A manifest names an image, a Dockerfile none. That they belong together is told by their names: the image is called like
the folder of the Dockerfile, its ending (`Dockerfile.worker`), the package beside it, or the service that builds it. A
tree with one Dockerfile, at its root, and one image that is not known to be somebody else's, has made the one for the
other.
"""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce_audit.containers.facts import Image, Service, Start
from cronce_audit.containers.starts import joined
from cronce_audit.javascript.facts import Package
from cronce_audit.kubernetes.facts import Container, Workload
from cronce_audit.kubernetes.seen import workloads
from cronce_audit.model import Facts

_OTHERS: Final = frozenset({
    "redis", "valkey", "memcached", "postgres", "postgresql", "mysql", "mariadb", "mongo", "mongodb", "rabbitmq",
    "nginx", "traefik", "envoy", "kafka", "zookeeper", "elasticsearch", "opensearch", "minio", "vault", "consul",
    "etcd", "prometheus", "grafana", "alertmanager", "loki", "busybox", "alpine", "pgbouncer", "flower", "mailhog",
    "jaeger", "keycloak", "registry", "haproxy", "nats", "influxdb", "clickhouse", "clickhouse-server", "adminer"
})  # fmt: skip
"""What is run beside an app, and built elsewhere."""
_NAMELESS: Final = frozenset({"", "docker", ".docker", "deploy", "build"})
"""Folders that give no name to the Dockerfile in them."""


class Left(NamedTuple):
    """A container without words, and the image that has them."""

    workload: Workload
    container: Container
    image: Image
    start: Start


def left_to_images(facts: Facts) -> Iterator[Left]:
    known = facts.conclude(images)
    only = facts.conclude(_only)
    for workload in facts.conclude(workloads):
        for container in workload.containers:
            name = _basename(container.image)
            image = known.get(name) or (only if name not in _OTHERS else None)
            start = joined(image.entrypoint, image.cmd) if image else None
            if image and start and not container.words:
                yield Left(workload, container, image, start)


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
