"""What `cronce doctor` looks at: which store is meant and who named it, whether this machine's clock is kept right and
agrees with the store's, what the store promises, what its own kind knows to ask, and the proof that it excludes.

Checks are yielded as they are made, so that whoever waits sees how far it is.
"""

import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from statistics import median
from typing import Final

from cronce import __version__
from cronce.clock import Clock, KernelClock, kernel_clock
from cronce.errors import BadInput, StoreError, StoreUnavailable
from cronce.model import Epoch, Instant, Origin, Traits
from cronce.protocol.notices import Bundle
from cronce.protocol.store_clock import SET_CLOCK, closed_ahead, dated_ahead
from cronce.runtime.clock_repair import FutureDated, find_ahead
from cronce.runtime.flow import Flow, drive
from cronce.runtime.queries import holders, machines_tzdata, mixed_tzdata, read_bundle, shared_names
from cronce.runtime.self_test import SelfTest
from cronce.stores import mask
from cronce.stores.base import Store
from cronce.stores.checks import Check, error, ok, warn
from cronce.stores.default import DEFAULT, GIVEN, LINE, Chosen, choose, in_container, open_chosen
from cronce.value import NamedTuple

CLOCK_READINGS: Final = 20
PROBLEMS_SHOWN: Final = 3
SLOW_ANSWER: Final = timedelta(milliseconds=250)
OFF: Final = timedelta(milliseconds=100)
FAR_OFF: Final = timedelta(seconds=5)

Open = Callable[[Chosen], Store]


class ClockReading(NamedTuple):
    """One question to the store: how long it took, and by how much the store's clock was ahead of this machine's, at
    the middle of it."""

    took: timedelta
    ahead: timedelta


def examine(url: str | None, clock: Clock, connect: Open = open_chosen) -> Iterator[Check]:
    """All checks, in an order that people can follow. Raises `StoreUnavailable`, or `BadInput` if the URL is none or
    its driver is not installed, after the check that says so."""
    yield ok("cronce", f"{__version__}, on Python {platform.python_version()} and {platform.system()}")
    yield kept_right(kernel_clock(), container=in_container(os.environ, "/"))
    try:
        chosen = choose(url)
        try:
            store = connect(chosen)
        except StoreError:
            yield named(chosen)
            raise
        yield named(chosen)
        with closing(store):
            yield from _examined(store, lambda: connect(chosen), clock)
    except BadInput as trouble:
        yield unusable(trouble)
        raise
    except StoreUnavailable as trouble:
        yield error("reach", str(trouble), "check that it runs, and that this machine can reach it")
        raise
    except StoreError as trouble:
        yield error("use", str(trouble), "")


def _examined(store: Store, connect: Callable[[], Store], clock: Clock) -> Iterator[Check]:
    samples = measured(store, clock)
    yield round_trip(samples)
    yield skew(samples, store.traits)
    yield promises(store.traits)
    yield from life(store.load([]).epoch)
    yield from drive(together(), store, clock)
    yield from lying_ahead(drive(find_ahead(), store, clock))
    ask = getattr(store, "checks", None)
    if ask is not None:
        yield from ask()
    yield from SelfTest(store, connect, clock).checks()


# --- the store, as it is named ---


def named(chosen: Chosen) -> Check:
    url = mask(chosen.url)
    match chosen.source:
        case value if value == GIVEN:
            return ok("store", url)
        case value if value == DEFAULT:
            return ok("store", f"{url}, the default: only this user's processes on this machine share it")
        case source:
            return ok("store", f"{url}, named by {source}")


def unusable(trouble: BadInput) -> Check:
    """Most say what is wrong, and then what to do about it."""
    says, *remedy = re.split("; |: (?=pip install )", str(trouble), maxsplit=1)
    return error("store", says, "".join(remedy))


def life(epoch: Epoch) -> Iterator[Check]:
    """A store that can forget, and was empty when it was first seen, may be new; or not."""
    if epoch.origin is Origin.FOUND:
        says = f"it was empty at {epoch.born:%Y-%m-%d %H:%M:%S} UTC and may have lost data: slots up to then"
        yield warn("life", f"{says} stay closed", "if it is new, run `cronce store init URL` before the first job")


def lying_ahead(ahead: FutureDated) -> Iterator[Check]:
    """What a clock that leapt has left behind."""
    if ahead.jobs:
        yield error("ahead", closed_ahead(f"future slots of {listed(ahead.jobs)}"), SET_CLOCK)
    if ahead.leases or ahead.holders:
        names = listed([cell.key for cell in (*ahead.leases, *ahead.holders)])
        yield error("ahead", dated_ahead(names), SET_CLOCK)


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - PROBLEMS_SHOWN:,} more" if len(names) > PROBLEMS_SHOWN else ""
    return f"{', '.join(names[:PROBLEMS_SHOWN])}{more}"


