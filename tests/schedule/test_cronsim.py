"""The default policy against cronsim, which follows Debian's cron: five fields, fire by fire, over real years."""

import re
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim
from hypothesis import assume, given
from hypothesis import strategies as st

from cronce.errors import BadSchedule
from cronce.schedule import Cron
from tests.protocol.examples import examples
from tests.schedule.oracle import Rule
from tests.schedule.strategies import rules

# Where cronsim 2.8 does not do what Debian's cron does, it is not asked:
# - A wildcard where midnight is in the gap, or after a gap of half an hour: it answers with a time that no clock shows,
#   or loses the first ones (Lord Howe, `*/18 3 * * *`). test_dst and test_properties have what should happen.
# - A start from within a fold: it begins in the past. So all begin at noon.
# - `5-5/2`, a range of one with a step: it reads `5/2`.
GAP_AT_NIGHT = ["UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Antarctica/Troll", "Africa/Casablanca"]
GAP_AT_MIDNIGHT = ["America/Santiago", "Africa/Cairo", "America/Havana", "Pacific/Apia", "Australia/Lord_Howe"]
RANGE_OF_ONE = re.compile(r"\b(\d+)-\1/")
days = st.dates(date(2009, 1, 1), date(2036, 1, 1))


@examples(150)
@given(rules(), st.sampled_from(GAP_AT_NIGHT + GAP_AT_MIDNIGHT), days)
def test_the_default_policy_fires_as_cronsim_does(rule: Rule, zone: str, day: date) -> None:
    assume(not RANGE_OF_ONE.search(rule.text))
    assume(zone in GAP_AT_NIGHT or not rule.is_wildcard)
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
