"""How cells are kept in Leases: which Lease a cell is in, what is written into it, and how it is read. Pure.

    PREFIX-job-NAME       job/NAME, turn/NAME/… and run/NAME/…: a job, whose group is one write
    PREFIX-lock-NAME      lock/NAME, PREFIX-leader-NAME leader/NAME: other programs may hold them, too
    PREFIX-store          what is about all jobs: switch, looked-on, board/…, drain/…, and which jobs there are
    PREFIX-cell-…         any other cell, by itself

*Cells* are JSON in an annotation. A Lease is replaced whole, under the resourceVersion that it was read with, so of all
processes that read one state of it one writes the next. A cell's version is made from the resourceVersion that was
replaced: etcd gives no two objects the same, and a Lease that is made again has a higher one.

*The spec* of a job's Lease shows people who runs it. That of a lock or leader decides: client-go's leader election and
the like know nothing of annotations. What we wrote counts as long as holder and transitions are those we wrote with it;
else another program took it over, and the cell is derived from the spec.

*A fence* is the creation of the Lease and the transitions in it, so that it is higher in every later term, ours or not.

*Slots rise.* `protocol.retention` decides which runs of a job are kept, and what one that is not reads as: `passed` is
the latest of those, and all that is stored of them.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Final

from cronce.errors import BadRecord, StoreCorrupt, StoreNewer
from cronce.model import LOOKED_ON, SWITCH, Cell, Epoch, Fence, Instant, Mark, Verdict, Write, to_us
from cronce.protocol.record import Record, State, decode, encode
from cronce.protocol.retention import crowded_out, passed_with, stand_in
from cronce.stores.base import instant, judge_groups, us
from cronce.stores.http_api import Json
from cronce.value import NamedTuple

KUBERNETES_SCHEMA: Final = 1
"""The version of this layout. A newer one is refused, never guessed."""

SHELF: Final = "cronce.dev/shelf"
STORE_LABEL: Final = "cronce.dev/store"
MANAGED: Final = {"app.kubernetes.io/managed-by": "cronce"}

NUMBERS_PER_VERSION: Final = 1000
"""Numbers per resourceVersion: more than a write of one Lease has wins."""

DRAWN: Final = -1
"""The birth of a new fence that has no number yet."""

_SECOND: Final = timedelta(seconds=1)
_JOB_IN_KEY: Final = re.compile(r"(?:run/([^/]+)/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|turn/([^/]+)/\d+|job/([^/]+))")
_PLAIN_NAME: Final = r"[a-z0-9]([a-z0-9-]{0,118}[a-z0-9])?"

# --- which Lease ------------------------------------------------------------------------------------------------------


class LeaseOfCell(NamedTuple):
    """The Lease that a cell is in."""

    kind: str
    name: str = ""

    @property
    def elects(self) -> bool:
        """Whether others than cronce may hold it."""
        return self.kind in ("lock", "leader")


STORE: Final = LeaseOfCell("store")


def home_of(key: str) -> LeaseOfCell:
    kind, _, name = key.partition("/")
    if key in (SWITCH, LOOKED_ON) or kind in ("board", "drain"):
        return STORE
    if found := _JOB_IN_KEY.fullmatch(key):
        return LeaseOfCell("job", found[1] or found[2] or found[3])
    return LeaseOfCell(kind, name) if kind in ("lock", "leader") and name else LeaseOfCell("cell", key)


def lease_name(prefix: str, home: LeaseOfCell) -> str:
    """A name is at most 253 of a–z, 0–9 and - (and dots). One that is not gets a digest, so that no two meet."""
    if home == STORE:
        return f"{prefix}-store"
    if re.fullmatch(_PLAIN_NAME, home.name):
        return f"{prefix}-{home.kind}-{home.name}"
    plain = re.sub("[^a-z0-9]+", "-", home.name.lower()).strip("-")[:60].strip("-")
    digest = hashlib.sha256(home.name.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{prefix}-{home.kind}-{plain}-{digest}" if plain else f"{prefix}-{home.kind}-{digest}"


# --- what is in it ----------------------------------------------------------------------------------------------------


class LeaseCells(NamedTuple):
    """A Lease as it was read."""

    home: LeaseOfCell
    lease: Json
    cells: Mapping[str, Cell]
    passed: Instant | None = None
    jobs: Mapping[str, str] = {}
    """Of the store's: every job that has a Lease, and the uid of the first."""
    is_new: bool = False
    """Nothing of ours was ever written into it."""
    granted: int = 0
    """The transitions that we last wrote."""
    life: int | None = None
    """The birth of the store when it was last written; None: not on record."""

    @property
    def there(self) -> bool:
        return bool(self.lease)

    @property
    def revision(self) -> int:
        return int(self.lease["metadata"]["resourceVersion"])

    @property
    def uid(self) -> str:
        return str(self.lease["metadata"]["uid"])

    @property
    def born(self) -> Instant:
        return _read_time(self.lease["metadata"]["creationTimestamp"])

    @property
    def transitions(self) -> int:
        """How often it was granted: the number of the last fence, even if another program did not count on."""
        fences = [cell.fence.number for cell in self.cells.values() if cell.fence]
        return max([int(spec_in(self.lease).get("leaseTransitions") or 0), self.granted, *fences])

    def cell(self, key: str) -> Cell:
        """The cell of a key; a slot that may have run before reads as closed."""
        if key in self.cells or not key.startswith("run/"):
            return self.cells.get(key) or Cell(key)
        return stand_in(key, self.passed)


