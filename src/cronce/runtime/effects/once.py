"""One effect: record that it begins, do it, record that it is done, and its result.

*Begun, then done.* Before the function is called, the store records that it begins; afterwards, what it returned. So a
repeat finds one of three: no record, and calls the function; a result, and returns that; or a record that it was begun,
by a process that is gone. The last is the doubtful case, which no lock and no retry can decide: the function may have
done its work or not. It is never taken for either. What follows is the caller's `unsure`:

* *raise*: nothing is done before a person has looked (`InDoubt`).
* *retry*: it is done again, because the other side knows its key and does not do it twice.
* *skip*: it is passed over.

*An exception is doubt, too.* A payment that timed out may have been made. Only `not_done` exceptions, as the caller
declares them, are taken to mean that nothing happened.

*Lost replies.* The record of the begin is read again, and the record of the end is written again, for as long as the
lease can be trusted. An outage that is shorter leaves no doubt.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, Protocol

from cronce.errors import BadInput, CronceError, InDoubt, InProgress, LeaseLost, NotRecorded, StoreUnavailable
from cronce.model import Cell, Instant, Mark
from cronce.policy import WhenUnsure, check_choice
from cronce.protocol.codec import changed_by_json, json_text, readable
from cronce.protocol.commands import Closed, Early, Finish, Finished, Held, Release, Released, Resolve, Stale, Unsure
from cronce.protocol.record import UNSAYABLE, Maker, Outcome, Record, decode
from cronce.runtime.attempt import describe
from cronce.runtime.flow import Flow
from cronce.runtime.guard import NothingRan
from cronce.runtime.ledger import Begin, Begun, Grant, Ledger
from cronce.runtime.log import LOGGER
from cronce.runtime.steps import BodyStep, Steps, StoreStep, WaitStep
from cronce.runtime.unfinished import ResultNotKept, Unfinished
from cronce.value import NamedTuple

FIRST_RETRY: Final = 0.05
MAX_RETRY: Final = 5.0
"""Seconds until a store that did not answer is asked again; each time for twice as long."""


Word = tuple[Grant, Finish | Release]
"""What is written about an effect that was begun."""


class EffectPolicy(NamedTuple):
    """What to do when it is not known whether it happened, and after which exceptions it surely did not."""

    unsure: WhenUnsure = "raise"
    not_done: tuple[type[BaseException], ...] = ()


def checked_how(unsure: WhenUnsure, not_done: Any) -> EffectPolicy:
    check_choice("unsure", unsure, WhenUnsure)
    kinds = tuple(not_done) if isinstance(not_done, tuple | list | set) else (not_done,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        raise BadInput(
            f"not_done is an exception class or a tuple of them, such as (ConnectionRefusedError,), not {not_done!r}"
        )
    return EffectPolicy(unsure, kinds)


class Effect(NamedTuple):
    """What is to be done once: what people call it, how it is begun, and what does it."""

    name: str
    begin: Begin
    work: Callable[[], Any]


class EffectLease(Protocol):
    """What an effect is made under: a run's lease, or one of its own."""

    @property
    def ledger(self) -> Ledger: ...

    @property
    def trusted(self) -> bool:
        """For as long as this is so, a store that does not answer is asked again."""

    @property
    def stopped(self) -> str:
        """Why what runs under it is stopped from outside, if it is."""

    def check(self) -> None: ...

    def hold(self, grant: Grant, body: BodyStep) -> None:
        """It was granted, and is about to be done."""

    def let_go(self, grant: Grant) -> Grant:
        """It is over: the grant to record the end with."""

    @property
    def unfinished(self) -> Unfinished:
        """What its run remembers of effects that are not done; of one outside of a run it is never read."""


def once(effect: Effect, how: EffectPolicy, under: EffectLease) -> Steps[Any]:
    """Do it, unless it was done; returns its result, also on a repeat."""
    _, (begun,) = yield from exchange((), [effect.begin], how.unsure, under)
    grant = begun.answer
    if not isinstance(grant, Grant):
        return known(effect.name, begun, how, under)
    word = yield from performed(effect.name, effect.work, grant, how, under)
    if word is None:
        return None
    yield from say(effect.name, [word], under)
    return returned(effect.name, word[1])


def performed(
    name: str, work: Callable[[], Any], grant: Grant, how: EffectPolicy, under: EffectLease
) -> Steps[tuple[Grant, Finish] | None]:
    """Do it. Returns what to record of it; None where it is skipped."""
    call = _Call(work)
    body = BodyStep(call)
    under.hold(grant, body)
    try:
        under.check()
        result = yield body
    except GeneratorExit:  # the caller gave up these steps: it stays begun, and in doubt
        under.let_go(grant)
        raise
    except BaseException as error:
        yield from failed(name, under.let_go(grant), error, how, under, called=call.made)
        return None
    return done(result, under.let_go(grant))


