"""Celery beat with so many entries: what looking and sending cost under our scheduler, next to its own.

*Bare* is Celery's default scheduler (`PersistentScheduler`), in the same process, with the same entries, over the same
broker, a Valkey. Our store is another Valkey, or a PostgreSQL that is durable.

- *Idle*: nothing is due. Of Celery's, one tick. Of ours one tick, and one look of the scheduler behind it at the store.
- *Due*: some of the entries are. Of Celery's a tick for each. Of ours everything from the instant on: claiming, sending
  and putting on record that it is sent.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench import postgres, valkey
from bench.harness import AtLeast, AtMost, Benchmark, Sides, Slice
from bench.scheduler.jobs import far, names
from cronce.runtime.scheduling.scheduler import Scheduler as Running
from cronce.runtime.scheduling.settings import SchedulerSettings

STORES: Final[dict[str, Callable[[], Any]]] = {"valkey": valkey.server, "postgresql": postgres.server}
LOOKS: Final = 10


class Ours:
    """Our scheduler, whose engine is taken step by step."""

    def __init__(self, app: Any) -> None:
        from cronce.integrations.celery.beat import SENDERS, Scheduler  # noqa: PLC0415  it needs Celery

        class Stepped(Scheduler):
            def _start(self) -> None:
                keeper = self.cron.at_work()
                keeper.lingers = True
                self._running = Running(keeper, lambda: self._book, SchedulerSettings(workers=SENDERS), grace=1.0)

        self.scheduler = Stepped(app)
        self.scheduler.tick()
        assert self.scheduler._running is not None
        self.engine = self.scheduler._running.engine
        self.engine.step()

    def look(self) -> None:
        for _ in range(LOOKS):
            self.scheduler.tick()
            self.engine.look_soon()
            self.engine.step()

    def send(self, number: int) -> None:
        """So many, until all is said."""
        sent = self.scheduler._sent
        while len(sent) < number or not self.engine.idle:
            if self.engine.step() > time.clock_gettime(time.CLOCK_BOOTTIME):
                time.sleep(0.0002)

    def await_slot(self, every: int) -> None:
        """Send what was due in the meantime, then wait for the next instant, not long before it."""
        left = every - time.time() % every
        until = time.monotonic() + (left if left > every / 2 else left + every) - 0.02
        while time.monotonic() < until:
            self.engine.step()
            time.sleep(0.005)
        self.scheduler._sent.clear()
        time.sleep(max(0.0, every - time.time() % every))

    def close(self) -> None:
        self.engine.leave()
        self.scheduler.cron.close()


class Bare:
    """Celery's own, of which some entries are made due."""

    def __init__(self, app: Any, file: Path) -> None:
        from celery.beat import PersistentScheduler  # noqa: PLC0415

        self.scheduler = PersistentScheduler(app, schedule_filename=str(file))
        self.scheduler.tick()

    def look(self) -> None:
        for _ in range(LOOKS):
            self.scheduler.tick()

    def make_due(self, number: int) -> None:
        for name in names(number):
            self.scheduler.schedule[name].last_run_at = datetime.now(UTC) - timedelta(days=1)
        self.scheduler.populate_heap()

    def send(self, number: int) -> None:
        for _ in range(number):
            assert self.scheduler.tick() == 0


@contextmanager
def opened(store: str, jobs: int, due: int = 0, every: int = 1) -> Iterator[tuple[Ours, Bare]]:
    """Both, with so many entries; some of them are due each so many seconds, the others not for months."""
    from celery import Celery  # noqa: PLC0415

    with ExitStack() as stack:
        broker, place = stack.enter_context(valkey.server()), stack.enter_context(STORES[store]())
        folder = stack.enter_context(TemporaryDirectory())
        app = Celery("bench", broker=broker.url)
        app.conf.update(cronce_url=place.url, beat_schedule=entries(jobs, due, every), task_ignore_result=True)
        ours, bare = Ours(app), Bare(app, Path(folder, "beat"))
        try:
            yield ours, bare
        finally:
            bare.scheduler.close()
            ours.close()


def entries(jobs: int, due: int, every: int) -> dict[str, Any]:
    from celery.schedules import crontab, schedule  # noqa: PLC0415

    found: dict[str, Any] = {}
    for number, name in enumerate(names(jobs)):
        minute, hour, day, month, _ = far(number).split()
        rare = crontab(minute, hour, day_of_month=day, month_of_year=month)
        found[name] = {"task": "bench.note", "schedule": schedule(every) if number < due else rare}
    return found


@contextmanager
def idle(store: str) -> Iterator[Sides]:
    with opened(store, 1000) as (ours, bare):
        yield Sides(Slice(ours.look, LOOKS), Slice(bare.look, LOOKS))


@contextmanager
def sending(store: str, jobs: int, due: int, ticks: int, every: int) -> Iterator[Sides]:
    with opened(store, jobs, due, every) as (ours, bare):
        yield Sides(
            Slice(partial(ours.send, due), due, before=partial(ours.await_slot, every)),
            Slice(partial(bare.send, ticks), ticks, before=partial(bare.make_due, ticks)),
        )


BENCHMARKS = [
    benchmark
    for store in STORES
    for benchmark in (
        Benchmark(f"idle-1000-{store}", partial(idle, store), AtMost(1.5), "a tick of Celery's, 1,000 entries"),
        Benchmark(
            f"due-1000-{store}",
            partial(sending, store, 1000, 100, 100, 1),
            AtMost(1.5),
            "a tick of Celery's for each that is due, 100 of 1,000 entries",
        ),
        Benchmark(
            f"due-10000-{store}",
            partial(sending, store, 10_000, 500, 10, 2),
            AtLeast(10),
            "a tick of Celery's for each that is due, of 10,000 entries",
        ),
    )
]
