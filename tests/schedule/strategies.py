"""Random cron rules, made together with what they mean, and real places where a clock on the wall jumped."""

from datetime import datetime, timedelta

from hypothesis import strategies as st

from tests.schedule.oracle import Field, Rule, utc

# Each is (zone, the instant of the change). Gaps and folds of an hour, half an hour, a quarter, two hours, a day; at
# midnight, at new year, for Ramadan, for politics; and one place without any.
JUMPS = [
    ("America/New_York", utc("2026-03-08T07:00Z")),
    ("America/New_York", utc("2026-11-01T06:00Z")),
    ("Europe/Berlin", utc("2026-03-29T01:00Z")),
    ("Europe/Berlin", utc("2026-10-25T01:00Z")),
    ("Europe/Dublin", utc("2026-10-25T01:00Z")),
    ("Australia/Lord_Howe", utc("2026-04-04T15:00Z")),
    ("Australia/Lord_Howe", utc("2026-10-03T15:30Z")),
    ("America/Santiago", utc("2026-04-05T03:00Z")),
    ("America/Santiago", utc("2026-09-06T04:00Z")),
    ("Africa/Cairo", utc("2026-04-23T22:00Z")),
    ("Africa/Cairo", utc("2026-10-29T21:00Z")),
    ("America/Havana", utc("2026-03-08T05:00Z")),
    ("America/Havana", utc("2026-11-01T05:00Z")),
    ("Antarctica/Troll", utc("2026-03-29T01:00Z")),
    ("Antarctica/Troll", utc("2026-10-25T01:00Z")),
    ("Africa/Casablanca", utc("2024-03-10T02:00Z")),
    ("Africa/Casablanca", utc("2024-04-14T02:00Z")),
    ("Pacific/Apia", utc("2011-12-30T10:00Z")),
    ("Pacific/Kwajalein", utc("1993-08-21T12:00Z")),
    ("America/Caracas", utc("2007-12-09T07:00Z")),
    ("Asia/Pyongyang", utc("2018-05-04T15:00Z")),
    ("Asia/Kathmandu", utc("1985-12-31T18:30Z")),
    ("Asia/Singapore", utc("1981-12-31T16:00Z")),
    ("Asia/Gaza", utc("2040-10-20T00:00Z")),
    ("Asia/Kolkata", utc("2026-03-29T01:00Z")),
]

gaps = st.sampled_from(["run", "skip"])
folds = st.sampled_from(["first", "second", "both"])


def instants_near(at: datetime, within: timedelta) -> st.SearchStrategy[datetime]:
    """Instants around `at`, to the microsecond: most are between two seconds."""
    half = int(within.total_seconds())
    seconds = st.integers(-half, half)
    micros = st.sampled_from([0, 0, 1, 250_000, 999_999])
    return st.builds(lambda s, us: at + timedelta(seconds=s, microseconds=us), seconds, micros)


def numbers(low: int, high: int) -> st.SearchStrategy[Field]:
    return st.lists(st.one_of(single(low, high), stretch(low, high)), min_size=1, max_size=3).map(joined)


def single(low: int, high: int) -> st.SearchStrategy[Field]:
    return st.integers(low, high).map(lambda n: Field(str(n), frozenset({n})))


@st.composite
def stretch(draw: st.DrawFn, low: int, high: int) -> Field:
    first, last = sorted((draw(st.integers(low, high)), draw(st.integers(low, high))))
    step = draw(st.integers(1, high - low + 1))
    return draw(
        st.sampled_from(
            [
                Field(f"{first}-{last}", frozenset(range(first, last + 1))),
                Field(f"{first}-{last}/{step}", frozenset(range(first, last + 1, step))),
            ]
        )
    )


@st.composite
def onwards(draw: st.DrawFn, low: int, high: int) -> Field:
    first, step = draw(st.integers(low, high)), draw(st.integers(1, high - low + 1))
    return Field(f"{first}/{step}", frozenset(range(first, high + 1, step)))


def joined(fields: list[Field]) -> Field:
    return Field(",".join(field.text for field in fields), frozenset().union(*(field.values for field in fields)))


@st.composite
def stars(draw: st.DrawFn, low: int, high: int) -> Field:
    step = draw(st.integers(1, high - low + 1))
    return draw(
        st.sampled_from(
            [Field("*", frozenset(range(low, high + 1))), Field(f"*/{step}", frozenset(range(low, high + 1, step)))]
        )
    )


def any_of(low: int, high: int) -> st.SearchStrategy[Field]:
    return st.one_of(numbers(low, high), stars(low, high), onwards(low, high))


days = st.one_of(
    stars(1, 31),
    numbers(1, 31),
    st.just(Field("L", frozenset({"L"}))),
    st.just(Field("LW", frozenset({"LW"}))),
    st.just(Field("15,L", frozenset({15, "L"}))),
)
weekdays = st.one_of(
    stars(0, 7),
    numbers(0, 7),
    st.just(Field("MON-FRI", frozenset(range(1, 6)))),
    st.builds(lambda d, n: Field(f"{d}#{n}", frozenset({(d, n)})), st.integers(0, 7), st.integers(1, 5)),
    st.builds(lambda d: Field(f"{d}L", frozenset({(d, "L")})), st.integers(0, 7)),
)


def rules(*, with_seconds: bool = False) -> st.SearchStrategy[Rule]:
    """Most of them fire on most days and at small hours, where clocks jump."""
    whole_month, whole_year, whole_week = (
        st.just(Field("*", frozenset(range(low, high + 1)))) for low, high in ((1, 31), (1, 12), (0, 7))
    )
    return st.builds(
        Rule,
        minute=any_of(0, 59),
        hour=st.one_of(any_of(0, 23), numbers(0, 4)),
        day=st.one_of(whole_month, days),
        month=st.one_of(whole_year, any_of(1, 12)),
        weekday=st.one_of(whole_week, weekdays),
        second=any_of(0, 59) if with_seconds else st.none(),
    )
