"""A process that the store refuses what it shall do, by a rule that nobody asked about before."""

from datetime import timedelta

from cronce import Skipped
from cronce.errors import BadPolicy
from cronce.runtime.guard import Guard
from cronce.torture.worker import Task, Worker, main


class Refused(Worker):
    def guarded(self, task: Task, timeout: timedelta | None = None) -> Guard[[], Skipped | None]:
        raise BadPolicy("no runs on Sundays")


if __name__ == "__main__":
    main(Refused)
