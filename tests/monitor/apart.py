"""A job whose body runs in a process of its own, and says what it is told there."""

import logging
import os
from typing import Any

from cronce import Cronce, current_run
from cronce.monitor.logs import RunFilter

cron = Cronce(os.environ.get("APART_URL", "memory:"))


@cron.job("0 0 1 3 *", name="apart", start_within="3650d", isolate=True)
def apart() -> dict[str, Any]:
    record = logging.LogRecord("shop", logging.INFO, __file__, 1, "mail", (), None)
    RunFilter().filter(record)
    return {"run": record.__dict__["run"], "current": repr(current_run()), "traceparent": os.environ.get("TRACEPARENT")}
