"""A person's word on an effect that is in doubt: it is done, or may be begun again.

What was begun and never ended is closed as lost first, by the same rule as anywhere: only when whoever was at it is
known to be gone. Of a run that is over the store says so. That a lease has passed is believed of a clock that was
watched for as long as the lease: until then the answer is `Unwatched`, and asking again, later, brings it.
"""

from datetime import timedelta
from typing import Any

from cronce.errors import BadInput, CronceError, NotOnRecord, StoreUnavailable
from cronce.model import Instant, spell
from cronce.protocol.commands import Closed, Held, Queued, Resolve
from cronce.protocol.record import RESOLVED, Maker, Outcome, State, decode
from cronce.runtime.carrier import ROUNDS
from cronce.runtime.effects.makers import whereabouts
from cronce.runtime.effects.seen import EffectSeen, Named, effect, effect_named, load
from cronce.runtime.flow import Flow
from cronce.runtime.hand.acts import Hand, Verdict, sure
from cronce.runtime.kept_json import json_text
from cronce.schedule import format_duration
from cronce.value import Value


class Unwatched(Value):
    """Whoever was at it seems gone: a lease passed at `until`, by a clock that was not watched for long enough."""

    name: str
    until: Instant | None
    lease: timedelta

    def __str__(self) -> str:
        when = f" at {spell(self.until)}" if self.until else ""
        return (
            f"{self.name} was begun, and the lease of whoever was at it passed{when}; to be sure of that, the store's"
            f" clock is to be watched for {format_duration(self.lease)}"
        )


def resolve_effect(
    hand: Hand, name: str, verdict: Verdict, reason: str = "", result: Any = None
) -> Flow[EffectSeen | Unwatched]:
    """The effect as it stands then: done, with this result for whoever repeats it, or free to be begun again."""
    named, text = effect_named(name), json_text("a result", result)
    if verdict == "retry" and text:
        raise BadInput("what is to be done again has no result yet: that is said with done")
    command = Resolve(verdict, hand.word(verdict, reason), text)
    over: frozenset[Maker] = frozenset()
    for _ in range(ROUNDS):
        (reply,) = yield from hand.ledger.resolve_effects([named.cell], command, over)
        match sure(reply):
            case Held():
                gone = yield from _gone(hand, named)
                if isinstance(gone, Unwatched):
                    return gone
                over = gone
            case Closed(Outcome.LOST | Outcome.UNKNOWN):
                pass  # nobody had acted on it, and now that is done: once more, as it was meant
            case answer:
                seen = yield from effect(named)
                if seen is None or not (isinstance(answer, Queued) or _is_so(seen, command)):
                    raise _refusal(named, seen)
                return seen
    raise StoreUnavailable(f"could not resolve {named.name}: it changed {ROUNDS} times meanwhile")


def _gone(hand: Hand, named: Named) -> Flow[frozenset[Maker] | Unwatched]:
    """The run that was at it, if that one is gone. Whoever is at it now is left alone."""
    seen = yield from effect(named)
    if seen is None or seen.record is None or seen.record.state is not State.RUNNING:
        return frozenset()  # it has changed since
    if seen.state == "in progress":
        since = f" since {spell(seen.record.started)}" if seen.record.started else ""
        raise CronceError(
            f"{named.name} is in progress: {seen.record.holder} has been at it{since}; nothing is to be resolved yet"
        )
    maker = seen.record.under
    if maker is None:
        return Unwatched(named.name, seen.cell.until, seen.record.lease)
    loaded = yield from load([maker.run])
    (cell,) = loaded.cells
    if whereabouts(cell, maker, loaded.now) == "over" or (yield from hand.ledger.gone([maker.run])):
        return frozenset({maker})
    return Unwatched(named.name, cell.until, decode(cell.value, cell.key).lease)


def _is_so(seen: EffectSeen, command: Resolve) -> bool:
    """Whether it stands as the word has it, by this word or by the same one before."""
    if command.verdict == "retry" or seen.record is None:
        return seen.state == "not done"
    said = seen.record.reason.startswith(RESOLVED)
    return seen.state == "done" and said and seen.record.result == command.result


def _refusal(named: Named, seen: EffectSeen | None) -> CronceError:
    if seen is None or seen.record is None:
        return NotOnRecord(f"nothing is known of {named.name}; `cronce effects` lists what is in doubt")
    if seen.state == "not done":
        return CronceError(f"{named.name} is not done, and may be begun again: nothing is to be resolved")
    when = f" at {spell(seen.record.finished)}" if seen.record.finished else ""
    result = f", with the result {seen.record.result[:100]}" if seen.record.result else ""
    return CronceError(f"{named.name} was done{when}{result}: nothing is to be resolved")
