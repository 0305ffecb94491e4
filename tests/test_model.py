"""The nouns: a fence's text sorts as the fence does, a slot's key never changes, a name is plain."""

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronce.errors import BadInput, BadName
from cronce.model import (
    EPOCH,
    Epoch,
    Fence,
    Origin,
    Slot,
    check_name,
    from_us,
    holder_cell,
    job_cell,
    leader_cell,
    lock_cell,
    read_fence,
    slot,
    slot_of_cell,
    spell,
    to_us,
    turn_cell,
    unspell,
)

SPRING = datetime(2026, 3, 29, 1, 0, tzinfo=UTC)

births = st.integers(0, 16**14 - 1)  # µs since 1970: up to the year 4253
numbers = st.integers(0, 16**12 - 1)
fences = st.builds(Fence, births, numbers)
seconds = st.integers(0, to_us(datetime(9999, 12, 31, tzinfo=UTC)) // 10**6).map(lambda s: from_us(s * 10**6))
names = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}", fullmatch=True)


# --- fences ---


@given(fences, fences)
def test_a_fence_as_text_sorts_as_the_fence_does(one: Fence, other: Fence) -> None:
    assert (str(one) < str(other)) is (one < other)


@given(fences)
def test_a_fence_is_read_as_it_was_spelled(fence: Fence) -> None:
    assert read_fence(str(fence)) == fence


def test_the_spelling_of_a_fence_is_frozen() -> None:
    assert str(Fence(1_774_746_000_000_000, 42)) == "064e1f40e58400-00000000002a"


@pytest.mark.parametrize(
    "text",
    ["", "-", "7", "1-2-3", "00000000000001-", "0x000000000001-000000000001", "00000000000001-00000000000g",
     "1-1", "0000000000000A-000000000001", " 0000000000001-000000000001", "0000000000_001-000000000001",
     "00000000000٣-000000000001", "-0000000000001-000000000001"],
)  # fmt: skip
def test_only_the_one_spelling_of_a_fence_is_read(text: str) -> None:
    with pytest.raises(BadInput, match="is not a fence"):
        read_fence(text)


# --- instants and keys ---


@given(seconds)
def test_an_instant_is_read_as_it_was_spelled(instant: datetime) -> None:
    assert unspell(spell(instant)) == instant
    assert from_us(to_us(instant)) == instant


@given(seconds, seconds)
def test_instants_as_text_sort_in_time(one: datetime, other: datetime) -> None:
    assert (spell(one) < spell(other)) is (one < other)


@pytest.mark.parametrize(
    "text",
    ["", "now", "2026-03-29", "2026-03-29T01:00:00", "2026-03-29 01:00:00Z", "2026-03-29T01:00Z", "20260329T010000Z",
     "2026-03-29T01:00:00+00:00", "2026-03-29T01:00:00.5Z", "2026-03-29T01:00:00z", "2026-02-30T01:00:00Z",
     "2026-03-29T24:00:00Z", "2026-03-29T01:00:00Z\n", "٢٠٢٦-03-29T01:00:00Z", "\ud800", "\0",
     "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"],
)  # fmt: skip
def test_only_the_one_spelling_of_an_instant_is_read(text: str) -> None:
    with pytest.raises(BadInput, match="is not a slot's instant; write it like 2026-03-29T01:00:00Z"):
        unspell(text)


def test_keys_are_frozen_for_ever() -> None:
    scheduled, by_hand = Slot("billing", SPRING), Slot("billing", SPRING, "r1")
    assert scheduled.key == "billing@2026-03-29T01:00:00Z"
    assert by_hand.key == "billing@2026-03-29T01:00:00Z#r1"
    assert scheduled.cell == "run/billing/2026-03-29T01:00:00Z"
    assert by_hand.cell == "run/billing/2026-03-29T01:00:00Z#r1"
    assert turn_cell("billing", 0) == "turn/billing/0"
    assert job_cell("billing") == "job/billing"
    assert lock_cell("reindex") == "lock/reindex"
    assert leader_cell("indexers") == "leader/indexers"
    assert holder_cell("web-1:7:1") == "holder/web-1:7:1"


