"""A host of Celery: a beat and a worker, as two processes. The workers are the same for every beat: threads, late
acknowledgement, a short visibility timeout and frequent looks (by default one in 100 s), so that the broker delivers
again what a dead worker had."""

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from celery import Celery, signals

from bench.peers.ledger import LEASE, current, order, run, up

WORKER = ("worker", "--pool", "threads", "--concurrency", "4", "--without-gossip", "--without-mingle")
BEAT = ("beat", "--pidfile=", "-s", f"{order().folder}/beat-{order().host}")
SLOT = "peer_slot"
"""The header in which a beat says when it sent: the worker may be late."""


def application(base: Any = None, **settings: Any) -> Any:
    app = Celery("peers", broker=order().broker)
    last = datetime.fromtimestamp(current(), UTC)  # so that all beats send at the same instants
    entry = {"task": "tick", "schedule": timedelta(seconds=order().period), "last_run_at": last}
    app.conf.update(
        timezone="UTC",
        broker_connection_retry_on_startup=True,
        broker_transport_options={
            "visibility_timeout": 2 * LEASE,
            "unacked_restore_interval": 1,
            "unacked_restore_throttle": 1,
        },
        beat_schedule={"tick": entry},
    )
    app.conf.update(settings)

    def tick(self: Any) -> None:
        headers = {**(self.request.headers or {}), **vars(self.request)}
        at = headers.get("cronce_slot") or headers.get(SLOT)
        run(datetime.fromisoformat(at.rpartition("@")[2]).timestamp() if at else None)

    app.task(
        tick, name="tick", bind=True, acks_late=True, reject_on_worker_lost=True, **({"base": base} if base else {})
    )
    signals.worker_ready.connect(lambda **_: up(), weak=False)
    signals.before_task_publish.connect(_note, weak=False)
    return app


def _note(headers: dict[str, Any], **_: Any) -> None:
    headers[SLOT] = datetime.fromtimestamp(current(), UTC).isoformat()


def serve(module: str, *beat: str) -> None:
    """Both processes, until they are told to stop."""
    celery = [sys.executable, "-m", "celery", "-A", f"bench.peers.adapters.{module}:app"]
    both = [subprocess.Popen([*celery, *words]) for words in (WORKER, (*BEAT, *beat))]

    def stop(*_: object) -> None:
        for one in both:
            one.terminate()

    signal.signal(signal.SIGTERM, stop)
    while all(one.poll() is None for one in both):  # a host whose beat or worker ended is started again as a whole
        time.sleep(0.2)
    stop()
    for one in both:
        one.wait()
    os._exit(0)
