"""Effects: what is in doubt comes first, with what to say of it."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from cronce.monitor.reading.effects import EffectsPage, effects_page
from cronce.runtime.effects.seen import EffectSeen, effect, effect_named, load, names_effect
from cronce.runtime.flow import Flow
from cronce.telling.doubts import verdicts
from cronce.value import NamedTuple
from cronce.web.frame import Shown, show

AT_ONCE: Final = 100


class Row(NamedTuple):
    seen: EffectSeen
    slot: str
    """Whose step it is; "" of a key of an idempotent function."""
    commands: tuple[str, ...]
    """What to say of it in a terminal, if it is in doubt."""

    @property
    def way(self) -> tuple[str, ...]:
        """Where one says it here."""
        return ("effects", *self.seen.name.split("/"), "resolve")


async def page(request: Request) -> Response:
    query = request.query_params
    what = query.get("what", "").strip() or None
    return await show(
        request, "effects.html", _page(what, query.get("after") or None, everything=query.get("all") == "1")
    )


def _page(what: str | None, after: str | None, *, everything: bool) -> Flow[Shown]:
    if what is not None and names_effect(what):
        one = yield from effect(effect_named(what))
        found = EffectsPage((one,) if one else (), None)
    else:
        found = yield from effects_page(what, after, AT_ONCE, everything=everything)
    now = (yield from load([])).now
    return {
        "now": now,
        "rows": [_row(one) for one in found.effects],
        "next": found.next,
        "kept": {"what": what, "all": 1 if everything else None},
        "after": after,
    }


def _row(one: EffectSeen) -> Row:
    of = one.name.partition("/")[0]
    commands = tuple(verdicts(one.name)) if one.state == "in doubt" else ()
    return Row(one, of if "@" in of else "", tuple(line.strip() for line in commands))
