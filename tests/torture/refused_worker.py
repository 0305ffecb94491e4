"""A process that the store refuses what it shall do, by a rule that nobody asked about before."""

from datetime import timedelta

from cronce import Skipped
from cronce.errors import BadPolicy
from cronce.runtime.guard import Guard
from cronce.torture.worker import TortureTask, TortureWorker, main


class Refused(TortureWorker):
    def guarded(self, task: TortureTask, timeout: timedelta | None = None) -> Guard[[], Skipped | None]:
        raise BadPolicy("no runs on Sundays")


if __name__ == "__main__":
    main(Refused)
