"""APScheduler 3 as the trigger of a job function, configured as the guides recommend: UTC, coalesce, one instance, a
minute of grace, an id and `replace_existing`. What the other files here wrap the function in is the difference."""

from collections.abc import Callable
from typing import Any

from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger

from bench.peers.adapters.wait import until_stopped
from bench.peers.ledger import order, up

DEFAULTS = {"coalesce": True, "max_instances": 1, "misfire_grace_time": 60}


def serve(job: Callable[..., None], prepare: Callable[[Any], None] = lambda _: None, **settings: Any) -> None:
    scheduler = BackgroundScheduler(**{"job_defaults": DEFAULTS, "timezone": "UTC", **settings})
    prepare(scheduler)
    trigger = CronTrigger(second=f"*/{order().period}", timezone="UTC")
    scheduler.add_job(job, trigger, id="tick", replace_existing=True)
    scheduler.start()
    up()
    until_stopped()
    scheduler.shutdown()
