"""What the doctor says, exactly; and that its proof fails on stores that do not keep what all rests on."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cronce import __version__
from cronce.clock import KernelClock, SystemClock, kernel_clock
from cronce.errors import BadInput, StoreUnavailable
from cronce.model import Cell, Epoch, Origin, Traits, Write, to_us
from cronce.protocol.notices import Holder
from cronce.runtime.declare import declare
from cronce.runtime.doctor import (
    CLOCK_READINGS,
    NOT_A_STORE,
    ClockReading,
    SelfTest,
    examine,
    kept_right,
    life,
    measured,
    named,
    promises,
    round_trip,
    skew,
    together,
    unusable,
)
from cronce.runtime.flow import drive
from cronce.runtime.scheduling.roster import Roster, digest_of
from cronce.stores import open_store
from cronce.stores.base import Loaded, Scan, Store, Swapped
from cronce.stores.checks import Check, error, ok, warn
from cronce.stores.default import Chosen
from cronce.stores.memory import MemoryStore
from tests.runtime.shelf import START, HandClock, HandNode, Wire

MS = timedelta(milliseconds=1)
ANOTHER = "use another store: CRONCE_URL=postgresql://USER:PASSWORD@HOST/DATABASE"
SHARED = Traits("test")
CLOCK = SystemClock()


class Off(MemoryStore):
    """A store whose clock is off by some seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(lambda: CLOCK.wall() + timedelta(seconds=seconds), SHARED)


def all_of(store: Store) -> dict[str, Check]:
    return {check.name: check for check in examine("test:", CLOCK, lambda _chosen: store)}


# --- one check at a time --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("took", "says"),
    [
        (0.25, ok("round trip", "0.25 ms for a round trip (the median of 3)")),
        (12.4, ok("round trip", "12 ms for a round trip (the median of 3)")),
        (249.0, ok("round trip", "249 ms for a round trip (the median of 3)")),
        (
            1250.0,
            warn(
                "round trip",
                "1,250 ms for a round trip (the median of 3)",
                "each claim takes at least as long; put the store closer to the machines that use it",
            ),
        ),
    ],
)
def test_the_round_trip_is_the_median(took: float, says: Check) -> None:
    assert round_trip([ClockReading(span * MS, 0 * MS) for span in (0.0, 99_999.0, took)]) == says


KEEP = "keep both clocks right, with chrony or systemd-timesyncd"
FAR = f"{KEEP}; a machine whose clock is a minute off runs nothing"


@pytest.mark.parametrize(
    ("ahead", "took", "says"),
    [
        (3, 1, ok("clocks", "this machine's clock is 3.00 ms behind the store's, known to ±0.50 ms")),
        (-3, 1, ok("clocks", "this machine's clock is 3.00 ms ahead of the store's, known to ±0.50 ms")),
        (100, 1, ok("clocks", "this machine's clock is 100 ms behind the store's, known to ±0.50 ms")),
        (-101, 1, warn("clocks", "this machine's clock is 101 ms ahead of the store's, known to ±0.50 ms", KEEP)),
        (400, 700, ok("clocks", "this machine's clock is 400 ms behind the store's, known to ±350 ms")),
        (5000, 1, warn("clocks", "this machine's clock is 5,000 ms behind the store's, known to ±0.50 ms", KEEP)),
        (5001, 1, error("clocks", "this machine's clock is 5,001 ms behind the store's, known to ±0.50 ms", FAR)),
    ],
)
def test_skew_is_judged_by_what_is_sure_of_it(ahead: int, took: int, says: Check) -> None:
    """The answer that took shortest tells most; a slower one says nothing more."""
    assert skew([ClockReading(took * MS, ahead * MS), ClockReading(took * 9 * MS, 0 * MS)], SHARED) == says


@pytest.mark.parametrize(
    ("ahead", "says"),
    [
        (250, ok("clocks", "the store's clock is known only to 250 ms, and this machine's clock is within that")),
        (-300, ok("clocks", "this machine's clock is 300 ms ahead of the store's, known to ±250 ms")),
        (351, warn("clocks", "this machine's clock is 351 ms behind the store's, known to ±250 ms", KEEP)),
    ],
)
def test_a_clock_that_the_store_itself_is_unsure_of_is_given_the_benefit(ahead: int, says: Check) -> None:
    assert skew([ClockReading(0 * MS, ahead * MS)], SHARED._replace(step=200 * MS, skew=50 * MS)) == says


