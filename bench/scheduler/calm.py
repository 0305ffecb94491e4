"""One job, due each second, and nothing else to do: how late its body starts."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench import postgres, valkey
from bench.harness import Within
from bench.scheduler.book import exactly_once, percentile, read, tally
from bench.scheduler.process import Child, sleep_until
from bench.scheduler.report import Line


class Size(NamedTuple):
    slots: int


def calm(size: Size) -> Iterator[Line]:
    with postgres.server() as server:
        yield from lateness("PostgreSQL", server.url, size.slots)
    with valkey.server() as server:
        begin(server.url)
        yield from lateness("Valkey", server.url, size.slots)


def begin(url: str) -> None:
    """On purpose: a Valkey that is merely empty may have forgotten, and grants no slot for a while."""
    subprocess.run([sys.executable, "-m", "cronce", "store", "init", url], check=True, stdout=subprocess.DEVNULL)


def lateness(name: str, url: str, slots: int) -> Iterator[Line]:
    with TemporaryDirectory() as folder:
        book = Path(folder, "book")
        with Child("ours", url=url, book=str(book), jobs=1, every="1s") as child:
            child.told()
            first = int(time.time()) + 2
            sleep_until(first + slots - 0.1)
            entries = read(book)
    tallies = exactly_once([tally(entries, ["job-0"], slot, slot + 1) for slot in range(first, first + slots)])
    delays = sorted(delay for cycle in tallies for delay in cycle.delays)
    yield Line(f"p50 slot to body, one job, {name}", [percentile(delays, 50)], limit=Within(0.005))
    yield Line(f"p99 slot to body, one job, {name}", [percentile(delays, 99)], limit=Within(0.025))
