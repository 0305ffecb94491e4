"""Zones: which there are, and the one fact about all of them that the arithmetic stands on."""

from datetime import timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo, _zoneinfo, available_timezones  # type: ignore[attr-defined]

import pytest

from cronce.errors import BadSchedule
from cronce.schedule import Cron
from cronce.schedule.zone import find_zone
from tests.schedule.oracle import SECOND
from tests.schedule.strategies import JUMPS


def changes(name: str) -> list[tuple[int, timedelta, timedelta]]:
    """Every change of offset that the database lists for a zone: when, from what, to what."""
    zone: Any = _zoneinfo.ZoneInfo(name)  # the version in Python keeps the list where it can be read
    offsets = [zone._tti_before.utcoff, *(info.utcoff for info in zone._ttinfos)] if zone._ttinfos else []
    moments = zip(zone._trans_utc, pairwise(offsets), strict=True)
    return [(when, before, after) for when, (before, after) in moments if before != after]


def test_no_zone_ever_changed_twice_within_three_days_nor_by_more_than_one() -> None:
    assert sum(len(changes(name)) for name in available_timezones()) > 10_000
    for name in available_timezones():
        for (earlier, *_), (later, *_) in pairwise(changes(name)):
            assert later - earlier > timedelta(days=3).total_seconds(), name
        assert all(abs(after - before) <= timedelta(days=1) for _, before, after in changes(name)), name


def test_the_jumps_of_these_tests_are_real() -> None:
    for name, at in JUMPS:
        zone = ZoneInfo(name)
        jumps = at.astimezone(zone).utcoffset() != (at - SECOND).astimezone(zone).utcoffset()
        assert jumps is (name != "Asia/Kolkata"), (name, at)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("Europe/Berln", "did you mean 'Europe/Berlin'?"),
        ("europe/berlin", "did you mean 'Europe/Berlin'?"),
        ("Berlin", "did you mean 'Europe/Berlin'?"),
        ("new york", "did you mean 'America/New_York'?"),
        ("America/NewYork", "did you mean 'America/New_York'?"),
        ("CEST", "write an IANA name such as 'Europe/Berlin'"),
        ("UTC+2", "write an IANA name such as 'Europe/Berlin'"),
        ("+02:00", "write an IANA name such as 'Europe/Berlin'"),
        ("", "write an IANA name such as 'Europe/Berlin'"),
        ("America", "write an IANA name such as 'Europe/Berlin'"),
        ("../../etc/passwd", "write an IANA name such as 'Europe/Berlin'"),
        ("/etc/localtime", "write an IANA name such as 'Europe/Berlin'"),
        ("localtime", "write an IANA name such as 'Europe/Berlin'"),
        ("right/Europe/Berlin", "did you mean 'Europe/Berlin'?"),
        ("Europe/Berlin\x00", "did you mean 'Europe/Berlin'?"),
    ],
)
def test_an_unknown_zone_is_refused_with_the_one_that_was_meant(name: str, remedy: str) -> None:
    with pytest.raises(BadSchedule) as error:
        Cron("0 9 * * *", name)
    assert str(error.value) == f"{name!r} is not a time zone: {remedy}"


def test_a_hostile_zone_is_refused_briefly() -> None:
    with pytest.raises(BadSchedule) as error:
        find_zone("Europe/" + "x" * 10**7)
    assert len(str(error.value)) < 200
    with pytest.raises(BadSchedule, match="ZoneInfo Europe/Berlin is not a time zone"):
        Cron("0 9 * * *", ZoneInfo("Europe/Berlin"))  # type: ignore[arg-type]


def test_in_every_zone_nine_oclock_is_nine_oclock() -> None:
    for name in available_timezones() - {"localtime"}:
        slot = Cron("0 9 * * *", name).next(JUMPS[0][1])
        assert slot is not None
        assert slot.astimezone(ZoneInfo(name)).strftime("%H:%M:%S") == "09:00:00", name