def test_a_clock_that_is_known_well_is_told_in_numbers() -> None:
    says = "this machine's clock is 0.10 ms behind the store's, known to ±1.00 ms"
    assert skew([ClockReading(0 * MS, 0.1 * MS)], SHARED._replace(step=1 * MS)) == ok("clocks", says)


@pytest.mark.parametrize(
    ("trouble", "says", "remedy"),
    [
        ("'x' is not the URL of a store; for a file write y", "'x' is not the URL of a store", "for a file write y"),
        ("x:// needs y: pip install 'cronce[x]'", "x:// needs y", "pip install 'cronce[x]'"),
        ("'x': write y", "'x': write y", ""),
    ],
)
def test_a_store_that_cannot_be_meant(trouble: str, says: str, remedy: str) -> None:
    assert unusable(BadInput(trouble)) == error("store", says, remedy)


def test_only_a_life_that_was_found_empty_is_told() -> None:
    born = datetime(2026, 3, 29, 8, 17, 5, 900_000, tzinfo=UTC)
    (found,) = life(Epoch(to_us(born), origin=Origin.FOUND))
    assert found.says == (
        "it was empty at 2026-03-29 08:17:05 UTC and may have lost data: slots up to then stay closed"
    )
    assert [*life(Epoch(to_us(born))), *life(Epoch(to_us(born), origin=Origin.RESTORED))] == []


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        (Chosen("redis://u:secret@h/0", "given"), "redis://u:***@h/0"),
        (Chosen("redis://h/0", "$CRONCE_URL"), "redis://h/0, named by $CRONCE_URL"),
        (Chosen("redis://h/0", "/etc/cronce.toml"), "redis://h/0, named by /etc/cronce.toml"),
        (
            Chosen("sqlite:////home/me/cronce.db", "default"),
            "sqlite:////home/me/cronce.db, the default: only this user's processes on this machine share it",
        ),
    ],
)
def test_which_store_it_is_and_who_named_it(chosen: Chosen, says: str) -> None:
    assert named(chosen) == ok("store", says)


@pytest.mark.parametrize(
    ("lacks", "says"),
    [
        ((), ok("promises", "each slot is claimed once, even if the store crashes or loses its machine")),
        (
            ("survives_failover",),
            ok(
                "promises",
                "each slot is claimed once, even if the store crashes; the loss of its machine may lose writes",
            ),
        ),
        (
            ("survives_failover", "durable"),
            warn(
                "promises",
                "each slot is claimed once, unless the store loses data: a crash may lose its last writes",
                "make it durable; slots that were lost are closed as unknown, not run again",
            ),
        ),
        (
            ("survives_failover", "durable", "shared"),
            warn("promises", "each process has a store of its own: nothing is shared", ANOTHER),
        ),
        (
            ("linearizable",),
            warn(
                "promises",
                "a failover may lose an accepted write, or a later read may not see it: a slot may be claimed twice",
                f"make it wait for its replicas, or {ANOTHER}",
            ),
        ),
    ],
)
def test_what_the_store_promises(lacks: Sequence[str], says: Check) -> None:
    assert promises(SHARED._replace(**dict.fromkeys(lacks, False))) == says  # type: ignore[arg-type]


HOSTS = "the host's clock (containers share it)"


@pytest.mark.parametrize(
    ("kept", "container", "says"),
    [
        (KernelClock(True, 0.0123), False, ok("ntp", "this machine's clock is synchronised, to 12 ms")),
        (KernelClock(True, 0.0123), True, ok("ntp", f"{HOSTS} is synchronised, to 12 ms")),
        (
            KernelClock(False, 16.0),
            False,
            warn("ntp", "no NTP service synchronises this machine's clock", "run chrony or systemd-timesyncd here"),
        ),
        (
            KernelClock(False, 16.0),
            True,
            warn("ntp", f"no NTP service synchronises {HOSTS}", "run chrony or systemd-timesyncd on the host"),
        ),
        (None, False, ok("ntp", "cannot check here whether NTP synchronises this machine's clock")),
    ],
)
def test_whether_anybody_keeps_the_clock_right(kept: KernelClock | None, container: bool, says: Check) -> None:
    assert kept_right(kept, container=container) == says


def test_the_kernel_is_asked_for_real() -> None:
    kept = kernel_clock()
    assert kept is not None, "Linux says"
    assert 0 <= kept.error <= 3600


