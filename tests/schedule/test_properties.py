"""Random rules in real zones at real jumps, against a clock that is simply watched (see `oracle`)."""

from datetime import datetime, timedelta

from hypothesis import assume, given
from hypothesis import strategies as st

from cronce.errors import BadSchedule
from cronce.policy import Fold, Gap
from cronce.schedule import Cron, Every
from tests.protocol.examples import examples
from tests.schedule.oracle import SECOND, Rule, expected
from tests.schedule.strategies import JUMPS, folds, gaps, instants_near, rules

HALF = timedelta(hours=26)
MICROSECOND = timedelta(microseconds=1)


def cron_of(rule: Rule, zone: str, gap: Gap, fold: Fold) -> Cron:
    try:
        return Cron(rule.text, zone, gap, fold)
    except BadSchedule as error:
        assume("never fires" not in str(error))
        raise


def forwards(cron: Cron | Every, start: datetime, end: datetime) -> list[datetime]:
    found: list[datetime] = []
    at = cron.next(start)
    while at is not None and at <= end:
        assert not found or at > found[-1], "strictly increasing"
        found.append(at)
        at = cron.next(at)
    return found


def backwards(cron: Cron | Every, start: datetime, end: datetime) -> list[datetime]:
    found: list[datetime] = []
    at = cron.previous(end + MICROSECOND)
    while at is not None and at > start:
        assert not found or at < found[-1], "strictly decreasing"
        found.append(at)
        at = cron.previous(at)
    return found[::-1]


@examples(300)
@given(rules(), st.sampled_from(JUMPS), gaps, folds)
def test_no_slot_is_lost_and_none_comes_twice(rule: Rule, jump: tuple[str, datetime], gap: Gap, fold: Fold) -> None:
    zone, at = jump
    cron, start, end = cron_of(rule, zone, gap, fold), at - HALF, at + HALF
    truth = expected(rule, zone, gap, fold, start, end)
    assert forwards(cron, start, end) == truth
    assert backwards(cron, start, end) == truth
    assert cron.count(start, end) == len(truth)


@examples(100)
@given(st.data(), rules(), st.sampled_from(JUMPS), gaps, folds)
def test_from_any_instant_next_previous_and_count_agree_with_the_clock(
    data: st.DataObject, rule: Rule, jump: tuple[str, datetime], gap: Gap, fold: Fold
) -> None:
    zone, at = jump
    cron, start, end = cron_of(rule, zone, gap, fold), at - HALF, at + HALF
    truth = expected(rule, zone, gap, fold, start, end)
    now = data.draw(instants_near(at, timedelta(hours=3)))
    later, earlier = [slot for slot in truth if slot > now], [slot for slot in truth if slot < now]
    upcoming, past = cron.next(now), cron.previous(now)
    assert upcoming == later[0] if later else upcoming is None or upcoming > end
    assert past == earlier[-1] if earlier else past is None or past <= start
    assert cron.count(now, end) == len(later)


@examples(40)
@given(
    rules(with_seconds=True),
    st.sampled_from(
        [jump for jump in JUMPS if jump[0] not in ("Pacific/Apia", "Pacific/Kwajalein", "Antarctica/Troll")]
    ),
    gaps,
    folds,
)
def test_with_seconds_the_same_holds_second_by_second(
    rule: Rule, jump: tuple[str, datetime], gap: Gap, fold: Fold
) -> None:
    zone, at = jump
    quarter = timedelta(minutes=15)
    cron, start, end = cron_of(rule, zone, gap, fold), at - quarter, at + quarter
    truth = expected(rule, zone, gap, fold, start, end, step=SECOND, margin=timedelta(minutes=61))
    assert forwards(cron, start, end) == truth
    assert backwards(cron, start, end) == truth
    assert cron.count(start, end) == len(truth)


@examples(100)
@given(st.data(), rules(with_seconds=True), st.sampled_from(JUMPS), gaps, folds)
def test_next_and_previous_undo_each_other(
    data: st.DataObject, rule: Rule, jump: tuple[str, datetime], gap: Gap, fold: Fold
) -> None:
    zone, at = jump
    cron = cron_of(rule, zone, gap, fold)
    now = data.draw(instants_near(at, timedelta(days=400)))
    upcoming, past = cron.next(now), cron.previous(now)
    assume(upcoming is not None and past is not None)
    assert upcoming is not None
    assert past is not None
    assert past < now < upcoming
    assert cron.previous(upcoming + MICROSECOND) == upcoming
    assert cron.next(past - MICROSECOND) == past
    assert cron.previous(cron.next(upcoming) or upcoming) == upcoming
    assert cron.next(cron.previous(past) or past) == past
    assert cron.count(past, upcoming) == 1 + (cron.next(past) != upcoming)  # `now` may be a slot itself


@examples(40)
@given(st.data(), rules(), st.sampled_from(JUMPS), gaps, folds)
def test_an_answer_does_not_depend_on_what_was_asked_before(
    data: st.DataObject, rule: Rule, jump: tuple[str, datetime], gap: Gap, fold: Fold
) -> None:
    zone, at = jump
    cron = cron_of(rule, zone, gap, fold)
    asked = data.draw(st.lists(instants_near(at, timedelta(hours=4)), min_size=2, max_size=6))
    first = {now: cron.next(now) for now in asked}
    assert {now: cron.next(now) for now in reversed(asked)} == first


@examples(100)
@given(st.integers(1, 10**7), instants_near(JUMPS[0][1], timedelta(days=20_000)))
def test_every_is_the_multiples_of_its_span_since_1970(seconds: int, now: datetime) -> None:
    every = Every(timedelta(seconds=seconds))
    upcoming, past = every.next(now), every.previous(now)
    assert upcoming is not None
    assert past is not None
    assert past < now < upcoming
    assert upcoming.timestamp() % seconds == past.timestamp() % seconds == 0
    assert upcoming - past in (every.span, 2 * every.span)
    assert every.count(past, upcoming) == (upcoming - past) // every.span
