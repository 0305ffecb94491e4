"""What runs the bodies of jobs that have processes of their own: commands, and functions that are isolated."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cronce.clock import Clock
from cronce.runtime.processes.child import Supervisor

if TYPE_CHECKING:
    from cronce.runtime.attempt import Work
    from cronce.runtime.function_loading import FunctionLocation
    from cronce.runtime.keeper import Keeper


class BodyRunners(Supervisor):
    """What runs the bodies of all jobs of a process that have processes of their own."""

    def __init__(self, at_work: "Callable[[], Keeper]", clock: Clock, url: Callable[[], str | None]) -> None:
        super().__init__(clock)
        self._at_work, self._url = at_work, url

    def command(self, words: Sequence[str]) -> "Work":
        """One run of a command."""
        from cronce.runtime.processes.command import Command  # noqa: PLC0415  most have none

        return Command(words, self, self._at_work().node.store.traits)

    def isolated(
        self, place: "FunctionLocation", args: tuple[Any, ...], named: Mapping[str, Any], is_async: bool
    ) -> "Work":
        """One call of a function in a process of its own."""
        from cronce.runtime.processes.isolated import IsolatedCall  # noqa: PLC0415

        traits = self._at_work().node.store.traits
        return IsolatedCall(place, self, traits, self._url(), args=args, named=named, is_async=is_async)
