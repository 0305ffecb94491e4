"""Zones: which there are, and the one fact about all of them that the arithmetic stands on."""

import subprocess
import sys
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import TZPATH, ZoneInfo, _zoneinfo, available_timezones  # type: ignore[attr-defined]

import pytest

from cronce.errors import BadSchedule
from cronce.schedule import Cron
from cronce.schedule.zone import find_zone, rules_of
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


# --- what a machine's database says ---


def test_the_rules_of_a_zone_tell_databases_apart_and_say_nothing_of_utc() -> None:
    assert rules_of("UTC") == ""
    assert rules_of("Europe/Berlin") == rules_of("Europe/Paris")  # the same changes, from 2026 on
    assert len({rules_of(name) for name in ("Europe/Berlin", "Europe/London", "Asia/Tokyo", "America/New_York")}) == 4


def test_another_database_has_other_rules_and_says_its_version(tmp_path: Path) -> None:
    (tmp_path / "Europe").mkdir()
    system = next(Path(place) for place in TZPATH if Path(place, "Europe/Berlin").exists())
    (tmp_path / "Europe/Berlin").write_bytes((system / "Europe/London").read_bytes())
    imports = "from cronce.runtime.process_notes import tzdata_version; from cronce.schedule.zone import rules_of"
    code = f"{imports}; print(rules_of('Europe/Berlin'), tzdata_version())"

    def told() -> str:
        env = {"PYTHONTZPATH": str(tmp_path)}
        return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout

    assert told() == f"{rules_of('Europe/London')} \n"
    (tmp_path / "tzdata.zi").write_text("# version 2031c\nR d 1916\n")
    assert told() == f"{rules_of('Europe/London')} 2031c\n"
