"""What runs a job's body, where that is not this process: made when it is first needed, for all jobs of a process."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cronce.clock import Clock
from cronce.runtime.attempt import Work
from cronce.runtime.keeper import Keeper

if TYPE_CHECKING:
    from cronce.runtime.processes.child import Supervisor
    from cronce.runtime.processes.loading import Place


class Bodies:
    def __init__(self, at_work: Callable[[], Keeper], clock: Clock, url: Callable[[], str | None]) -> None:
        self._at_work, self._clock, self._url = at_work, clock, url
        self._lock = threading.Lock()
        self._supervisor: Supervisor | None = None

    def command(self, words: Sequence[str]) -> Work:
        """One run of a command."""
        from cronce.runtime.processes.command import Command  # noqa: PLC0415  most have none

        return Command(words, self._supervised(), self._at_work().desk.store.traits)

    def isolated(self, place: "Place", args: tuple[Any, ...], named: Mapping[str, Any], is_async: bool) -> Work:
        """One call of a function in a process of its own."""
        from cronce.runtime.processes.isolated import Isolated, Reach  # noqa: PLC0415

        store = Reach(self._at_work().desk.store.traits, self._url())
        return Isolated(place, self._supervised(), store, args, named, is_async=is_async)

    def _supervised(self) -> "Supervisor":
        from cronce.runtime.processes.child import Supervisor  # noqa: PLC0415

        with self._lock:
            if self._supervisor is None:
                self._supervisor = Supervisor(self._clock).start()
            return self._supervisor

    def forked(self) -> None:
        """In the child: the processes are the parent's."""
        self._lock = threading.Lock()
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            supervisor.forked()

    def close(self) -> None:
        """When no body runs any more."""
        with self._lock:
            supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            supervisor.close()