def promises(traits: Traits) -> Check:
    """What the store says of itself."""
    if not traits.linearizable:
        says = "a failover may lose an accepted write, or a later read may not see it: a slot may be claimed twice"
        return warn("promises", says, f"make it wait for its replicas, or use another store: {LINE}")
    if not traits.shared:
        return warn("promises", "each process has a store of its own: nothing is shared", f"use another store: {LINE}")
    if not traits.durable:
        says = "each slot is claimed once, unless the store loses data: a crash may lose its last writes"
        return warn("promises", says, "make it durable; slots that were lost are closed as unknown, not run again")
    also = " or loses its machine" if traits.survives_failover else "; the loss of its machine may lose writes"
    return ok("promises", f"each slot is claimed once, even if the store crashes{also}")


def together() -> Flow[list[Check]]:
    """What the live schedulers do not agree on."""
    _, seen = yield from holders()
    live, bundles = [one.holder for one in seen], dict[str, Bundle]()
    for bundle in {one.bundle for one in live}:
        bundles[bundle] = yield from read_bundle(bundle)
    machines = yield from machines_tzdata()
    return [*names(shared_names(live, bundles)), *time_zones(mixed_tzdata(live, machines))]


def names(shared: Mapping[str, Mapping[str, str]]) -> Iterator[Check]:
    for job, found in shared.items():
        where = " and ".join(f"{code} ({holder})" for code, holder in found.items())
        remedy = (
            "give one of them another name, or each application its own namespace; if the code moved, stop the"
            " old processes"
        )
        yield warn(
            "names", (f"{job} is the name of more than one function: {where}; each slot runs only one of them"), remedy
        )


def time_zones(mixed: Mapping[str, str]) -> Iterator[Check]:
    if mixed:
        where = " and ".join(f"{version} ({place})" for version, place in mixed.items())
        says = f"machines have different versions of the time zone database: {where}"
        yield warn("time zones", says, "update tzdata on all of them")


# --- time ---


def measured(store: Store, clock: Clock) -> list[ClockReading]:
    return [_sample(store, clock) for _ in range(CLOCK_READINGS)]


def _sample(store: Store, clock: Clock) -> ClockReading:
    wall: Instant = clock.wall()
    began = clock.boot()
    now = store.load(["meta"]).now
    took = timedelta(seconds=clock.boot() - began)
    return ClockReading(took, now - (wall + took / 2))


def round_trip(samples: Sequence[ClockReading]) -> Check:
    typical = timedelta(seconds=median(sample.took.total_seconds() for sample in samples))
    says = f"{_ms(typical)} for a round trip (the median of {len(samples)})"
    if typical >= SLOW_ANSWER:
        return warn(
            "round trip", says, ("each claim takes at least as long; put the store closer to the machines that use it")
        )
    return ok("round trip", says)


def skew(samples: Sequence[ClockReading], traits: Traits) -> Check:
    """By the answer that was fastest: the store read its clock somewhere between question and answer."""
    best = min(samples, key=lambda sample: sample.took)
    own = traits.step + traits.skew
    if OFF < own >= abs(best.ahead):
        return ok("clocks", f"the store's clock is known only to {_ms(own)}, and this machine's clock is within that")
    doubt = best.took / 2 + own
    surely = abs(best.ahead) - doubt
    says = f"this machine's clock is {_ms(abs(best.ahead))} {'behind' if best.ahead > timedelta(0) else 'ahead of'} the"
    says += f" store's, known to ±{_ms(doubt)}"
    remedy = "keep both clocks right, with chrony or systemd-timesyncd"
    if surely >= FAR_OFF:
        return error("clocks", says, f"{remedy}; a machine whose clock is a minute off runs nothing")
    return warn("clocks", says, remedy) if surely >= OFF else ok("clocks", says)


def kept_right(kept: KernelClock | None, *, container: bool) -> Check:
    whose = "the host's clock (containers share it)" if container else "this machine's clock"
    where = "on the host" if container else "here"
    if kept is None:
        return ok("ntp", f"cannot check here whether NTP synchronises {whose}")
    if kept.synchronised:
        return ok("ntp", f"{whose} is synchronised, to {_ms(timedelta(seconds=kept.error))}")
    return warn("ntp", f"no NTP service synchronises {whose}", f"run chrony or systemd-timesyncd {where}")


def _ms(span: timedelta) -> str:
    milliseconds = span / timedelta(milliseconds=1)
    return f"{milliseconds:.2f} ms" if milliseconds < 10 else f"{milliseconds:,.0f} ms"
