"""A nightly agent whose model and tools cost money: what was paid for is not paid for again.

    python examples/agent.py

The agent dies by kill -9 right after a tool was paid, before anybody could note that. The second attempt is given what
the first one thought and bought, and goes on from there: the same thoughts, though this model never thinks the same
twice, and no tool paid twice. The model is a script here, and nothing goes over a network.
"""

import json
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

from cronce import Cronce, Run, Skipped

SERVERS = 2
PRICES = {"think": 2, "search": 5, "summarise": 8, "send": 1}
FATAL = "summarise"

cron = Cronce()  # $CRONCE_URL
folder = Path(os.environ.get("AGENT", "."))


@cron.job("0 3 * * *", on_lost="rerun", lease="2s")  # 30 s unless you say so: here nobody wants to wait for it
def nightly_agent(run: Run) -> list[str]:
    """A thought is a step, like a call of a tool: else a second attempt would think something else, and buy that."""
    seen: list[str] = []
    for turn in count(1):
        tool, words = run.once(f"thought-{turn}", think, seen, unsure="retry", per="slot")
        if tool == "stop":
            return seen
        bought = run.once(
            f"tool-{turn}", buy, tool, words, run.key_of(f"tool-{turn}", per="slot"), unsure="retry", per="slot"
        )
        seen.append(bought)
    raise AssertionError("it counts for ever")


def think(seen: list[str]) -> list[str]:
    """A model: what to do next, in words that are never the same."""
    pay("think")
    tool = ["search", "summarise", "send", "stop"][len(seen)]
    return [tool, f"{tool}, attempt {random.randrange(1_000_000)}"]  # noqa: S311


def buy(tool: str, words: str, key: str) -> str:
    """A paid service. It knows what it has sold under a key, and sells that once."""
    sold = folder / f"{key.replace('/', ' ')}.sold"
    if not sold.exists():
        pay(tool)
        sold.write_text(f"the result of: {words}")
    if tool == FATAL:
        lose_power_once()  # it is paid, and nobody was told
    return sold.read_text()


def pay(what: str) -> None:
    with (folder / "bill").open("a") as bill:
        bill.write(f"{what}\n")


def lose_power_once() -> None:
    try:
        (folder / "lost-power").touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def server() -> None:
    """What cron does on each server: call the job. Whoever is late stands by, and takes over from the dead."""
    logging.basicConfig(format="%(message)s", stream=sys.stdout)  # cronce says so there
    while isinstance(answer := nightly_agent(), Skipped) and answer.kind == "held":
        time.sleep(0.1)
    if not isinstance(answer, Skipped):
        (folder / "report").write_text(json.dumps(answer))


def main(folder: Path) -> int:
    env: dict[str, Any] = {**os.environ, "CRONCE_URL": f"sqlite:///{folder}/cronce.db", "AGENT": str(folder)}
    servers = [subprocess.Popen([sys.executable, __file__, "server"], env=env) for _ in range(SERVERS)]  # noqa: S603
    ends = sorted(one.wait(60) for one in servers)
    bill = Counter((folder / "bill").read_text().split())
    print(*(f"{number} x {what}" for what, number in bill.items()), sep=", ", end=": ")
    print(sum(PRICES[what] * number for what, number in bill.items()), "cents")
    once = ends == [-signal.SIGKILL, 0] and bill == {"think": 4, "search": 1, "summarise": 1, "send": 1}
    print("everything was paid for once" if once else "this is not as it should be")
    return 0 if once else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["server"]:
        server()
    else:
        with tempfile.TemporaryDirectory() as made:
            sys.exit(main(Path(made)))
