"""Who looks after the nights: reruns slots that went wrong, reads the receiver's books, and says what they say of each
effect in doubt. As a script would, by `cron.rerun` and `cron.resolve`: what they refuse is left for later."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from cronce import Cronce
from cronce.errors import CronceError
from cronce.runtime.effects.review import EffectSeen, effects
from cronce.runtime.process_notes import recall_clock
from cronce.runtime.run_lists import runs

PATIENCE: Final = 60.0
MOST: Final = 5000
BAD: Final = ("lost", "failed", "unknown")
NAME: Final = "the script"


class Person:
    """`whats` are the kinds of effects, `each` of which there are: `charge/invoice:7` is thing 7, and `mail/invoice:7`
    thing `each + 7`."""

    def __init__(self, url: str, whats: Sequence[str], each: int) -> None:
        self._cron = Cronce(url)
        self._whats, self._each = whats, each
        self._rerun: set[str] = set()
        self.resolved: set[str] = set()

    def close(self) -> None:
        self._cron.close()

    @property
    def reruns(self) -> int:
        """How many slots were asked to be run again."""
        return len(self._rerun)

    def rerun(self) -> None:
        """Every slot that went wrong, once. Some are refused: the process is only paused, or an effect comes first."""
        node = self._cron.at_work().node
        bad = [run.slot.key for outcome in BAD for run in node.do(runs(None, outcome, MOST)) if not run.slot.request]
        for slot in bad:
            if slot not in self._rerun:
                with suppress(CronceError):
                    self._cron.rerun(slot, by=NAME)
                    self._rerun.add(slot)

    def thing(self, name: str) -> int:
        what, _, thing = name.partition("/")
        return self._whats.index(what) * self._each + int(thing.rpartition(":")[2])

    def in_doubt(self) -> set[int]:
        """What waits for a person, when whoever was at it is over, or known to be since its lease has passed."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = self._not_done()
            if all(one.state == "in doubt" for one in found):
                return {self.thing(one.name) for one in found}
            if time.monotonic() > deadline:
                raise CronceError(f"still in progress: {found[:3]}")
            time.sleep(0.1)

    def resolve(self, charged: Callable[[], set[int]]) -> None:
        """As the books have it: done, or to be done again. The books are read when the effect is known to be in doubt:
        before, it might have gone on."""
        node = self._cron.at_work().node
        node.do(recall_clock(node.ledger))
        doubtful = [one.name for one in self._not_done() if one.state == "in doubt"]
        done = charged() if doubtful else set()
        for name in doubtful:
            with suppress(CronceError):  # its process may go on: later
                self._cron.resolve(name, "done" if self.thing(name) in done else "retry", by=NAME)
                self.resolved.add(name)

    def _not_done(self) -> list[EffectSeen]:
        """Those that are in doubt or in progress."""
        node = self._cron.at_work().node
        found = node.do(effects(None, MOST)).effects
        return [one for one in found if one.name.partition("/")[0] in self._whats]
