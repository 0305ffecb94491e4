"""A job as it is declared: what its policies come to, slot by slot."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cronce.errors import BadInput, BadPolicy
from cronce.model import Slot
from cronce.policy import Overlap
from cronce.runtime.declare import Declaration, Policies, declare, remark
from cronce.runtime.run import Skipped
from cronce.schedule import Cron, Every, Window
from tests.runtime.office import Office, job
from tests.runtime.shelf import HandClock, Wire

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
HOUR = timedelta(hours=1)


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def chi_square(parts: list[float], buckets: int = 50) -> float:
    """How unevenly numbers from 0 to 1 fall into so many buckets: about as much as there are, if by chance."""
    counts = [0] * buckets
    for part in parts:
        counts[int(part * buckets)] += 1
    even = len(parts) / buckets
    return sum((count - even) ** 2 / even for count in counts)


# --- jitter ---------------------------------------------------------------------------------------------------------


def test_the_delay_is_the_same_on_every_machine_and_in_every_version() -> None:
    spread = declare("billing", "0 * * * *", jitter="30s")
    delays = [spread.delay(Slot("billing", NOON + hour * HOUR)) // MILLISECOND for hour in range(4)]
    assert delays == [27_786, 24_548, 28_061, 28_579]


def test_without_jitter_nothing_is_delayed_nor_is_what_was_asked_for_by_hand() -> None:
    assert declare("billing", "0 * * * *").delay(Slot("billing", NOON)) == timedelta(0)
    assert declare("billing", "0 * * * *", jitter="30s").delay(Slot("billing", NOON, "again")) == timedelta(0)


@pytest.mark.parametrize("jitter", ["1s", "30s", "1024s", "1h"])
@pytest.mark.parametrize("of", ["jobs", "slots"])
def test_delays_spread_evenly_over_the_jitter(jitter: str, of: str) -> None:
    spread = declare("billing", "0 * * * *", jitter=jitter)
    assert spread.jitter is not None
    slots = [Slot(f"job-{n}", NOON) if of == "jobs" else Slot("billing", NOON + n * HOUR) for n in range(5_000)]
    delays = [spread.delay(slot) for slot in slots]
    assert all(timedelta(0) <= delay < spread.jitter and delay % MILLISECOND == timedelta(0) for delay in delays)
    assert chi_square([delay / spread.jitter for delay in delays]) < 85  # chance exceeds it once in a thousand


def test_jobs_that_collide_at_one_slot_part_at_the_next() -> None:
    spread = declare("billing", "0 * * * *", jitter="1s")

    def together(at: datetime) -> set[tuple[int, int]]:
        delays = [spread.delay(Slot(f"job-{n}", at)) for n in range(100)]
        return {(a, b) for a in range(100) for b in range(a) if delays[a] == delays[b]}

    assert together(NOON)
    assert together(NOON) & together(NOON + HOUR) == set()


def test_a_gap_that_clocks_shorten_shortens_the_delay() -> None:
    """On 25 October Berlin's 02:59 shows twice, an hour apart; on other days it is a day."""
    twice = declare("billing", "59 2 * * *", tz="Europe/Berlin", fold="both", jitter="20h")
    first = datetime(2026, 10, 25, 0, 59, tzinfo=UTC)
    assert twice.schedule is not None
    assert twice.schedule.next(first) == first + HOUR
    assert twice.delay(Slot("billing", first)) < HOUR
    assert twice.terms(Slot("billing", first), inferred=False).delay == twice.delay(Slot("billing", first))


def test_a_delayed_slot_has_as_long_to_start_as_another() -> None:
    slot = Slot("billing", NOON)
    spread = declare("billing", "0 * * * *", jitter="30s")
    assert spread.terms(slot, inferred=False).start_within == HOUR + spread.delay(slot)
    strict = declare("billing", "0 * * * *", jitter="30s", start_within="5m")
    assert strict.terms(slot, inferred=False).start_within == seconds(300)


def test_what_is_asked_for_by_hand_is_never_too_late() -> None:
    assert (
        declare("billing", "0 * * * *", start_within="5m")
        .terms(Slot("billing", NOON, "again"), inferred=False)
        .start_within
        is None
    )


def test_a_call_from_outside_waits_for_the_delay(store: Wire, clock: HandClock) -> None:
    spread = job(jitter="30s")
    delay = spread.delay(Slot("billing", NOON))
    started: list[timedelta] = []
    hosts = [Office(store), Office(store)]
    answers = [host.call(spread, lambda _run: started.append(clock.wall() - NOON)) for host in hosts]
    assert len(started) == 1
    assert delay <= started[0] <= delay + seconds(0.01)
    assert [isinstance(answer, Skipped) for answer in answers] == [False, True]


# --- retries and backoff --------------------------------------------------------------------------------------------


def test_backoff_doubles_up_to_an_hour_less_up_to_half_of_it() -> None:
    patient = declare("billing", "0 * * * *", retries=20, backoff="10s")
    slot = Slot("billing", NOON)
    for failures in range(1, 21):
        full = min(seconds(10 * 2 ** (failures - 1)), HOUR)
        assert full / 2 - MILLISECOND < patient.backoff_after(slot, failures) <= full
    assert patient.backoff_after(slot, 1_000) <= HOUR


