"""Effects, part by part: what is in doubt comes first, however many there are."""

from cronce.errors import BadInput
from cronce.model import Mark
from cronce.monitor.reading.cursor import read_cursor, spell_cursor
from cronce.runtime.effects.seen import EffectSeen, Spot, effects, places
from cronce.runtime.flow import Flow
from cronce.stores.base import Position
from cronce.value import NamedTuple


class EffectsPage(NamedTuple):
    """Some effects, and where the list goes on."""

    effects: tuple[EffectSeen, ...]
    next: str | None


def effects_page(what: str | None, after: str | None, limit: int, *, everything: bool = False) -> Flow[EffectsPage]:
    """Those of a job, a slot or an idempotent function, or of all; with `everything`, also what is done."""
    prefixes = yield from places(what)
    spot = _read(after, prefixes) if after else None
    found = yield from effects(prefixes, limit, everything=everything, after=spot)
    goes_on = Position(int(found.next.mark), found.next.key) if found.next else None
    return EffectsPage(found.effects, spell_cursor(goes_on) if goes_on else None)


def _read(after: str, prefixes: list[str]) -> Spot:
    """Comes from outside: it may be of another list."""
    behind = after.partition("@")[2]
    of_this = next((prefix for prefix in prefixes if behind.startswith(prefix)), prefixes[0])
    mark, key = read_cursor(after, of_this)
    if mark not in set(Mark):
        raise BadInput(f"{after[:60]!r} is not where a list of effects goes on")
    return Spot(Mark(mark), key)
