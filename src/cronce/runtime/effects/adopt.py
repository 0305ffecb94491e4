"""Steps that are on record for a slot become effects on things: what is done stays done, what is in doubt stays so, and
each keeps the key that was sent to the other side.

It is for records that are older than the job's use of `run.on`. A step `charge:7` of some slot becomes what
`run.on("invoice", 7).once("charge", …)` finds. The step itself stays on record; one that was in doubt is closed there.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from cronce.errors import BadInput, StoreUnavailable
from cronce.model import check_name
from cronce.protocol.commands import Finish, Finished
from cronce.protocol.record import UNSAYABLE, Outcome
from cronce.runtime.effects.review import EffectSeen, EffectState, look_at, resolve_effect
from cronce.runtime.effects.steps import Target, of_thing, thing_named
from cronce.runtime.flow import Flow
from cronce.runtime.ledger import Begin, Grant
from cronce.runtime.operations import Operator
from cronce.runtime.queries import load, read_page
from cronce.runtime.scheduling.roster import chunks
from cronce.stores.base import Scan
from cronce.value import NamedTuple

ADOPTED_PER_CALL: Final = 100


class Adoption(NamedTuple):
    """A thing, and the steps that are its effect; the first of them is the one whose result and key it has. `hindrance`
    is why it is not adopted, if so."""

    target: Target
    steps: tuple[EffectSeen, ...]
    hindrance: str = ""
    known: EffectState | None = None
    """The state of the effect on the thing, if it is on record."""

    @property
    def state(self) -> EffectState:
        return self.known or self.step.state

    @property
    def step(self) -> EffectSeen:
        return self.steps[0]

    @property
    def times_done(self) -> int:
        return sum(step.state == "done" for step in self.steps)


def adoptable(job: str, pattern: str, kind: str, what: str) -> Flow[list[Adoption]]:
    """What there is to adopt: the job's steps whose key matches `pattern`, in which * matches the id."""
    before, star, after = pattern.partition("*")
    if not star or "*" in after:
        raise BadInput(f"{pattern[:60]!r} must have one * in place of the id, such as 'charge:*'")
    found: dict[Target, list[EffectSeen]] = {}
    scan: Scan | None = Scan(f"effect/{check_name(job)}/")
    while scan is not None:
        page = yield from read_page(scan)
        for one in (yield from look_at(page.cells, page.now)):
            key = one.name.partition("/")[2]
            if key.startswith(before) and key.endswith(after) and len(key) > len(before) + len(after):
                thing = thing_named(kind, key[len(before) : len(key) - len(after)])
                found.setdefault(of_thing(thing, what), []).append(one)
        scan = scan._replace(after=page.next) if page.next else None
    made = (_adoption(target, steps) for target, steps in found.items())
    return (yield from _without_known([adoption for adoption in made if adoption]))


def _adoption(target: Target, steps: Iterable[EffectSeen]) -> Adoption | None:
    """What is done counts before what is in doubt; what surely did not happen is nothing to adopt."""
    weight = {"done": 0, "in doubt": 1, "in progress": 2, "unreadable": 3}
    counted = sorted((one for one in steps if one.state in weight), key=lambda one: (weight[one.state], one.name))
    if not counted:
        return None
    state = next((one.state for one in counted if weight[one.state] > 1), "")
    return Adoption(target, tuple(counted), f"{counted[-1].name} is {state}" if state else "")


def _without_known(adoptions: Sequence[Adoption]) -> Flow[list[Adoption]]:
    seen: list[Adoption] = []
    for part in chunks(adoptions, ADOPTED_PER_CALL):
        loaded = yield from load([one.target.cell for one in part])
        found = yield from look_at([cell for cell in loaded.cells if cell.version], loaded.now)
        known = {one.cell.key: one.state for one in found}
        seen += [_known(one, known[one.target.cell]) if one.target.cell in known else one for one in part]
    return seen


def _known(one: Adoption, state: EffectState) -> Adoption:
    return one._replace(hindrance="known already", known=state)


def adopt(operator: Operator, adoptions: Sequence[Adoption]) -> Flow[None]:
    """Put them on record. Each is begun and ended at once; one that is begun and not ended is in doubt, and safe."""
    ledger = operator.ledger
    for part in chunks([one for one in adoptions if not one.hindrance], ADOPTED_PER_CALL):
        begins = [Begin(one.target.cell, ledger.nonce(), keep=one.target.keep, sent=one.step.name) for one in part]
        _, begun = yield from ledger.exchange_effects((), begins)
        granted = [(one, each.answer) for one, each in zip(part, begun, strict=True) if isinstance(each.answer, Grant)]
        said, _ = yield from ledger.exchange_effects([(grant, _word(one, grant)) for one, grant in granted])
        if len(granted) < len(part) or not all(isinstance(answer, Finished) for answer in said):
            raise StoreUnavailable(
                "the store did not answer for all of them; run it again: it does not change what is already recorded"
            )
        for one, _grant in granted:
            for step in [step for step in one.steps if step.state == "in doubt"]:
                yield from resolve_effect(operator, step.name, "done", f"adopted as {one.target.name}")


def _word(one: Adoption, grant: Grant) -> Finish:
    record = one.step.record
    assert record is not None
    if one.step.state == "done":
        told = record.reason if record.reason.startswith(UNSAYABLE) else f"adopted from {one.step.name}"
        return Finish(grant.fence, Outcome.SUCCEEDED, told, result=record.result)
    return Finish(grant.fence, Outcome.UNKNOWN, f"adopted from {one.step.name}: {one.step.why}"[:500])