def test_backoff_is_the_same_everywhere_and_another_for_each_slot_and_attempt() -> None:
    patient = declare("billing", "0 * * * *", retries=3)
    slot = Slot("billing", NOON)
    assert [patient.backoff_after(slot, n) // MILLISECOND for n in (1, 2, 3)] == [811, 1_024, 2_885]
    many = {patient.backoff_after(Slot(f"job-{n}", NOON), 1) for n in range(100)}
    assert len(many) == 95  # of 500 milliseconds: by chance a few meet


def test_backoff_spreads_evenly() -> None:
    patient = declare("billing", "0 * * * *", retries=3, backoff="1h")
    shares = [patient.backoff_after(Slot(f"job-{n}", NOON), 1) / HOUR for n in range(5_000)]
    assert chi_square([2 * share - 1 for share in shares]) < 85


def test_a_backoff_longer_than_an_hour_stays_as_it_is() -> None:
    patient = declare("billing", "0 0 * * *", retries=3, backoff="3h")
    assert all(1.5 * HOUR <= patient.backoff_after(Slot("billing", NOON), n) <= 3 * HOUR for n in (1, 2, 9))


@pytest.mark.parametrize(
    ("policies", "remarked"),
    [
        ({}, False),
        ({"retries": 3}, True),
        ({"retries": 3, "on_lost": "skip"}, False),
        ({"retries": 3, "on_lost": "rerun"}, False),
    ],
)
def test_retries_without_a_word_about_crashes_are_remarked_on(policies: Policies, remarked: bool) -> None:
    said = remark("billing", policies)
    assert bool(said) == remarked
    assert not said or ("billing: retries=3 covers runs that fail" in said and "on_lost='rerun'" in said)


# --- start and end --------------------------------------------------------------------------------------------------


def test_start_and_end_bound_any_kind_of_schedule() -> None:
    text = declare("a", "0 9 * * *", tz="Europe/Berlin", start=NOON, end="2026-04-01T00:00:00Z")
    assert text.schedule == Window(Cron("0 9 * * *", "Europe/Berlin"), NOON, "2026-04-01T00:00:00Z")
    assert text.tz == "Europe/Berlin"
    assert declare("a", every="1h", end=NOON).schedule == Window(Every("1h"), end=NOON)
    assert declare("a", Cron("0 9 * * *", "Asia/Tokyo"), start=NOON).tz == "Asia/Tokyo"


def test_another_end_is_another_version_of_the_job() -> None:
    digests = {declare("a", every="1h", end=end).spec[0] for end in (None, NOON, NOON + HOUR)}
    assert len(digests) == 3


def test_the_last_slot_before_the_end_has_a_deadline() -> None:
    last = declare("a", every="1h", end=NOON)
    assert last.terms(Slot("a", NOON), inferred=False).start_within == HOUR


# --- what cannot be meant -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        ({"every": "1h", "overlap": "allow", "turns": 2}, "overlap='allow' sets no limit, but turns=2 sets one"),
        ({"every": "1h", "turns": "2"}, "turns must be 1 or more, not '2'"),
        ({"every": "1h", "turns": True}, "turns must be 1 or more, not True"),
        ({"every": "1h", "backoff": "5s"}, "backoff is how long to wait before a retry, but this job has no retries"),
        ({"every": "1h", "retries": 1, "backoff": "0s"}, "backoff must be 1ms or more"),
        ({"every": "1h", "jitter": "0s"}, "jitter must be 1ms or more"),
        ({"every": "1h", "on_lost": ""}, "on_lost must be one of 'skip', 'rerun', not ''"),
        ({"jitter": "5s"}, "jitter delays the slots of a schedule, but this job has no schedule"),
        ({"start": NOON}, "start and end limit a schedule, but this job has no schedule"),
        ({"every": "1h", "start": NOON, "end": NOON - HOUR}, "it would end before it starts"),
        ({"every": "1h", "jitter": "5m", "start_within": "5m"}, "may start a slot later than start_within=5m allows"),
        ({"every": "1h", "jitter": "61m"}, "may delay a slot of 'every 1h' past the next one, which is due 1h later"),
        ({"schedule": "*/7 * * * *", "jitter": "5m"}, "past the next one, which is due 4m later"),
        ({"schedule": "0 9,10 1 * *", "jitter": "2h"}, "past the next one, which is due 1h later"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(policies: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as error:
        declare("billing", **policies)
    assert words in str(error.value)


@pytest.mark.parametrize(("overlap", "turns"), [("allow", 1), ("skip", 3), ("wait", 3), ("replace", 1)])
def test_what_can_be_meant_is_not(overlap: Overlap, turns: int) -> None:
    assert isinstance(declare("a", every="1h", overlap=overlap, turns=turns, jitter="1h"), Declaration)


def test_the_only_instant_of_a_schedule_may_be_delayed_by_anything() -> None:
    assert declare("a", at=NOON, jitter="1d").delay(Slot("a", NOON)) < timedelta(days=1)


def test_a_policy_that_cannot_be_meant_is_a_bad_policy() -> None:
    with pytest.raises(BadPolicy):
        declare("a", every="1h", jitter="2h")
