"""What people do by hand, as methods of `Cronce`: for programs that do it in their stead."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from cronce.errors import BadInput, CronceError
from cronce.model import Slot

if TYPE_CHECKING:
    from cronce.runtime.declare import Declaration
    from cronce.runtime.flow import Flow
    from cronce.runtime.keeper import Keeper
    from cronce.runtime.operations.actions import Operator, Verdict
    from cronce.schedule import Schedule

T = TypeVar("T")


class ByHand:
    """Each act may be repeated, and is on record with when and `by` whom: user@host unless it is said."""

    jobs: "dict[str, Declaration]"

    if TYPE_CHECKING:  # `Cronce` has it

        def at_work(self) -> Keeper: ...

    def pause(self, name: str, reason: str = "", *, by: str | None = None) -> bool:
        """Grant none of the job's slots until it is resumed; what runs goes on. False: it was paused before."""
        return self._by_hand(by, lambda operator: operator.pause(name, reason)).new

    def resume(self, name: str, *, by: str | None = None) -> bool:
        """What fell due meanwhile does not fire. False: it was not paused."""
        return self._by_hand(by, lambda operator: operator.resume(name)) is not None

    def pause_all(self, reason: str = "", *, by: str | None = None) -> bool:
        """The kill switch: nothing at all is granted until `resume_all`."""
        return self._by_hand(by, lambda operator: operator.pause_all(reason)).new

    def resume_all(self, *, by: str | None = None) -> bool:
        """Jobs that were paused one by one stay so. False: not everything was paused."""
        return self._by_hand(by, lambda operator: operator.resume_all()) is not None

    def trigger(self, name: str, payload: Any = None, id: str = "", *, by: str | None = None) -> str:  # noqa: A002
        """Ask for a run of its own with its own key, which is returned. By one id, a job is run once."""
        return self._by_hand(by, lambda operator: operator.trigger(name, payload, id)).slot.key

    def rerun(self, slot: Slot | str, *, fresh: bool = False, force: bool = False, by: str | None = None) -> str:
        """Ask for another run of a closed slot; the key of that run. Its effects go by the slot's key, unless fresh. It
        is refused while the process that ran the slot may be alive, unless you `force` it."""
        return self._by_hand(by, lambda operator: operator.rerun(_slot(slot), fresh=fresh, force=force)).slot.key

    def cancel(self, slot: Slot | str, reason: str = "", *, by: str | None = None) -> None:
        """Stop a run, or close what waits to be run; what is closed stays as it is."""
        self._by_hand(by, lambda operator: operator.cancel(_slot(slot), reason))

    def resolve(
        self,
        what: Slot | str,
        verdict: "Verdict",
        reason: str = "",
        *,
        result: Any = None,
        force: bool = False,
        by: str | None = None,
    ) -> None:
        """Say of a slot that failed, was lost or is unknown that it is done, or shall be tried again; or the same of an
        effect that is in doubt, such as "billing@2026-03-29T01:00:00Z/charge:7". One that is done has a `result`, for
        whoever repeats it. A retry is refused while the process that was at it may be alive, unless you `force` it."""
        from cronce.runtime.effects.review import names_effect  # noqa: PLC0415

        if names_effect(what):
            self._by_hand(by, lambda operator: _resolved(operator, str(what), verdict, reason, result, force=force))
        elif result is not None:
            raise BadInput("only an effect has a result, such as a step: billing@2026-03-29T01:00:00Z/charge:7")
        else:
            self._by_hand(by, lambda operator: operator.resolve(_slot(what), verdict, reason, force=force))

    def backfill(self, name: str, start: datetime | str, end: datetime | str, *, by: str | None = None) -> list[str]:
        """Ask for a run of each slot from `start` until before `end` that never succeeded: their keys. A slot gets one
        such run, however often this is called."""
        from cronce.runtime.operations.backfill import backfill  # noqa: PLC0415

        return [slot.key for slot in self._by_hand(by, lambda operator: backfill(operator, name, start, end))]

    def drain(
        self,
        holder: str | None = None,
        *,
        label: str | None = None,
        off: bool = False,
        reason: str = "",
        by: str | None = None,
    ) -> bool:
        """Let a process, or all with a label such as colour=blue, claim nothing more while it lives; `off` undoes it.
        False: it was so before."""
        from cronce.runtime.operations.actions import drain_cell  # noqa: PLC0415

        cell = drain_cell(holder, label)
        if off:
            return self._by_hand(by, lambda operator: operator.undrain(cell)) is not None
        return self._by_hand(by, lambda operator: operator.drain(cell, reason)).new

    # --- jobs that live in the store ---

    def add(self, name: str, schedule: "str | Schedule | None" = None, *, by: str | None = None, **words: Any) -> bool:
        """Keep a job in the store, for all processes that allow it: `cron.add("mail", "@hourly", function="app:mail")`,
        or `command=["./mail.sh"]`, with the policies of `job`. False: it is there, defined the same."""
        from cronce.runtime.stored_jobs import add  # noqa: PLC0415

        return self._by_hand(by, lambda operator: add(operator, name, {"schedule": schedule, **words})) is not None

    def edit(self, name: str, *, by: str | None = None, **changes: Any) -> bool:
        """Change what is said of a job in the store; None goes back to the default. False: it was so before."""
        from cronce.runtime.stored_jobs import edit  # noqa: PLC0415

        return self._by_hand(by, lambda operator: edit(operator, name, changes)) is not None

    def remove(self, name: str, *, by: str | None = None) -> None:
        """Take a job out of the store; its history stays."""
        from cronce.runtime.stored_jobs import remove  # noqa: PLC0415

        self._by_hand(by, lambda operator: remove(operator, name))

    def _by_hand(self, by: str | None, act: "Callable[[Operator], Flow[T]]") -> T:
        from cronce.runtime.operations.actions import Operator, who  # noqa: PLC0415  who only guards functions need not load it

        desk = self.at_work().desk
        return desk.do(act(Operator(desk.ledger, who() if by is None else by, self.jobs)))


def _slot(named: Slot | str) -> Slot:
    from cronce.runtime.queries import slot_named  # noqa: PLC0415

    return named if isinstance(named, Slot) else slot_named(named)


def _resolved(
    operator: "Operator", name: str, verdict: "Verdict", reason: str, result: Any, *, force: bool
) -> "Flow[None]":
    from cronce.runtime.effects.review import Unwatched, resolve_effect  # noqa: PLC0415

    answer = yield from resolve_effect(operator, name, verdict, reason, result, force=force)
    if isinstance(answer, Unwatched):
        raise CronceError(f"{answer}: say it again later")
