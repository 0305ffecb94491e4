"""Which version of a job fires while several deploys are alive, and what is passed over stays on record."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronce.model import Epoch, Instant, Origin, Traits, to_us
from cronce.protocol.record import PAST_KEPT, Job, SpanRecord, Spec
from cronce.protocol.specs import after_forgetting, fires_alike, raise_floor, respec
from cronce.runtime.declare import declare

NOON = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)
V1, V2, V3 = ("v1", "0 * * * *"), ("v2", "5 * * * *"), ("v3", "9 * * * *")
EXACT = Traits("exact")


def at(minute: int) -> Instant:
    return NOON + timedelta(minutes=minute)


def registered(minute: int = 0) -> Job:
    return respec(None, V1, {"v1"}, at(minute))


# --- which version fires --------------------------------------------------------------------------------------------


def test_a_new_job_begins_now() -> None:
    assert registered() == Job(at(0), specs=(Spec("v1", at(0), "0 * * * *"),), firing="v1")


def test_a_job_that_an_outside_call_registered_gets_its_first_version_from_now_on() -> None:
    job = respec(Job(at(0)), V1, {"v1"}, at(5))
    assert (job.firing, job.floor, job.spans) == ("v1", at(5), (SpanRecord(at(0), at(5), None, "registered"),))


def test_the_newest_version_fires_from_its_first_sight_on() -> None:
    job = respec(registered(), V2, {"v1", "v2"}, at(5))
    assert job.firing == "v2"
    assert job.specs == (Spec("v1", at(0), "0 * * * *"), Spec("v2", at(5), "5 * * * *"))
    assert job.floor == at(5)
    assert job.spans == (SpanRecord(at(0), at(5), None, "edited: schedule 0 * * * * → 5 * * * *"),)


def test_a_restarted_old_pod_does_not_flip_it_back() -> None:
    job = respec(registered(), V2, {"v1", "v2"}, at(5))
    assert respec(job, V1, {"v1", "v2"}, at(6)) == job


def test_a_roll_back_takes_over_when_the_newer_holders_are_gone() -> None:
    deployed = respec(registered(), V2, {"v1", "v2"}, at(5))
    rolled_back = respec(deployed, V1, {"v1"}, at(9))
    assert (rolled_back.firing, rolled_back.floor) == ("v1", at(9))
    assert rolled_back.specs == deployed.specs


def test_a_holder_counts_as_live_while_it_looks_even_before_its_first_beat() -> None:
    assert respec(registered(), V2, set(), at(5)).firing == "v2"


def test_of_three_versions_the_newest_that_lives_fires_whoever_looks() -> None:
    job = registered()
    for minute, spec in enumerate((V2, V3), start=1):
        job = respec(job, spec, {"v1", "v2", "v3"}, at(minute))
    assert respec(job, V1, {"v1", "v2"}, at(9)).firing == "v2"
    assert respec(job, V2, {"v1", "v2"}, at(9)).firing == "v2"
    assert respec(job, V1, {"v1", "v3"}, at(9)).firing == "v3"


def test_who_only_looks_again_changes_nothing() -> None:
    job = registered()
    assert respec(job, V1, {"v1"}, at(30)) == job


# --- an edit that leaves the schedule as it is -----------------------------------------------------------------------


def version(**policies: Any) -> tuple[str, str]:
    return declare("billing", "0 9 * * *", on_lost="skip", **policies).spec


def fires(*versions: tuple[str, str]) -> Job:
    """The job after these were first seen at minutes 0, 1, 2…; all of them live."""
    job, live = None, {digest for digest, _ in versions}
    for minute, spec in enumerate(versions):
        job = respec(job, spec, live, at(minute))
    assert job is not None
    return job


@pytest.mark.parametrize(
    "edit",
    [
        {"timeout": "3m"},
        {"retries": 2},
        {"lease": "20s"},
        {"overlap": "wait"},
        {"missed": "all"},
        {"start_within": "1h"},
    ],
)
def test_an_edit_that_does_not_change_when_a_job_fires_raises_no_floor(edit: dict[str, Any]) -> None:
    """It did, and by that dropped the slot that fell due while the process was down, which an unedited job ran."""
    job = fires(version(timeout="2m"), version(**{"timeout": "2m", **edit}))
    assert (job.firing, job.floor, job.spans) == (version(**{"timeout": "2m", **edit})[0], at(0), ())


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ({"tz": "Europe/Berlin"}, "edited: tz UTC → Europe/Berlin"),
        ({"gap": "skip"}, "edited: gap run → skip"),
        ({"end": "2027-01-01T00:00:00Z"}, "edited: end none → 2027-01-01T00:00:00Z"),
    ],
)
def test_an_edit_of_the_schedule_or_its_zone_raises_it_and_says_what_was_edited(
    edit: dict[str, Any], says: str
) -> None:
    job = fires(version(), version(**edit))
    assert (job.floor, job.spans) == (at(1), (SpanRecord(at(0), at(1), None, says),))


def test_many_edits_are_one_record_that_says_so() -> None:
    job = registered()
    for minute in range(1, 3 * PAST_KEPT):
        job = respec(job, (V1, V2)[minute % 2], {(V1, V2)[minute % 2][0]}, at(minute))
    assert {span.reason for span in job.spans[1:]} == {
        "edited: schedule 0 * * * * → 5 * * * *",
        "edited: schedule 5 * * * * → 0 * * * *",
    }
    assert (job.spans[0].start, job.spans[0].reason) == (at(0), "edited")


@pytest.mark.parametrize("edit", [{"timeout": "3m"}, {"on_lost": "rerun"}, {"retries": 2}, {"start_within": "1h"}])
def test_versions_that_differ_in_how_a_run_goes_claim_side_by_side(edit: dict[str, Any]) -> None:
    """When the newer process was killed, the older one fired nothing until the newer's beat had lapsed."""
    old, new = version(), declare("billing", "0 9 * * *", **{"on_lost": "skip", **edit}).spec
    job = fires(old, new)
    assert (fires_alike(job, old[0]), fires_alike(job, new[0])) == (True, True)


