"""One process of a torture that is a scheduler: `cron.run()`, by a clock that is wrong.

    python -m cronce.torture.scheduling

It is told what to do as any process of a torture (`worker`), writes the same ledger, and ends when its input does, or
when it is asked to by SIGTERM, as schedulers are.
"""

import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from cronce.runtime.log import LOGGER
from cronce.torture.worker import BUG_EXIT, TortureWorker, main

SCHEDULER_GRACE: Final = "1s"
"""Shorter than the longest bodies: some are cut short."""

TORTURE_LABEL: Final = "torture"
UNEXPECTED: Final = "the scheduler hit an unexpected error"

BODY_LIMIT: Final = timedelta(minutes=10)
"""Of a body; a second more makes another version of the job."""


class EndOnUnexpected(logging.Handler):
    """What a scheduler did not foresee it survives; here it ends the process, loudly."""

    def emit(self, record: logging.LogRecord) -> None:
        if str(record.msg).startswith(UNEXPECTED):
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(BUG_EXIT)


class SchedulingWorker(TortureWorker):
    def work(self, told: Iterator[str]) -> None:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # until the scheduler is there, there is nothing to end
        self.ready(told)
        LOGGER.addHandler(EndOnUnexpected())
        for task in self.order.tasks if self.first else ():
            self.guarded(task, BODY_LIMIT + timedelta(seconds=self.order.version))
        threading.Thread(target=self._end_with, args=(told,), daemon=True).start()
        self.cron.run(workers=self.order.workers, grace=SCHEDULER_GRACE, labels={TORTURE_LABEL: self.order.label})

    def _end_with(self, told: Iterator[str]) -> None:
        for _ in told:
            pass
        self.over.set()
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(SchedulingWorker)