def spec_in(lease: Json) -> Json:
    return lease.get("spec") or {}


def absent(home: LeaseOfCell) -> LeaseCells:
    return LeaseCells(home, {}, {})


def bare(name: str, prefix: str, namespace: str) -> Json:
    """A new Lease. Cells are written into it afterwards, under its resourceVersion."""
    meta = {"name": name, "namespace": namespace, "labels": {**MANAGED, STORE_LABEL: prefix}}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": {}}


def home_in(lease: Json) -> LeaseOfCell | None:
    """Of a Lease from a list: what it is for, if anything was written into it."""
    row = _row(lease)
    return None if row is None else row["home"]


def read_shelf(home: LeaseOfCell, lease: Json, sighted: Instant) -> LeaseCells:
    """`sighted`: the server's now when this state of it was first seen. The lease of another program's holder counts
    from there, since its clock may be wrong."""
    row = _row(lease)
    if row is None:
        cells = [_theirs(home, lease, sighted)] if home.elects and _was_held(lease) else []
        return LeaseCells(home, lease, {cell.key: cell for cell in cells}, is_new=True)
    life = to_us(_read_time(lease["metadata"]["creationTimestamp"])) if home == STORE else row.get("life")
    if row["home"] != home:
        raise _damaged(lease)
    try:
        cells = [_read_cell(key, columns) for key, columns in row["cells"].items()]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise _damaged(lease) from None
    if home.elects and row.get("seal") != _seal(spec_in(lease)):
        cells = [_theirs(home, lease, sighted)]
    shelved, granted = {cell.key: cell for cell in cells}, int(row["seal"][1])
    return LeaseCells(
        home, lease, shelved, instant(row.get("passed")), row.get("jobs") or {}, granted=granted, life=life
    )


def annotation(lease: Json) -> str | None:
    """What we wrote into it, as text."""
    text: str | None = (lease["metadata"].get("annotations") or {}).get(SHELF)
    return text


def _row(lease: Json) -> Json | None:
    """What we wrote into a Lease; None: nothing yet."""
    text = annotation(lease)
    if text is None:
        return None
    try:
        row: Json = json.loads(text)
        if int(row["schema"]) > KUBERNETES_SCHEMA:
            raise StoreNewer(f"the Lease {lease['metadata']['name']} was written by a newer cronce; upgrade this one")
        kind, name = row["home"]
    except (ValueError, TypeError, KeyError):
        raise _damaged(lease) from None
    return {**row, "home": LeaseOfCell(str(kind), str(name))}


def _damaged(lease: Json) -> StoreCorrupt:
    name, text = lease["metadata"]["name"], annotation(lease) or ""
    return StoreCorrupt(f"the annotation {SHELF} of the Lease {name} is not what cronce wrote there: {text[:60]!r}")


def _read_cell(key: str, columns: Sequence[Any]) -> Cell:
    version, mark, at, until, fence, value = columns
    return Cell(key, version, value, instant(at), Mark(mark), Fence(*fence) if fence else None, instant(until))


# --- holders that are not ours ----------------------------------------------------------------------------------------


def _seal(spec: Json) -> list[object]:
    """Shows whether a Lease is as we left it: any other holder changes one of these."""
    return [spec.get("holderIdentity") or "", int(spec.get("leaseTransitions") or 0)]


def _was_held(lease: Json) -> bool:
    spec = spec_in(lease)
    return bool(spec.get("holderIdentity") or spec.get("leaseTransitions"))


def _theirs(home: LeaseOfCell, lease: Json, sighted: Instant) -> Cell:
    """The cell of a lock or leader that another program wrote last: held for its duration, or released."""
    spec = spec_in(lease)
    shelf = LeaseCells(home, lease, {})
    term = Fence(to_us(shelf.born), shelf.transitions)
    length = timedelta(seconds=int(spec.get("leaseDurationSeconds") or 1))
    who = str(spec.get("holderIdentity") or "")
    state = State.RUNNING if who else State.DUE
    record = Record(state, shelf.transitions, holder=who, lease=length, on_lost="rerun", started=_acquired(spec))
    key, until = f"{home.kind}/{home.name}", sighted + length if who else None
    return Cell(key, shelf.revision * NUMBERS_PER_VERSION, encode(record), None, Mark.OPEN, term, until)


def _acquired(spec: Json) -> Instant | None:
    with suppress(ValueError, TypeError):
        return _read_time(spec["acquireTime"]) if spec.get("acquireTime") else None
    return None


