"""A backfill that will be refused writes nothing. What a backfill does is in tests/runtime/test_operations.py
and tests/cli/test_operations_acting.py."""

from contextlib import closing
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cronce import Cronce, Run
from cronce.cli import main
from cronce.model import Slot, spell
from tests.servers.kubernetes import Kubernetes

MINUTE = timedelta(minutes=1)


def test_where_runs_by_hand_are_refused_nothing_is_written(
    kubernetes: Kubernetes, capsys: pytest.CaptureFixture[str]
) -> None:
    """A refused backfill had closed its slots as skipped already."""
    url = kubernetes.url("backfilled")
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    slot = Slot("report", now - 2 * MINUTE)
    with closing(Cronce(url)) as cron:

        @cron.job("* * * * *", name="report", start_within="1h")
        def report(run: Run) -> str:
            return run.key

        assert report.at(slot)() == slot.key
        before = deepcopy(kubernetes.leases)
        stretch = ["--from", spell(slot.at), "--to", spell(now)]
        for words in (
            ["backfill", "report", *stretch],
            ["backfill", "report", *stretch, "--dry-run"],
            ["trigger", "report"],
            ["trigger", "report", "--id", "once-more"],
            ["rerun", slot.key],
        ):
            capsys.readouterr()
            assert main([*words, "--store", url]) == 78
            said = capsys.readouterr()
            assert "and no runs by hand (trigger, rerun, backfill, a Job created by hand)" in said.err
            assert (said.out, kubernetes.leases) == ("", before)
        following = Slot("report", now - MINUTE)
        assert report.at(following)() == following.key


def test_a_stretch_that_reaches_the_end_of_the_calendar_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ended in a traceback."""
    url = f"sqlite:///{tmp_path}/cronce.db"
    with closing(Cronce(url)) as cron:

        @cron.job("0 9 * * *", name="report")
        def report() -> None:
            pass

        report()
    capsys.readouterr()
    assert main(["rerun", "report", "--from", "0001-01-01", "--to", "9999-12-31", "--store", url]) == 2
    assert "0001-01-01 to 9999-12-31 reaches the end of the calendar" in capsys.readouterr().err
