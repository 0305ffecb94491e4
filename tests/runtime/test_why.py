"""Why a slot ran or did not, where the store keeps only the last slots of a job. The other cases, with their exact
words, are in tests/telling/test_story.py."""

from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from cronce import Cronce, Run, Skipped
from cronce.cli import main
from cronce.model import Slot, spell
from tests.servers.kubernetes import Kubernetes

MINUTE = timedelta(minutes=1)


def test_a_slot_that_ran_and_is_no_longer_kept_is_too_old(
    kubernetes: Kubernetes, capsys: pytest.CaptureFixture[str]
) -> None:
    """`why` took what stands for it for a slot that is due, and said that it may be claimed now."""
    url = kubernetes.url("asked-why")
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    slots = [Slot("report", now - minutes * MINUTE) for minutes in (5, 4, 3, 2, 1)]
    with closing(Cronce(url)) as cron:

        @cron.job("* * * * *", name="report", start_within="1h")
        def report(run: Run) -> str:
            return run.key

        assert [report.at(slot)() for slot in slots] == [slot.key for slot in slots]
        refused = report.at(slots[0])()
        assert isinstance(refused, Skipped)
        assert refused.kind == "too old"

    assert main(["why", slots[0].key, "--store", url]) == 0
    assert capsys.readouterr().out == (
        f"{slots[0].key} is too old: its Lease has no record of slots up to {spell(slots[1].at)}. It may have run;"
        " it does not run again.\n"
    )