@pytest.mark.parametrize("edit", [{"tz": "Asia/Tokyo"}, {"overlap": "allow"}, {"turns": 2}, {"missed": "all"}])
def test_versions_that_differ_in_which_slots_run_do_not(edit: dict[str, Any]) -> None:
    job = fires(version(), version(**edit))
    assert not fires_alike(job, version()[0])
    assert not fires_alike(job, "never seen")


looks = st.lists(
    st.tuples(st.sampled_from([V1, V2, V3]), st.sets(st.sampled_from(["v1", "v2", "v3"])), st.integers(-5, 60)),
    max_size=30,
)


@given(looks)
def test_every_change_of_the_firing_version_raises_the_floor_and_no_floor_ever_falls(
    looks: list[tuple[tuple[str, str], Collection[str], int]],
) -> None:
    job = registered()
    for spec, live, minute in looks:
        before, job = job, respec(job, spec, live, at(minute))
        assert job.floor == (before.floor if job.firing == before.firing else max(before.floor, at(minute)))
        assert job.firing == spec[0] or job.firing in live
        assert job.specs[: len(before.specs)] == before.specs


# --- what is passed over --------------------------------------------------------------------------------------------


def test_a_floor_that_would_fall_stays() -> None:
    job = Job(at(10))
    assert raise_floor(job, at(10), 0, "missed") is job
    assert raise_floor(job, at(3), 0, "missed") is job


def test_what_a_floor_passes_over_leaves_one_record() -> None:
    job = raise_floor(Job(at(0)), at(10), 3, "missed")
    assert job == Job(at(10), spans=(SpanRecord(at(0), at(10), 3, "missed"),))


def test_spans_side_by_side_for_one_reason_are_one() -> None:
    job = raise_floor(raise_floor(Job(at(0)), at(10), 3, "paused"), at(20), 4, "paused")
    assert job.spans == (SpanRecord(at(0), at(20), 7, "paused"),)


def test_a_count_that_is_not_known_stays_unknown() -> None:
    job = raise_floor(raise_floor(Job(at(0)), at(10), 3, "paused"), at(20), None, "paused")
    assert job.spans == (SpanRecord(at(0), at(20), None, "paused"),)


def test_spans_for_different_reasons_stay_apart() -> None:
    job = raise_floor(raise_floor(Job(at(0)), at(10), 3, "paused"), at(20), 4, "missed")
    assert job.spans == (SpanRecord(at(0), at(10), 3, "paused"), SpanRecord(at(10), at(20), 4, "missed"))


def test_of_too_many_spans_the_oldest_are_joined_and_none_is_dropped() -> None:
    job = Job(at(0))
    for number in range(PAST_KEPT + 5):
        job = raise_floor(job, at(number + 1), 1, ("paused", "missed")[number % 2])
    assert len(job.spans) == PAST_KEPT
    assert job.spans[0] == SpanRecord(at(0), at(6), 6, "several reasons")
    assert job.spans[-1].end == job.floor == at(PAST_KEPT + 5)


raises = st.lists(
    st.tuples(st.integers(0, 90), st.none() | st.integers(0, 9), st.sampled_from(["paused", "missed"])), max_size=60
)


@given(raises)
def test_whatever_raised_the_floor_every_minute_it_passed_is_on_record(
    raises: list[tuple[int, int | None, str]],
) -> None:
    job = Job(at(0))
    for minute, slots, reason in raises:
        job = raise_floor(job, at(minute), slots, reason)
    assert len(job.spans) <= PAST_KEPT
    ends = [at(0), *(span.end for span in job.spans)]
    assert [span.start for span in job.spans] == ends[:-1]  # end to end, no hole
    assert ends[-1] == job.floor == max([at(0), *(at(minute) for minute, _, _ in raises)])


# --- after a store forgot -------------------------------------------------------------------------------------------


def test_a_store_that_never_forgot_raises_no_floor() -> None:
    job = registered()
    assert after_forgetting(job, Epoch(to_us(at(9))), EXACT) is job


@pytest.mark.parametrize("since", [None, at(4)])
def test_once_the_store_forgot_all_up_to_its_birth_is_closed_and_on_record(since: Instant | None) -> None:
    """Also what was due before the last write that is known, and that nobody had claimed by then."""
    epoch = Epoch(to_us(at(9)), origin=Origin.RESTORED, since=since)
    job = after_forgetting(registered(), epoch, Traits("vague", skew=timedelta(seconds=2)))
    assert job.floor == at(9) + timedelta(seconds=2)
    assert job.spans == (SpanRecord(at(0), job.floor, None, "unknown: the store forgot"),)
    assert after_forgetting(job, epoch, EXACT) is job  # once is enough


def test_a_store_that_was_found_empty_closes_what_came_before_it() -> None:
    job = after_forgetting(registered(), Epoch(to_us(at(9)), origin=Origin.FOUND), EXACT)
    assert job.floor == at(9)