class _Call:
    """A call of a function, and whether it was made. An exception of the function that would end a generator is
    replaced."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work, self.made = work, False

    def __call__(self) -> Any:
        self.made = True
        try:
            return self._work()
        except (GeneratorExit, StopIteration) as error:
            raise RuntimeError(f"the step raised {type(error).__name__}") from error


# --- beginning ------------------------------------------------------------------------------------------------------


def exchange(
    words: Sequence[Word], begins: Sequence[Begin], unsure: WhenUnsure, under: EffectLease
) -> Steps[tuple[list[Any], list[Begun]]]:
    """Record what is over, and begin effects, all in one call unless some are in doubt. What got no answer is begun
    again, by the same nonce."""
    said, begun = yield StoreStep(_exchanged(under.ledger, words, begins, unsure))
    pause = FIRST_RETRY
    while (places := [place for place, one in enumerate(begun) if _got_no_answer(one)]) and under.trusted:
        yield WaitStep(pause, in_hand=True)
        pause = min(2 * pause, MAX_RETRY)
        _, again = yield StoreStep(_exchanged(under.ledger, (), [begins[place] for place in places], unsure))
        begun = _put(begun, places, again)
    return said, begun


def _exchanged(
    ledger: Ledger, words: Sequence[Word], begins: Sequence[Begin], unsure: WhenUnsure
) -> Flow[tuple[list[Any], list[Begun]]]:
    said, begun = yield from ledger.exchange_effects(words, begins)
    return said, (yield from _settled(ledger, begins, begun, unsure))


def _got_no_answer(begun: Begun) -> bool:
    return isinstance(begun.answer, Unsure) and begun.answer.passing


def _settled(ledger: Ledger, begins: Sequence[Begin], begun: list[Begun], unsure: WhenUnsure) -> Flow[list[Begun]]:
    """What was begun by a run that is over is in doubt; what is in doubt and may be done again is begun again, but not
    beside a run that is still at it: a store that lost data puts that in doubt, too."""
    begun = yield from _ask_of_other_runs(ledger, begins, begun)
    doubtful = [place for place, one in enumerate(begun) if _is_doubtful(one)]
    if unsure != "retry" or not doubtful:
        return begun
    others = {place: maker for place in doubtful if (maker := _other_run(begins[place], begun[place]))}
    over = yield from _over(ledger, others.values())
    doubtful = [place for place in doubtful if place not in others or others[place] in over]
    yield from ledger.resolve_effects([begins[place].key for place in doubtful], Resolve("retry", "unsure='retry'"))
    _, again = yield from ledger.exchange_effects((), [begins[place] for place in doubtful])
    return _put(begun, doubtful, again)


def _ask_of_other_runs(ledger: Ledger, begins: Sequence[Begin], begun: list[Begun]) -> Flow[list[Begun]]:
    """An effect may be at another run: of the same slot by hand or, where it is on a thing, of any slot and job. Is
    that run over?"""
    held = [place for place, one in enumerate(begun) if isinstance(one.answer, Held)]
    others = {place: maker for place in held if (maker := _other_run(begins[place], begun[place]))}
    if not others:
        return begun
    over = yield from _over(ledger, others.values())
    _, again = yield from ledger.exchange_effects((), [begins[place]._replace(over=over) for place in others])
    return _put(begun, list(others), again)


def _over(ledger: Ledger, runs: Iterable[Maker]) -> Flow[frozenset[Maker]]:
    """Those of the runs that work on nothing any more."""
    makers = sorted(set(runs))
    if not makers:
        return frozenset()
    loaded, _ = yield from ledger.client.load([maker.run for maker in makers])
    found = {maker: whereabouts(run, maker, loaded.now) for maker, run in zip(makers, loaded.cells, strict=True)}
    lapsed = [maker.run for maker, where in found.items() if where == "lapsed"]
    gone = {(cell.key, cell.fence) for cell in ((yield from ledger.gone(lapsed)) if lapsed else ())}
    return frozenset(maker for maker, where in found.items() if where == "over" or (*maker,) in gone)


def _other_run(begin: Begin, begun: Begun) -> Maker | None:
    """The run that began it, unless that is the same."""
    maker = begun.record.under if begun.record else None
    mine = begin.under.key if begin.under else ""
    return maker if maker is not None and maker.run != mine else None


def _put(into: list[Begun], places: Sequence[int], news: Sequence[Begun]) -> list[Begun]:
    new = dict(zip(places, news, strict=True))
    return [new.get(place, one) for place, one in enumerate(into)]


def _is_doubtful(begun: Begun) -> bool:
    return isinstance(begun.answer, Closed) and begun.answer.outcome.is_doubt


def known(name: str, begun: Begun, how: EffectPolicy, under: EffectLease) -> Any:
    """The recorded result; or what is to be raised where there is none."""
    match begun.answer:
        case Closed(outcome) if outcome.is_success:
            assert begun.record is not None
            return returned(name, begun.record)
        case Closed(_, _) if how.unsure == "skip":
            return None
        case Closed(_, reason):
            doubt = InDoubt(name, reason)
            under.unfinished.doubt(doubt)
            raise doubt
        case Held(by, until):
            raise InProgress(name, by, None if begun.record and begun.record.under else until)
        case Early(until):
            raise InProgress(name, "", until)
        case Stale():
            raise LeaseLost(f"{name} was not begun: the lease of its run has lapsed", name=name)
        case Unsure(why, error):
            raise error or StoreUnavailable(f"{name} was not begun: {why}")
        case answer:
            raise AssertionError(f"{answer} is no answer to an effect")


# --- ending ---------------------------------------------------------------------------------------------------------


def done(result: Any, grant: Grant) -> tuple[Grant, Finish]:
    """What to record of an effect that is done. It is done whatever it returned: for a result that cannot be kept, the
    record holds a note instead."""
    try:
        text = json_text("a result", result)
        odd = changed_by_json(result, text)
        return grant, Finish(grant.fence, Outcome.SUCCEEDED, f"{UNSAYABLE}{odd}" if odd else "", result=text)
    except BadInput as trouble:
        return grant, Finish(grant.fence, Outcome.SUCCEEDED, f"{UNSAYABLE}{trouble}"[:500])


def returned(name: str, word: Finish | Record) -> Any:
    """The result. One that could not be kept is an error each time: a repeat cannot return it, either."""
    if word.reason.startswith(UNSAYABLE):
        why = word.reason.removeprefix(UNSAYABLE)
        raise ResultNotKept(
            f"{name} is done, but its result cannot be stored for a retry: {why}. Return a value that JSON can"
            " hold, such as an id, or nothing"
        )
    return json.loads(word.result) if word.result else None


def failed(
    name: str, grant: Grant, error: BaseException, how: EffectPolicy, under: EffectLease, *, called: bool = True
) -> Steps[None]:
    """Record the failure, and raise what the caller shall see: nothing if the effect is to be skipped. An exception
    that stops a job function from outside is raised unchanged."""
    surely = not called or isinstance(error, (*how.not_done, NothingRan))
    outcome = Outcome.FAILED if surely else Outcome.UNKNOWN
    why = describe(error) if isinstance(error, Exception) else f"it was stopped: {under.stopped or describe(error)}"
    try:
        yield from say(name, [(grant, Finish(grant.fence, outcome, why))], under)
    except CronceError as trouble:
        error.add_note(f"and that could not be recorded: {trouble}")
    doubt = InDoubt(name, why)
    if how.unsure == "raise" and not surely:
        under.unfinished.doubt(doubt)
    if surely or how.unsure == "retry" or not isinstance(error, Exception):
        raise error
    if how.unsure == "raise":
        raise doubt from error
    LOGGER.warning("%s is skipped, and it is not known whether it happened: %s", name, why)


def say(name: str, words: Sequence[Word], under: EffectLease) -> Steps[None]:
    """Put it on record; again and again while the lease can be trusted."""
    pause = FIRST_RETRY
    while True:
        answers, _ = yield StoreStep(under.ledger.exchange_effects(words))
        unsure = heard(name, words, answers, patient=under.trusted)
        if not unsure:
            return
        words = unsure
        yield WaitStep(pause, in_hand=True)
        pause = min(2 * pause, MAX_RETRY)


def heard(name: str, words: Sequence[Word], answers: Sequence[Any], *, patient: bool) -> list[Word]:
    """Those that the store did not confirm as recorded."""
    unsure: list[Word] = []
    for word, answer in zip(words, answers, strict=True):
        match answer:
            case Finished() | Released():
                pass
            case Unsure() if patient and answer.passing:
                unsure.append(word)
            case Unsure(why):
                raise NotRecorded(f"{name} has ended, but that could not be recorded: {why}")
            case _:
                raise LeaseLost(f"{name} has ended, but it was already recorded as in doubt", name=name)
    return unsure


# --- who began it ---------------------------------------------------------------------------------------------------

Whereabouts = Literal["at it", "lapsed", "over"]


def whereabouts(run: Cell, maker: Maker, now: Instant) -> Whereabouts:
    """Whether the run still works on it. A run that a newer cronce recorded may."""
    record = readable(run, decode)
    has_ended = record is not None and not record.is_running
    if run.mark is not Mark.OPEN or run.fence != maker.fence or has_ended:
        return "over"
    return "lapsed" if run.until is not None and run.until <= now else "at it"
