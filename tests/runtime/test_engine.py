"""What an engine does when something goes wrong in the middle of a batch."""

import pytest

from cronce import Cronce
from cronce.protocol.record import State
from cronce.runtime.attempt import Work
from cronce.testing import manual


def test_a_body_that_cannot_be_made_is_given_back_and_takes_no_other_with_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cron = Cronce("memory:")
    for name in ("a", "b", "c"):
        cron.job(every="1m", name=name)(lambda: None)
    made = cron.works["b"]

    def unwell() -> Work:
        raise OSError("no more processes")

    cron.works["b"] = unwell
    with manual(cron, "2026-03-01T00:00:30Z") as time:
        assert [ran.job for ran in time.advance("31s")] == ["a", "c"]
        assert time.records()["b@2026-03-01T00:01:00Z"].state is State.DUE
    assert "run/b/2026-03-01T00:01:00Z could not be begun, and is given back" in caplog.text
    assert made is not unwell
