"""The jobs of the compose example: one that says every ten seconds which of the schedulers runs it."""

import platform
import time

from cronce import Cronce, Run

cron = Cronce()  # $CRONCE_URL


@cron.job(every="10s", on_lost="rerun")
def tick(run: Run) -> None:
    print(f"{run.key} on {platform.node()}: begins", flush=True)
    time.sleep(5)  # long enough to be killed in the middle, and taken over
    print(f"{run.key} on {platform.node()}: done", flush=True)