def test_where_there_is_no_kernel_to_ask_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert kernel_clock() is None


# --- SQLite ---------------------------------------------------------------------------------------------------------


def table(kind: str) -> str:
    return f"1 0 8:1 / / rw - {kind} /dev/sda1 rw\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    open_store(f"sqlite:///{tmp_path}/cronce.db").close()
    return tmp_path / "cronce.db"


# --- all of them ----------------------------------------------------------------------------------------------------


def test_a_store_that_is_well(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cronce.mounts.current_table", lambda: table("ext4"))
    found = list(examine(f"sqlite:///{file}", CLOCK))
    names = [check.name for check in found if check.name not in ("file", "disk", "room", "readers", "version")]
    assert names == [
        "cronce", "ntp", "store", "round trip", "clocks", "promises", "claim", "lease", "fence", "closed", "tidy"
    ]  # fmt: skip
    assert found[0].says.startswith(f"{__version__}, on Python 3.")
    assert [check for check in found if check.verdict != "ok" and check.name != "ntp"] == []
    assert found[-5:] == [
        ok("claim", "of 16 claims of one slot at the same time one was granted, in each of 5 rounds"),
        ok("lease", "a lease is renewed"),
        ok("fence", "a write with an old fence is refused"),
        ok("closed", "a slot that was finished is not granted again"),
        ok("tidy", "the 18 cells that the test wrote are removed"),
    ]
    store = open_store(f"sqlite:///{file}")
    assert store.scan(Scan("")).cells == []
    store.close()


@pytest.mark.parametrize(("seconds", "verdict"), [(0.0, "ok"), (-0.3, "warn"), (6.0, "error")])
def test_a_store_whose_clock_is_off(seconds: float, verdict: str) -> None:
    found = all_of(Off(seconds))
    assert found["clocks"].verdict == verdict
    assert found["claim"].verdict == "ok", "slots are claimed by the store's clock all the same"


def test_a_store_that_found_itself_empty_is_proven_on_slots_after_its_birth() -> None:
    forgetful = MemoryStore(traits=Traits("test", durable=False), on_purpose=False)
    found = all_of(forgetful)
    assert found["promises"].verdict == "warn"
    assert found["claim"].verdict == found["fence"].verdict == "ok"


def test_the_store_is_asked_a_few_times() -> None:
    class Counted(MemoryStore):
        asked = 0

        def load(self, keys: Sequence[str]) -> Loaded:
            self.asked += 1
            return super().load(keys)

    store = Counted()
    assert len(measured(store, CLOCK)) == store.asked == CLOCK_READINGS


def test_what_a_store_knows_to_ask_of_itself_is_told() -> None:
    class Frank(MemoryStore):
        def checks(self) -> Iterator[Check]:
            yield warn("eviction", "maxmemory-policy is allkeys-lru", "set it to noeviction")

    assert all_of(Frank())["eviction"] == warn("eviction", "maxmemory-policy is allkeys-lru", "set it to noeviction")


def test_a_store_that_stops_answering_in_the_middle_is_an_error_and_no_surprise() -> None:
    class Dying(MemoryStore):
        left = CLOCK_READINGS + 30

        def load(self, keys: Sequence[str]) -> Loaded:
            self.left -= 1
            if self.left < 0:
                raise StoreUnavailable("no answer")
            return super().load(keys)

    found = all_of(Dying())
    assert found["proof"] == error(
        "proof", "the store failed during the test: no answer", "fix the store, then try again"
    )
    assert found["tidy"].verdict == "error"
    assert found["tidy"].says.startswith("what the test wrote is still there, below doctor-")


# --- stores that must not pass --------------------------------------------------------------------------------------


class Careless(MemoryStore):
    """Takes every write, whatever was read before."""

    def __init__(self, traits: Traits = SHARED) -> None:
        super().__init__(traits=traits)
        self._one_at_a_time = threading.Lock()

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        with self._one_at_a_time:
            there = {cell.key: cell.version for cell in self.load([write.key for write in writes]).cells}
            return super().swap([w._replace(seen=there[w.key]) if self.lets(w) else w for w in writes], seen)

    def lets(self, _write: Write) -> bool:
        return True


class Forgiving(Careless):
    """Exclusive at first sight, but lets an old version write over a newer one."""

    def lets(self, write: Write) -> bool:
        return write.seen > 0


class Sloppy(Careless):
    """Does not look at every tenth claim."""

    swaps = 0

    def lets(self, write: Write) -> bool:
        self.swaps += 1
        return self.swaps % 20 < 2  # a claim is two writes: of the turn, and of the run


class Stingy(MemoryStore):
    """Renews nothing."""

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        return super().swap([w._replace(ttl=None) if self._renews(w) else w for w in writes], seen)

    def _renews(self, write: Write) -> bool:
        return not write.grant and json.loads(write.value or "{}").get("state") == "running"


class Hoarding(MemoryStore):
    """Deletes nothing."""

    def purge(self, cells: Sequence[Cell]) -> int:
        return 0


@pytest.mark.parametrize(
    ("store", "name", "says"),
    [
        (Careless, "claim", "of 16 claims of one slot at the same time 16 were granted"),
        (Forgiving, "fence", "a process with an older grant could still close the slot: Finished("),
        (Stingy, "lease", "a renewed lease does not last longer: "),
        (Hoarding, "tidy", "18 of 18 cells below doctor-"),
    ],
)
def test_a_store_that_breaks_a_promise_fails_the_proof(store: Callable[[], MemoryStore], name: str, says: str) -> None:
    found = all_of(store())[name]
    assert found.verdict == "error"
    assert found.says.startswith(says)
    assert found.remedy == NOT_A_STORE


def test_a_store_that_each_machine_has_for_itself_fails_the_proof() -> None:
    """As a file on a network without locks, or a replica that takes writes."""
    checks = list(SelfTest(MemoryStore(traits=SHARED), lambda: MemoryStore(traits=SHARED), CLOCK).checks())
    assert checks[0] == error("claim", "of 16 claims of one slot at the same time 16 were granted", NOT_A_STORE)


def test_a_store_that_grants_twice_now_and_then_fails_the_proof() -> None:
    assert all_of(Sloppy())["claim"].verdict == "error"


def test_time_is_read_in_the_middle_of_a_question() -> None:
    class Slow(MemoryStore):
        def load(self, keys: Sequence[str]) -> Loaded:
            clock.turn(0.4)
            read = super().load(keys)
            clock.turn(0.4)
            return read

    class Turned:
        def __init__(self) -> None:
            self._at = CLOCK.wall()

        def turn(self, seconds: float) -> None:
            self._at += timedelta(seconds=seconds)

        def boot(self) -> float:
            return self._at.timestamp()

        def wall(self) -> datetime:
            return self._at

        def synchronised(self) -> bool:
            return True

    clock = Turned()
    (first, *_) = measured(Slow(clock.wall), clock)
    assert first.took == pytest.approx(800 * MS, abs=MS)
    assert abs(first.ahead) <= MS


def test_whoever_stops_listening_leaves_nothing_behind() -> None:
    store = MemoryStore(traits=SHARED)
    checks = SelfTest(store, lambda: store, CLOCK).checks()
    assert next(checks).name == "claim"
    assert len(store.scan(Scan("")).cells) == 16  # of five slots three each, and the board
    checks.close()  # type: ignore[attr-defined]
    assert store.scan(Scan("")).cells == []


# --- what live schedulers do not agree on ---


def test_one_name_for_two_functions_and_mixed_time_zone_databases_are_told() -> None:
    clock = HandClock()
    store = Wire(clock)
    job = declare("billing", every="1h")
    for name, code, tzdata in (("web-1:1:a", "shop:billing", "2026a"), ("web-2:1:a", "ledger:billing", "2025b")):
        node, specs = HandNode(store, name), {"billing": job.spec}
        me = Holder(name, digest_of(specs, {"billing": code}), "both", 1, {}, START, "", tzdata=tzdata)
        node.do(Roster(node.ledger.client, node.ledger.jobs).beat(me, specs, 0.0, code={"billing": code}))
    assert drive(together(), store, clock) == [
        warn(
            "names",
            "billing is the name of more than one function: ledger:billing (web-2:1:a) and shop:billing (web-1:1:a);"
            " each slot runs only one of them",
            "give one of them another name, or each application its own namespace; if the code moved, stop the old"
            " processes",
        ),
        warn(
            "time zones",
            "machines have different versions of the time zone database: 2025b (web-2:1:a) and 2026a (web-1:1:a)",
            "update tzdata on all of them",
        ),
    ]
    clock.turn(31)
    assert drive(together(), store, clock) == []
