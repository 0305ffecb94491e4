"""When a slot that is due is tried: at its instant, or as much later as its jitter says."""

from cronce import Cronce
from cronce.testing import manual


def test_jitter_delays_each_slot_by_its_own_measure_to_the_millisecond() -> None:
    """The delay is made of the slot, so that it is the same in every process, and in every run of this test."""
    cron = Cronce("memory:")
    cron.job("* * * * * *", name="spread", jitter="900ms", overlap="allow")(lambda: None)
    cron.job("* * * * * *", name="plain")(lambda: None)
    with manual(cron, "2026-03-01T00:00:00Z", processes=2) as time:
        began = time.now
        time.advance("5s")
    started = {
        name: [round(1000 * (ran.at - began).total_seconds()) for ran in time.ran if ran.job == name]
        for name in ("spread", "plain")
    }
    assert started == {"spread": [1290, 2889, 3588, 4899], "plain": [1000, 2000, 3000, 4000, 5000]}
