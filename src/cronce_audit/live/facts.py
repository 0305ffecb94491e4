"""What is seen of a running machine."""

from dataclasses import dataclass

from cronce_audit.model import Place


@dataclass(frozen=True, slots=True)
class Process:
    """A process that fires something on a schedule."""

    pid: int
    words: tuple[str, ...]
    what: str
    """What it is: `celery beat`, `cron`, `supercronic`."""
    folder: str
    """Its working directory; "" where that may not be read."""
    inside: str
    """The container it runs in, as its control group names it; "" outside of any."""
    place: Place

    @property
    def shown(self) -> str:
        return f"{self.pid}{f' in {self.inside[:12]}' if self.inside else ''}"


@dataclass(frozen=True, slots=True)
class JobStore:
    """An SQLite file in which APScheduler keeps jobs, and who has it open."""

    path: str
    holders: tuple[int, ...]
    network: str
    """The kind of network file system it is on; "" for a local one, or where that cannot be told."""
    place: Place


@dataclass(frozen=True, slots=True)
class MachineClock:
    """What keeps this machine's time, and by which zone it is shown."""

    in_step: bool | None
    """Whether the kernel says that somebody keeps the clock in step; None where it cannot be asked."""
    zone: str
    place: Place
