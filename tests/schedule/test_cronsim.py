"""The default policy against cronsim, which follows Debian's cron: five fields, fire by fire, over real years."""

import re
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.schedule.oracle import Rule
from tests.schedule.strategies import rules

from cronce.errors import BadSchedule
from cronce.schedule import Cron

ZONES = [
    "UTC", "America/New_York", "Europe/Berlin", "America/Santiago", "Africa/Cairo", "America/Havana", "Asia/Kolkata",
    "Pacific/Apia", "Antarctica/Troll", "Africa/Casablanca",
]  # fmt: skip
# Lord Howe is left out: after its gap of half an hour cronsim 2.8 goes on by whole hours, and loses 03:00 and 03:18 of
# `*/18 3 * * *` (test_dst has what should happen). And it begins at noon: asked from within a fold, it answers with the
# past. And it reads `5-5/2`, a range of one, as `5/2`.
days = st.dates(date(2009, 1, 1), date(2036, 1, 1))


@settings(max_examples=150, deadline=None)
@given(rules(), st.sampled_from(ZONES), days)
def test_the_default_policy_fires_as_cronsim_does(rule: Rule, zone: str, day: date) -> None:
    assume(not re.search(r"\b(\d+)-\1/", rule.text))
    try:
        cron = Cron(rule.text, zone)
    except BadSchedule as error:
        assert "never fires" in str(error)  # noqa: PT017
        return
    at = datetime(day.year, day.month, day.day, 12, tzinfo=ZoneInfo(zone)).astimezone(UTC)
    peer = CronSim(rule.text, at.astimezone(ZoneInfo(zone)))
    for _ in range(40):
        upcoming, theirs = cron.next(at), next(peer, None)
        if theirs is None:  # it gives up after fifty years
            assert upcoming is not None
            assert upcoming.year > at.year + 40
            return
        assert upcoming == theirs.astimezone(UTC), (rule.text, zone, at)
        at = upcoming
