"""A nightly task in one process, and how its slot ended."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from cronce import Cronce, Run
from cronce.runtime.run_lists import runs

SLOT = datetime(2026, 3, 29, 1, tzinfo=UTC)


def attempts(cron: Cronce, body: Callable[[Run], Any], number: int = 2) -> list[Any]:
    """What the body returned each time its slot was run: all but the last time it failed after that."""
    results: list[Any] = []

    @cron.job(name="night", retries=number, backoff="1ms")
    def night(run: Run) -> None:
        results.append(body(run))
        if len(results) < number:
            raise ConnectionError("try again")

    for _ in range(number - 1):
        with pytest.raises(ConnectionError):
            night.at(SLOT)()
    night.at(SLOT)()
    return results


def outcome(cron: Cronce) -> str:
    (run,) = cron.at_work().node.do(runs("night", None, 9))
    assert run.record is not None
    return str(run.record.outcome)
