"""python -m tests.faults.neighbours: how often each slot runs in setups that people have, before and after."""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.faults.neighbours import book
from tests.faults.neighbours.setups import SETUPS, Setup
from tests.faults.neighbours.stage import Stage
from tests.servers.postgres import Postgres
from tests.servers.valkey import Valkey

HEAD = (
    "| setup | today: most runs of a slot | runs, missed | one line | with it: most runs | runs, missed |"
    " one of them killed: most runs | runs, missed |\n|---|---|---|---|---|---|---|---|\n"
)


WORDS = ("today", "guarded", "killed")
AT_ONCE = 3


class Row(dict[str, book.Counted]):
    """How one setup came out: `today`, `guarded` and `killed`."""

    @property
    def shown(self) -> bool:
        today, after = self["today"], [self["guarded"], self["killed"]]
        return today.most > 1 and all(each == (each.slots, each.slots, 1, 0) for each in after)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.neighbours", description=__doc__)
    add = parser.add_argument
    add("setups", nargs="*", metavar="SETUP", help=f"which ones (default: all): {', '.join(SETUPS)}")
    add("--slots", type=int, default=15, help="of each setup; of a crontab, whose minutes are long, a third of them")
    add("--json", action="store_true", help="one JSON document instead of the table")
    return parser.parse_args()


@contextmanager
def servers() -> Iterator[dict[str, str]]:
    """What the apps need: a database for jobs and slots, and a broker."""
    with Postgres() as postgres, Valkey() as valkey:
        yield {
            "CRONCE_URL": postgres.url,
            "NEIGHBOURS_DATABASE": postgres.url.replace("postgresql:", "postgresql+psycopg:"),
            "NEIGHBOURS_BROKER": valkey.url,
        }


def play(setup: Setup, slots: int, *, guarded: bool, kill: bool = False) -> book.Counted:
    """Start it, let so many slots come, and count. What is killed is killed half-way between two slots."""
    with tempfile.TemporaryDirectory() as folder, servers() as env:
        where = Path(folder)
        where.chmod(0o755)
        with Stage(where, env, guarded=guarded) as stage:
            victim = setup.start(stage)
            first = (
                int(time.time()) // setup.period + 2
            ) * setup.period  # the one before is not counted: some are late
            if kill:
                sleep_until(first + setup.period * (slots // 2 + 0.5))
                os.kill(victim, signal.SIGKILL)
            sleep_until(first + setup.period * (slots - 0.25))
            return book.count(book.read(stage.book), first, slots, setup.period)


def sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.time()))


def counted(name: str, word: str, slots: int) -> book.Counted:
    setup = SETUPS[name]
    wanted = max(3, slots // 3) if setup.period == 60 else slots
    done = play(setup, wanted, guarded=word != "today", kill=word == "killed")
    print(f"{name}, {word}: {done}", file=sys.stderr, flush=True)
    return done


def rows(names: Sequence[str], slots: int) -> dict[str, Row]:
    """Several at a time, the longest first: they mostly wait."""
    order = sorted(names, key=lambda name: -SETUPS[name].period)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = {name: {word: pool.submit(counted, name, word, slots) for word in WORDS} for name in order}
        return {name: Row((word, running[name][word].result()) for word in WORDS) for name in names}


def spelled(name: str, done: Row) -> str:
    today, guarded, killed = (f"{each.most} | {each.runs} of {each.slots}, {each.missed}" for each in done.values())
    return f"| {SETUPS[name].name} | {today} | {SETUPS[name].line} | {guarded} | {killed} |\n"


def table(played: Mapping[str, Row]) -> str:
    """As Markdown."""
    return HEAD + "".join(spelled(name, done) for name, done in played.items())


def main() -> int:
    options = arguments()
    played = rows(options.setups or list(SETUPS), options.slots)
    told = {name: {word: each._asdict() for word, each in done.items()} for name, done in played.items()}
    print(json.dumps(told) if options.json else table(played))
    return 0 if all(done.shown for done in played.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
