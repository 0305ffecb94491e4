"""A command that is only observed: `cronce exec --observe`.

The command runs as the crontab's own line would run it, whatever the store says or does, and its exit code is ours. The
slot is claimed beside it (`runtime.shadow`), and where it would have been refused that is noted.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from cronce.clock import Clock
from cronce.errors import CronceError
from cronce.events import Event, What
from cronce.integrations.command import Say
from cronce.integrations.process import Supervisor
from cronce.runtime.declare import Declaration, When
from cronce.runtime.desk import Desk
from cronce.runtime.jotter import Jotter
from cronce.runtime.keeper import Keeper
from cronce.runtime.processes.child import NotStarted
from cronce.runtime.shadow import Shadow, by_code
from cronce.stores.base import Store


class ObservedExec:
    """One `cronce exec --observe`, from a store that nobody has opened yet to an exit code."""

    def __init__(self, job: Declaration, supervisor: Supervisor, clock: Clock, store: Callable[[], Store], say: Say):
        self._job, self._supervisor, self._clock, self._store, self._say = job, supervisor, clock, store, say
        self._lock = threading.Lock()
        self._keeper: Keeper | None = None

    def run(self, words: Sequence[str], env: Mapping[str, str], when: When | None = None) -> int:
        jotter = Jotter(self._at_work, self._clock)
        with Shadow(self._job, when, jotter, self._at_work, self._clock) as shadow:
            ended = self._supervisor.child(words, env).run()
            code = 128 + ended.signalled if isinstance(ended, NotStarted) else ended.code
            shadow.ended = by_code(code)
        jotter.close()
        if shadow.done.is_set() and self._keeper is not None:  # else it hangs in the store, and ends with this process
            with suppress(CronceError):
                self._keeper.close()
                self._keeper.desk.store.close()
        return code

    def _at_work(self) -> Keeper:
        with self._lock:
            if self._keeper is None:
                store = self._store()
                self._keeper = Keeper(Desk(store, self._clock, lambda: store, self._heard))
            return self._keeper

    def _heard(self, event: Event) -> None:
        if event.what is What.DOUBLED:
            self._say(event.detail, quiet=True)
