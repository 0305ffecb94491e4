"""What a table of slots and processes shows: one word for each, from what was written and done so far. Pure."""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from cronce.testing.ledger_file import LedgerLine


class SlotMark(StrEnum):
    """What a process did about a slot."""

    NOTHING = ""
    RUNNING = "running"
    RAN = "ran"
    RAN_AGAIN = "ran again"
    RAN_LATE = "ran late"
    TOOK_OVER = "took over"
    KILLED = "killed"
    PAUSED = "paused"
    STOPPED = "stopped"
    REFUSED = "·"


class DemoAccount:
    """What is known of three processes: the lines they wrote, and in the middle of which slot one was killed or
    paused. Slots are keys, which sort as they are due."""

    def __init__(self) -> None:
        self.killed: dict[str, str] = {}
        self.paused: dict[str, str] = {}
        self._lines: dict[str, list[LedgerLine]] = {}

    def add(self, lines: Iterable[LedgerLine]) -> None:
        for line in lines:
            self._lines.setdefault(line.slot, []).append(line)

    def of(self, slot: str, who: str = "") -> Sequence[LedgerLine]:
        """The lines about a slot, of one process or of all."""
        return [line for line in self._lines.get(slot, ()) if who in ("", line.who)]

    def starts(self, slot: str) -> Sequence[LedgerLine]:
        return [line for line in self.of(slot) if line.what == "start"]

    def before(self, start: LedgerLine) -> LedgerLine | None:
        """The start of the same slot that this one took over from."""
        older = [line for line in self.starts(start.slot) if line.fence < start.fence]
        return max(older, key=lambda line: line.fence, default=None)

    def runs(self, slot: str, who: str) -> bool:
        """Whether a process is in the middle of a slot. It may have been refused before, and stopped, and took over."""
        said = [line.what for line in self.of(slot, who)]
        return said.count("start") > said.count("done") + said.count("stopped")


def time_of(slot: str) -> str:
    """The time of day of a slot's key."""
    return slot[-9:-1]


def mark(account: DemoAccount, slot: str, who: str) -> SlotMark:
    said = {line.what: line for line in account.of(slot, who)}
    if done := said.get("done"):
        return _done(account, done)
    if account.killed.get(who) == slot:
        return SlotMark.KILLED
    if account.paused.get(who) == slot:
        return SlotMark.PAUSED
    if "stopped" in said:
        return SlotMark.STOPPED
    if "start" in said:
        return SlotMark.RUNNING
    return SlotMark.REFUSED if "refused" in said else SlotMark.NOTHING


def _done(account: DemoAccount, done: LedgerLine) -> SlotMark:
    if account.before(done):
        return SlotMark.TOOK_OVER
    if account.paused.get(done.who) == done.slot:
        return SlotMark.RAN_LATE
    first = next(line.who for line in account.starts(done.slot) if line.fence == done.fence)
    return SlotMark.RAN if first == done.who else SlotMark.RAN_AGAIN
