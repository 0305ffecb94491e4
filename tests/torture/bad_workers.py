"""Processes that break promises, each in its own way: a torture of them must end in a red verdict."""

from datetime import timedelta

from cronce import Cronce, Run, Skipped
from cronce.runtime.guard import Guard
from cronce.torture.worker import TortureTask, TortureWorker, WorkerOrder, main


class Careless(TortureWorker):
    """Under skip it keeps a store to itself, as pods with private files do. Under rerun it swallows what it shall do,
    and the guard believes that it was done."""

    def __init__(self, order: WorkerOrder) -> None:
        super().__init__(order)
        self._shared, self._private = self.cron, Cronce("memory://", clock=self.clock)

    def guarded(self, task: TortureTask, timeout: timedelta | None = None) -> Guard[[], Skipped | None]:
        self.cron = self._private if task.on_lost == "skip" else self._shared
        return super().guarded(task, timeout)

    def body(self, run: Run) -> None:
        if run.job.endswith("skip"):
            super().body(run)


if __name__ == "__main__":
    main(Careless)