@given(names, seconds, st.just("") | names)
def test_a_slot_is_found_again_behind_its_cell(job: str, at: datetime, request: str) -> None:
    found = slot(job, at, request)
    assert slot_of_cell(found.cell) == found


@pytest.mark.parametrize(
    "key",
    ["", "run", "run/billing", "run/billing/", "run/billing/noon", "run//2026-03-29T01:00:00Z",
     "turn/billing/2026-03-29T01:00:00Z", "run/a b/2026-03-29T01:00:00Z", "run/billing/2026-03-29T01:00:00Z#",
     "run/billing/2026-03-29T01:00:00Z#a/b", "run/billing/2026-03-29T01:00:00Z/x"],
)  # fmt: skip
def test_a_key_that_is_no_runs_is_refused(key: str) -> None:
    with pytest.raises(BadInput):
        slot_of_cell(key)


# --- names ---

LONGEST = "x" * 128


@pytest.mark.parametrize("name", ["a", "7", "_", "billing", "order_sync", "a.b:c-d_e", "2026-report", LONGEST])
def test_a_plain_name_is_good(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", " ", "a b", "a/b", "../a", ".a", "-a", ":a", "a\0", "a\n", "\na", "a\t", "a@b", "a#b", "a*", "a'b", 'a"b',
     "a\\b", "a%b", "{a}", "straße", "а", "ａ", "٣", "a\u200b", "a\u0301", "\ud800", LONGEST + "x"],
)  # fmt: skip
def test_any_other_name_is_refused_and_the_message_says_what_is_allowed(name: str) -> None:
    with pytest.raises(BadName, match="cannot be a name: use 1 to 128 of A–Z a–z 0–9"):
        check_name(name)


@pytest.mark.parametrize("name", [None, 7, b"billing", ["billing"]])
def test_what_is_no_text_is_no_name(name: object) -> None:
    with pytest.raises(BadName):
        check_name(name)  # type: ignore[arg-type]


def test_ten_megabytes_are_refused_at_once_and_in_a_short_message() -> None:
    began = time.monotonic()
    with pytest.raises(BadName) as refused:
        check_name("a" * 10_000_000)
    with pytest.raises(BadInput) as unread:
        unspell("2" * 10_000_000)
    with pytest.raises(BadInput) as unfenced:
        read_fence("f" * 10_000_000)
    assert time.monotonic() - began < 1
    assert max(len(str(error.value)) for error in (refused, unread, unfenced)) < 300


# --- slots from outside ---


def test_a_slot_is_the_same_instant_in_utc() -> None:
    berlin = timezone(timedelta(hours=2))
    assert slot("billing", datetime(2026, 3, 29, 3, 0, tzinfo=berlin)) == Slot("billing", SPRING)
    assert slot("billing", SPRING, "r1") == Slot("billing", SPRING, "r1")


@pytest.mark.parametrize(
    ("at", "why"),
    [
        (datetime(2026, 3, 29, 1, 0), "has no time zone; give an aware datetime"),  # noqa: DTZ001
        (SPRING.replace(microsecond=1), "is not on a whole second"),
        (datetime(2026, 3, 29, 1, 0, tzinfo=timezone(timedelta(microseconds=1))), "is not on a whole second"),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "is too far from today"),
        (datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=2))), "is too far from today"),
    ],
)
def test_an_instant_that_cannot_be_a_slot_is_refused(at: datetime, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        slot("billing", at)


@pytest.mark.parametrize(("job", "request_name"), [("a/b", ""), ("", ""), ("billing", "r/1"), ("billing", "#")])
def test_a_slot_takes_plain_names_only(job: str, request_name: str) -> None:
    with pytest.raises(BadName):
        slot(job, SPRING, request_name)


# --- epochs ---


def test_a_store_forgot_unless_its_life_was_made_on_purpose() -> None:
    assert [Epoch(origin=origin).forgot for origin in Origin] == [False, True, True]
    assert Epoch(birth=to_us(SPRING)).born == SPRING
    assert Epoch(birth=0).born == EPOCH