# --- what a batch makes of it -----------------------------------------------------------------------------------------


def judged(shelf: LeaseCells, writes: Sequence[Write], now: Instant) -> tuple[list[Verdict], dict[str, Cell]]:
    """Which writes win, and the cells to store."""
    read = [cell for cell in (shelf.cell(write.key) for write in writes) if cell.version]
    base = shelf.revision * NUMBERS_PER_VERSION if shelf.there else 0
    drafts, changed, _ = judge_groups(writes, read, Epoch(DRAWN, base), now)
    drawn = sorted({cell.fence for _, cell in drafts if cell.fence and cell.fence.birth == DRAWN})
    terms = {fence: shelf.transitions + number for number, fence in enumerate(drawn, 1)} if shelf.there else {}

    def settled(cell: Cell) -> Cell:
        return cell._replace(fence=Fence(to_us(shelf.born), terms[cell.fence])) if cell.fence in terms else cell

    verdicts = [Verdict(refused, settled(cell)) for refused, cell in drafts]
    return verdicts, {key: settled(cell) for key, cell in changed.items()}


def changed_by(shelf: LeaseCells, changed: Mapping[str, Cell], life: int) -> LeaseCells:
    """With these cells in it, written in that life of the store; a new run replaces older ones that are closed."""
    shelf = shelf._replace(life=life)
    cells = {**shelf.cells, **changed}
    runs = {key: cell for key, cell in cells.items() if shelf.home.kind == "job" and key.startswith("run/")}
    begins = any(key in runs and key not in shelf.cells for key in changed)
    return without(shelf, cells, crowded_out(runs) if begins else ())


def without(shelf: LeaseCells, cells: Mapping[str, Cell], gone: Iterable[str]) -> LeaseCells:
    """Without some cells. A run that is no longer kept counts as passed for good."""
    away = set(gone)
    ran = [key for key in away if shelf.home.kind == "job" and key.startswith("run/")]
    left = {key: cell for key, cell in cells.items() if key not in away}
    return shelf._replace(cells=left, passed=passed_with(shelf.passed, ran))


def lease_of(shelf: LeaseCells, prefix: str, now: Instant) -> Json:
    """The Lease to replace the read one with: as it was, except for what is cronce's."""
    spec = {**spec_in(shelf.lease), **_spec(shelf, now)}
    row = {
        "schema": KUBERNETES_SCHEMA,
        "home": list(shelf.home),
        "cells": {key: _columns(cell) for key, cell in shelf.cells.items()},
        "passed": us(shelf.passed),
        "seal": _seal(spec),
        "life": shelf.life,
    }
    if shelf.home == STORE:
        row["jobs"] = dict(shelf.jobs)
    meta = dict(shelf.lease["metadata"])
    meta["labels"] = {**(meta.get("labels") or {}), **MANAGED, STORE_LABEL: prefix}
    text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
    meta["annotations"] = {**(meta.get("annotations") or {}), SHELF: text}
    return {**shelf.lease, "metadata": meta, "spec": spec}


def _columns(cell: Cell) -> list[object]:
    fence = list(cell.fence) if cell.fence else None
    return [cell.version, int(cell.mark), us(cell.at), us(cell.until), fence, cell.value]


def _spec(shelf: LeaseCells, now: Instant) -> Json:
    """Who holds it, as client-go writes it: a released one has no holder, and a duration of one second."""
    transitions = shelf.transitions
    if shelf.home.kind not in ("job", "lock", "leader"):
        return {"leaseTransitions": transitions}
    held = max(_held(shelf.cells.values(), now), key=lambda cell: cell.fence or Fence(0, 0), default=None)
    if held is None:
        spelled = spell_micro(now)
        free = {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": spelled, "renewTime": spelled}
        return {**free, "leaseTransitions": transitions}
    record, left = _record(held), (held.until or now) - now
    length = max(left, record.lease if record.is_running else left, _SECOND)
    return {
        "holderIdentity": record.holder or "cronce",
        "leaseDurationSeconds": ceil(length / _SECOND),
        "acquireTime": spell_micro(record.started or now),
        "renewTime": spell_micro(now),
        "leaseTransitions": transitions,
    }


def _held(cells: Iterable[Cell], now: Instant) -> Iterator[Cell]:
    """Runs in progress, and locks that are not free yet."""
    for cell in cells:
        record = _record(cell)
        rests = cell.key.startswith("lock/") and cell.until is not None and cell.until > now
        if cell.mark is Mark.OPEN and cell.fence and (record.is_running or rests):
            yield cell


def _record(cell: Cell) -> Record:
    """What cannot be read counts as held."""
    with suppress(BadRecord):
        return decode(cell.value, cell.key)
    return Record(State.RUNNING)


def spell_micro(when: Instant) -> str:
    """Always with six digits: an API server accepts nothing else, and isoformat omits them at zero."""
    return when.isoformat(timespec="microseconds")[:26] + "Z"


def _read_time(text: str) -> Instant:
    return datetime.fromisoformat(text)
