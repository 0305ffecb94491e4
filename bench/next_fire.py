"""The next fire of a cron expression: one after the other, next to cronsim; and of 100,000 jobs in one tick."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice, product
from zoneinfo import ZoneInfo

from cronsim import CronSim

from bench.harness import CPU, AtMost, Benchmark, Sides, Slice, Within
from cronce.schedule import Cron

START = datetime(2026, 1, 15, 12, tzinfo=UTC)
EXPRESSIONS = ("*/5 * * * *", "0 * * * *", "30 2 * * *", "0 9 * * 1-5", "0 0 1 * *")
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")
PAIRS = tuple(product(EXPRESSIONS, ZONES))  # 20 of them
FIRES = 50
JOBS = 100_000


def ours_next(schedules: list[Cron]) -> None:
    """Each schedule from fire to fire. No answer comes from memory: each question is a new one."""
    for schedule in schedules:
        at: datetime | None = START
        for _ in range(FIRES):
            at = schedule.next(at) if at else None


def cronsim_next(iterators: list[CronSim]) -> None:
    """The same with cronsim: its way from fire to fire is to iterate."""
    for iterator in iterators:
        for _ in islice(iterator, FIRES):
            pass


def hundred_thousand_jobs(schedules: list[Cron], now: datetime) -> None:
    """What a scheduler asks in one tick, when each job has a schedule of its own."""
    for schedule in schedules:
        schedule.next(now)


@contextmanager
def walking() -> Iterator[Sides]:
    schedules = [Cron(expression, zone) for expression, zone in PAIRS]
    iterators: list[CronSim] = []

    def rewind() -> None:
        iterators[:] = [CronSim(expression, START.astimezone(ZoneInfo(zone))) for expression, zone in PAIRS]

    ops = len(PAIRS) * FIRES
    yield Sides(
        ours=Slice(lambda: ours_next(schedules), ops),
        bare=Slice(lambda: cronsim_next(iterators), ops, before=rewind),
    )


@contextmanager
def one_tick() -> Iterator[Sides]:
    schedules = [Cron(*PAIRS[number % len(PAIRS)]) for number in range(JOBS)]
    ticks = iter(range(10**9))
    yield Sides(ours=Slice(lambda: hundred_thousand_jobs(schedules, START + next(ticks) * timedelta(minutes=1))))


BENCHMARKS = [
    Benchmark(
        "walk", walking, AtMost(1.2), note=f"cronsim, already parsed: {FIRES} fires of {len(PAIRS)} pairs", meter=CPU
    ),
    Benchmark(
        "tick", one_tick, Within(0.1), note=f"the next fires of {JOBS:,} jobs with {len(PAIRS)} pairs", meter=CPU
    ),
]

if __name__ == "__main__":
    from bench.__main__ import main

    sys.exit(main(["next_fire"]))
