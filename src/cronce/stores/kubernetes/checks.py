"""What `cronce doctor` asks of a Kubernetes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from cronce.errors import StoreError
from cronce.stores.checks import Check, error, ok, warn
from cronce.stores.kubernetes.api import Api
from cronce.stores.kubernetes.layout import SHELF, STORE, Shelf

ROOM: Final = 256 << 10
"""Bytes of annotations that an API server takes of one object."""


def checks(api: Api, listed: Callable[[], Iterable[Shelf]]) -> Iterator[Check]:
    yield ok("server", f"{api.version(api.deadline())} at {api.address.access.server}")
    try:
        shelves = list(listed())
    except StoreError as failure:
        yield error("rights", str(failure), "a Role with get, list, create, update and delete on leases does it")
        return
    yield ok("rights", f"may list leases in {api.address.namespace}: {len(shelves)} of this store")
    yield _deleted(shelves)
    yield _room(shelves)


def _deleted(shelves: Sequence[Shelf]) -> Check:
    """A job is on the store's list, and has no Lease: somebody took its memory away."""
    there = {shelf.home.name for shelf in shelves if shelf.home.kind == "job"}
    gone = sorted(job for shelf in shelves if shelf.home == STORE for job in shelf.jobs if job not in there)
    if not gone:
        return ok("deleted", "every job has its Lease")
    says = f"the Leases of {', '.join(gone[:5])} were deleted: slots up to when they are made anew count as run"
    return warn("deleted", says, "delete no Lease of a job in use; `cronce purge` removes what is old")


def _room(shelves: Sequence[Shelf]) -> Check:
    sizes = {shelf.lease["metadata"]["name"]: len(_text(shelf).encode()) for shelf in shelves}
    name = max(sizes, key=lambda one: sizes[one], default="")
    says = f"the fullest Lease, {name}, has {sizes.get(name, 0) / 1024:.0f} KiB of {ROOM / 1024:.0f}"
    if sizes.get(name, 0) > 0.8 * ROOM:
        return warn("room", says, "see to the runs of it that are still open: `cronce runs`")
    return ok("room", says)


def _text(shelf: Shelf) -> str:
    text: str = shelf.lease["metadata"]["annotations"][SHELF]
    return text
