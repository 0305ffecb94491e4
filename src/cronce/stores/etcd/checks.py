"""What `cronce doctor` checks of an etcd."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from cronce.errors import StoreError
from cronce.stores.checks import Check, alone, error, ok, warn
from cronce.stores.etcd.api import EtcdAnswer, EtcdApi
from cronce.stores.etcd.layout import META_KEY, after_all, data64, schema_of, text64
from cronce.stores.http_api import Json

QUOTA: Final = 2 << 30
"""etcd's own default."""

OLDEST_ETCD: Final = (3, 4)
STEADY_PATCHES: Final[dict[tuple[int, ...], int]] = {(3, 4): 23, (3, 5): 7}
"""The first patches that do not crash when a client disconnects during a read (etcd-io/etcd issues 14110, 14891)."""

MOST_NAMESPACES: Final = 20
REVISIONS_PER_DAY: Final = 100_000
"""Revisions of a busy day."""


def checks(api: EtcdApi) -> Iterator[Check]:
    statuses = {name: _status(each) for name, each in api.each()}
    yield from _endpoints(statuses)
    answers = [status.body for status in statuses.values() if isinstance(status, EtcdAnswer)]
    if not answers:
        return
    yield _version(answers)
    yield _room(answers)
    for name, check in (("members", _members), ("alarms", _alarms), ("compaction", _compaction)):
        yield _asked(name, check, api)
    yield _asked("namespaces", _namespaces, api)
    doubt = api.clock.doubt * 1000
    yield ok("clock", f"known to {doubt:.0f} ms by this process, and to a second by a process that has just started")


def _asked(name: str, check: Callable[[EtcdApi], Check], api: EtcdApi) -> Check:
    """A user with few rights may not read everything."""
    try:
        return check(api)
    except StoreError as failure:
        return warn(name, f"not checked: {failure}", "run it once as a user with that permission, such as root")


def _status(api: EtcdApi) -> EtcdAnswer | StoreError:
    try:
        return api.ask("/v3/maintenance/status", {}, api.deadline())
    except StoreError as failure:
        return failure
    finally:
        api.close()


def _endpoints(statuses: dict[str, EtcdAnswer | StoreError]) -> Iterator[Check]:
    for name, status in statuses.items():
        if isinstance(status, StoreError):
            yield warn("endpoint", f"{name}: {status}", "start it, or take it out of the URL")
        elif int(status.body.get("leader", 0)) == 0:
            yield error("endpoint", f"{name} has no leader", "make sure that most members run and reach each other")
        else:
            yield ok("endpoint", f"{name} answers and has a leader")


def _members(api: EtcdApi) -> Check:
    voters = api.ask("/v3/cluster/member/list", {}, api.deadline()).voters
    if voters == 1:
        return warn("members", "one member: if it is lost, the store is lost", "with three members, one can be lost")
    if voters == 2:
        return warn("members", "two members: if one is lost, both stop", "with three members, one can be lost")
    says = f"{voters} voting members, which survive the loss of {(voters - 1) // 2}"
    if voters % 2 == 0:
        return warn("members", says, "one member fewer would survive as many losses")
    return ok("members", says)


def _version(answers: Sequence[Json]) -> Check:
    said = {str(status.get("version", "0")) for status in answers}
    versions: list[tuple[int, ...]] = sorted(tuple(map(int, text.partition("-")[0].split("."))) for text in said)
    says = " and ".join(sorted(said))
    if versions[0][:2] < OLDEST_ETCD:
        return error("version", says, "cronce needs etcd 3.4 or newer")
    if any(version[2:] < (STEADY_PATCHES.get(version[:2], 0),) for version in versions):
        crash = f"{says}: a client that disconnects during a read may crash it"
        return warn("version", crash, "upgrade to 3.5.7 or newer (3.4.23, if it must be 3.4)")
    return ok("version", says)


def _room(answers: Sequence[Json]) -> Check:
    size = max(int(status.get("dbSize", 0)) for status in answers)
    quota = min(int(status.get("dbSizeQuota", QUOTA)) for status in answers)
    says = f"{size / 1e6:.0f} MB of a quota of {quota / 1e6:.0f} MB"
    if size > 0.8 * quota:
        return warn("room", says, "compact and defragment it, or raise --quota-backend-bytes")
    return ok("room", says)


def _alarms(api: EtcdApi) -> Check:
    alarms = api.ask("/v3/maintenance/alarm", {"action": "GET"}, api.deadline()).body.get("alarms", ())
    if alarms:
        kinds = ", ".join(sorted({str(alarm.get("alarm")) for alarm in alarms}))
        return error("alarms", kinds, "fix what it names, then `etcdctl alarm disarm`")
    return ok("alarms", "none")


def _compaction(api: EtcdApi) -> Check:
    """Whether the first revisions still exist, long after they were written."""
    key = text64(api.address.namespace.encode() + b"/" + META_KEY)
    revision = api.ask("/v3/kv/range", {"key": key}, api.deadline()).revision
    try:
        api.ask("/v3/kv/range", {"key": key, "revision": 1}, api.deadline())
    except StoreError as failure:
        if "compacted" in str(failure):
            return ok("compaction", "old revisions are removed")
        raise
    says = f"none of {revision} revisions was removed yet"
    if revision < REVISIONS_PER_DAY:
        return ok("compaction", says)
    return warn("compaction", says, "start etcd with --auto-compaction-retention=1h, or it runs out of space")


def _namespaces(api: EtcdApi) -> Check:
    found = [name.decode(errors="replace") for name in _found_namespaces(api)]
    others = [name for name in found if name != api.address.namespace]
    return alone(others, "give every process of a job the same ?namespace=")


def _found_namespaces(api: EtcdApi) -> Iterator[bytes]:
    """The first part of every key below which there is a store of ours; each is skipped to the next."""
    first = b"\0"
    for _ in range(MOST_NAMESPACES):
        everything = {"key": text64(first), "range_end": text64(b"\0"), "limit": 1, "keys_only": True}
        kvs = api.ask("/v3/kv/range", everything, api.deadline()).body.get("kvs", ())
        if not kvs:
            return
        name = data64(kvs[0]["key"]).partition(b"/")[0] + b"/"
        meta = api.ask("/v3/kv/range", {"key": text64(name + META_KEY)}, api.deadline()).body.get("kvs", ())
        if meta and _is_ours(meta[0]):
            yield name[:-1]
        first = after_all(name)


def _is_ours(meta: Json) -> bool:
    try:
        return schema_of(meta) > 0
    except (ValueError, KeyError, TypeError):
        return False
