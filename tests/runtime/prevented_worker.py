"""A worker that calls a job for many slots, and prints how often it ran and how often it was refused."""

import sys
from datetime import UTC, datetime, timedelta

from cronce import Cronce, Skipped

FIRST = datetime(2026, 3, 1, tzinfo=UTC)


def main(url: str, slots: int) -> None:
    with Cronce(url) as cron:

        @cron.job(every="1s", name="sync", overlap="allow", start_within="100000h")
        def sync() -> None:
            pass

        came_to = [sync.at(FIRST + timedelta(seconds=second))() for second in range(slots)]
    refused = sum(isinstance(one, Skipped) for one in came_to)
    print(len(came_to) - refused, refused)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
