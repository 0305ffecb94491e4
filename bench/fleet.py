"""A store as a large fleet leaves it after months: jobs with their runs, effects, refusals and schedulers.

All of it is written by `Store.swap`, in large batches and with the codec of the records: no store is filled behind its
back, so what is measured on it is what its own indexes and scripts come to.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Final

from cronce.model import (
    ABSENT,
    Instant,
    Mark,
    Slot,
    Write,
    bundle_cells,
    holder_cell,
    job_cell,
    refusals_cell,
    turn_cell,
)
from cronce.protocol.notices import Bundle, Holder, Refusals, Refused, encode_notice
from cronce.protocol.record import Job, Outcome, Record, Spec, State, Turn, encode, encode_job, encode_turn
from cronce.runtime.declare import declare
from cronce.runtime.scheduling.roster import digest_of
from cronce.stores.base import Store

BATCH: Final = 2000
HOSTS: Final = ("web-1", "web-2", "batch-1")
WORDS: Final = ("billing", "report", "sync", "cleanup", "digest", "export", "import", "reindex")
LEASE: Final = timedelta(seconds=40)


@dataclass(frozen=True, slots=True)
class Fleet:
    """How much there is of what. Each job has so many runs that are closed; of those that are open, and of those that a
    person should look at, there are so many in all."""

    jobs: int = 10_000
    runs: int = 100
    open: int = 2_500
    attention: int = 2_500
    effects: int = 100_000
    doubtful: int = 1_000
    refused: int = 2_000

    def name(self, number: int) -> str:
        return f"{WORDS[number % len(WORDS)]}-{number:05}"

    def schedule(self, number: int) -> str:
        return f"{number % 60} * * * *" if number % 3 == 0 else f"{number % 60} {number // 60 % 24} * * *"

    def slots(self, number: int, now: Instant) -> Iterator[Slot]:
        """Of a job, newest first."""
        every = timedelta(hours=1 if number % 3 == 0 else 24)
        hour = now.replace(minute=number % 60, second=0, microsecond=0)
        first = hour if number % 3 == 0 else hour.replace(hour=number // 60 % 24)
        first -= every if first > now else timedelta(0)
        return (Slot(self.name(number), first - place * every) for place in range(self.runs))


def fill(store: Store, fleet: Fleet, now: Instant | None = None) -> int:
    """As it would be by now, unless another instant is given. How many cells there are then."""
    loaded = store.load([])
    epoch, written = loaded.epoch, 0
    writes = _writes(fleet, now or loaded.now)
    while batch := list(islice(writes, BATCH)):
        swapped = store.swap(batch, epoch.seen)
        assert not any(verdict.refused for verdict in swapped.verdicts)
        epoch, written = swapped.epoch, written + len(batch)
    return written


def _writes(fleet: Fleet, now: Instant) -> Iterator[Write]:
    specs = {}
    for number in range(fleet.jobs):
        name = fleet.name(number)
        specs[name] = digest, text = declare(name, schedule=fleet.schedule(number), timeout="10m").spec
        job = Job(now - timedelta(days=200), specs=(Spec(digest, now - timedelta(days=200), text),), firing=digest)
        yield Write(job_cell(name), ABSENT, encode_job(job), Mark.FREE)
        yield Write(turn_cell(name, 0), ABSENT, encode_turn(Turn()), Mark.FREE, ttl=timedelta(0))
        yield from _runs(number, fleet.slots(number, now))
    yield from _unfinished(fleet, now)
    yield from _effects(fleet, now)
    yield from _refusals(fleet, now)
    yield from _schedulers({name: digest for name, (digest, _) in specs.items()}, now)


def _runs(number: int, slots: Iterable[Slot]) -> Iterator[Write]:
    for place, slot in enumerate(slots):
        started = slot.at + timedelta(milliseconds=20 + (number * 7 + place) % 400)
        took = timedelta(milliseconds=500 + (number * 31 + place * 17) % 60_000)
        failed = (number + place) % 20 == 0
        record = Record(
            State.CLOSED,
            grant=1,
            nonce=f"{number:08x}{place:08x}",
            holder=f"{HOSTS[(number + place) % 3]}:4242:1a2b3c4d5e",
            lease=LEASE,
            turn=turn_cell(slot.job, 0),
            started=started,
            finished=started + took,
            outcome=Outcome.FAILED if failed else Outcome.SUCCEEDED,
            reason="ConnectionError: upstream did not answer within 30 s" if failed else "",
            output="3 of 3 batches done\n" if place % 2 else "",
        )
        yield Write(slot.cell, ABSENT, encode(record), Mark.CLOSED, slot.at, grant=True, ttl=timedelta(0))


def _unfinished(fleet: Fleet, now: Instant) -> Iterator[Write]:
    """Runs asked for by hand: half of what is open has lapsed."""
    for number in range(fleet.open + fleet.attention):
        slot = next(fleet.slots(number % fleet.jobs, now))._replace(request=f"backfill-{number}")
        holder = f"{HOSTS[number % 3]}:4242:1a2b3c4d5e"
        asked = now - timedelta(seconds=number)
        record = Record(State.RUNNING, 1, f"{number:016x}", holder, LEASE, started=asked, by="ann")
        if number < fleet.open:
            ttl = timedelta(days=1) if number % 2 else timedelta(0)
            yield Write(slot.cell, ABSENT, encode(record), Mark.OPEN, asked, grant=True, ttl=ttl)
        else:
            lost = record._replace(state=State.CLOSED, outcome=Outcome.LOST, finished=asked + LEASE)
            yield Write(slot.cell, ABSENT, encode(lost), Mark.ATTENTION, asked, grant=True, ttl=timedelta(0))


def _effects(fleet: Fleet, now: Instant) -> Iterator[Write]:
    """A hundred steps of a slot each; of some the first is in doubt."""
    for number in range(fleet.effects):
        slot = next(fleet.slots(number // 100 % fleet.jobs, now))
        doubtful = number % 100 == 0 and number // 100 < fleet.doubtful
        outcome = Outcome.UNKNOWN if doubtful else Outcome.SUCCEEDED
        record = Record(State.CLOSED, 1, f"{number:016x}", "web-1:4242:1a2b3c4d5e", outcome=outcome, finished=now)
        key = f"effect/{slot.job}/{slot.key.partition('@')[2]}/mail:{number}"
        yield Write(key, ABSENT, encode(record), Mark.ATTENTION if doubtful else Mark.CLOSED, slot.at, grant=True)


def _refusals(fleet: Fleet, now: Instant) -> Iterator[Write]:
    for number in range(fleet.refused):
        slots = islice(fleet.slots(number % fleet.jobs, now), 20)
        recent = tuple(Refused(slot.key, slot.at, "web-2:4242:1a: held by web-1:4242:1a2b3c4d5e") for slot in slots)
        value = encode_notice(Refusals(140, recent[::-1]))
        yield Write(
            refusals_cell(fleet.name(number % fleet.jobs), f"host-{number // fleet.jobs}"),
            ABSENT,
            value,
            Mark.FREE,
            ttl=timedelta(days=30),
        )


def _schedulers(digests: dict[str, str], now: Instant) -> Iterator[Write]:
    """Three of them, for a day; a bundle is spread over cells of a thousand jobs."""
    names, bundle = sorted(digests), digest_of({name: (digest, "") for name, digest in digests.items()})
    for number, start in enumerate(range(0, len(names), 1000)):
        part = {name: digests[name] for name in names[start : start + 1000]}
        yield Write(
            f"{bundle_cells(bundle)}{number:03}", ABSENT, encode_notice(Bundle(part)), Mark.FREE, ttl=timedelta(days=30)
        )
    for host in HOSTS:
        holder = Holder(f"{host}:4242:1a2b3c4d5e", bundle, "both", 8, {}, now, "1.0")
        yield Write(holder_cell(holder.holder), ABSENT, encode_notice(holder), Mark.OPEN, ttl=timedelta(days=1))
