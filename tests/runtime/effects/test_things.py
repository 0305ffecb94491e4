"""Effects on a thing: once for it, whichever slot, job or queue reaches it. On clocks that are turned by hand."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial, wraps
from typing import Any

import pytest

from cronce import Cronce
from cronce.errors import BadInput, BadName, InDoubt, InProgress
from cronce.model import Slot
from cronce.protocol.lease import Trust
from cronce.protocol.record import Outcome, decode
from cronce.runtime.attempt import Work
from cronce.runtime.call import Call
from cronce.runtime.effects.idempotent import Keyed
from cronce.runtime.effects.once import EffectPolicy
from cronce.runtime.effects.review import resolve_effect
from cronce.runtime.effects.steps import THING_KEPT
from cronce.runtime.operations import Operator
from cronce.runtime.run import Run
from cronce.runtime.steps import take_async
from tests.runtime.office import Office, dies, job, watch
from tests.runtime.shelf import START, HandClock, Wire

QUARTER = 15 * 60
EFFECT = "charge/invoice:7"
START_SLOT = Slot("billing", START)


class Boom(Exception):
    """What the other side raises, when nobody can tell whether it has charged."""


class Refused(Exception):
    """What it raises when it surely has not."""


class Bank:
    """The other side: the keys that it was asked to charge by, in order."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.act: Callable[[str], Any] = lambda key: f"paid by {key}"

    def charge(self, key: str) -> Any:
        self.keys.append(key)
        return self.act(key)

    def fails(self, error: Exception, times: int = 1) -> None:
        """So many charges end in the error."""
        left = iter(range(times))

        def act(key: str) -> str:
            if next(left, None) is not None:
                raise error
            return f"paid by {key}"

        self.act = act


@pytest.fixture
def bank() -> Bank:
    return Bank()


def charging(bank: Bank, invoice: int = 7, **how: Any) -> Callable[[Run], Any]:
    def body(run: Run) -> Any:
        thing = run.on("invoice", invoice)
        return thing.once("charge", lambda: bank.charge(thing.key_of("charge")), **how)

    return body


def say(office: Office, verdict: Any, effect: str = EFFECT, **more: Any) -> Any:
    return office.node.do(resolve_effect(Operator(office.node.ledger, "ann"), effect, verdict, force=True, **more))


def watched(store: Wire) -> Office:
    """Another process, which has looked at the store before."""
    office = Office(store)
    office.call(job("other"), lambda _run: None)
    return office


# --- once, whoever reaches it ---------------------------------------------------------------------------------------


def test_the_next_slot_does_not_do_it_again_and_gets_the_same_answer(
    office: Office, clock: HandClock, bank: Bank
) -> None:
    answers = []
    for _ in range(3):
        answers.append(office.call(job(), charging(bank)))
        clock.turn(QUARTER)
    assert (answers, bank.keys) == ([f"paid by {EFFECT}"] * 3, [EFFECT])


def test_another_job_does_not_do_it_again(office: Office, bank: Bank) -> None:
    assert [office.call(job(name), charging(bank)) for name in ("billing", "dunning")] == [f"paid by {EFFECT}"] * 2
    assert bank.keys == [EFFECT]


@pytest.mark.parametrize("first", ["run", "queue"])
def test_a_queue_and_a_job_share_it(office: Office, bank: Bank, first: str) -> None:
    """`@cron.idempotent("charge", key=lambda i: f"invoice:{i}")` is the same effect."""
    how = EffectPolicy("raise", ())
    keyed = Keyed("charge", lambda invoice: f"invoice:{invoice}", THING_KEPT, how, lambda: office.keeper)
    consume = keyed.guard(lambda _invoice: bank.charge(EFFECT))
    calls = [lambda: office.call(job(), charging(bank)), lambda: consume(7)]
    answers = [call() for call in (calls if first == "run" else reversed(calls))]
    assert (answers, bank.keys) == ([f"paid by {EFFECT}"] * 2, [EFFECT])


def test_the_key_is_the_same_in_every_attempt_slot_job_and_process(store: Wire, clock: HandClock, bank: Bank) -> None:
    bank.fails(Boom("timed out"), times=3)
    for name in ("billing", "billing", "dunning"):
        with pytest.raises(Boom):
            Office(store).call(job(name, retries=1, backoff="1s"), charging(bank, unsure="retry"))
        clock.turn(QUARTER)
    assert Office(store).call(job("dunning"), charging(bank, unsure="retry")) == f"paid by {EFFECT}"
    assert bank.keys == [EFFECT] * 4


def test_it_costs_two_calls_of_the_store_and_its_key_none(office: Office, bank: Bank) -> None:
    def body(run: Run) -> list[str]:
        office.store.calls.clear()
        charging(bank)(run)
        return list(office.store.calls)

    assert office.call(job(), body) == ["swap", "swap"]


def test_before_it_is_begun_its_key_is_asked_of_the_store(office: Office) -> None:
    def body(run: Run) -> Any:
        thing = run.on("invoice", 7)
        return thing.key_of("charge"), thing.headers("charge")["Idempotency-Key"], len(office.store.calls)

    assert office.call(job(), body)[:2] == (EFFECT, EFFECT)


def test_on_an_event_loop(office: Office) -> None:
    done: list[str] = []

    async def charge(what: str) -> str:
        done.append(what)
        return what

    async def body(run: Run) -> list[str]:
        return [await run.on("invoice", 7).once("charge", charge, "it") for _ in range(2)]

    call = Call(office.keeper, job(), Work(body, is_async=True))
    assert asyncio.run(take_async(call.steps(None), office.node)) == ["it", "it"]
    assert done == ["it"]


def _each(each: Callable[..., Any], run: Run) -> Any:
    return each(run, range(150))


def test_many_at_once(office: Office, clock: HandClock) -> None:
    done: Counter[int] = Counter()

    def charge(invoice: int) -> int:
        done[invoice] += 1
        return invoice

    for unsure in ("raise", "retry", "skip", "retry"):
        each = partial(Run.once_each, on="invoice", key=lambda i: i, what="charge", fn=charge, unsure=unsure)
        assert office.call(job(), partial(_each, each)) == list(range(150))
        clock.turn(QUARTER)
    assert done == dict.fromkeys(range(150), 1)


# --- the doubt of one slot is there for the next --------------------------------------------------------------------


def unpaid(bank: Bank, seen: list[str]) -> Callable[[Run], None]:
    """A loop over invoices that goes on past what is in doubt."""

    def body(run: Run) -> None:
        for invoice in (1, 2, 3):
            try:
                charging(bank, invoice)(run)
            except InDoubt as doubt:
                seen.append(f"{run.at:%H:%M} {doubt.name}")

    return body


def test_what_is_in_doubt_stops_the_next_slot_too_until_a_person_has_looked(
    office: Office, clock: HandClock, bank: Bank
) -> None:
    """Of the issue: invoice 3 was in doubt in slot 1, and slot 2 charged it, without anybody having looked."""

    def act(key: str) -> str:
        if key.endswith(":2"):
            raise Boom("timed out")
        return key

    seen: list[str] = []
    slots: list[Slot] = []
    bank.act = act
    for _ in range(3):
        slots.append(Slot("billing", clock.wall()))
        office.call_failing(job(), unpaid(bank, seen))
        clock.turn(QUARTER)
    assert bank.keys == ["charge/invoice:1", "charge/invoice:2", "charge/invoice:3"]
    assert seen == [f"{when} charge/invoice:2" for when in ("12:00", "12:15", "12:30")]
    assert [office.record(slot).outcome for slot in slots] == [Outcome.UNKNOWN] * 3
    say(office, "done", "charge/invoice:2", result="by hand")
    assert office.call(job(), charging(bank, 2)) == "by hand"
    assert len(bank.keys) == 3


@pytest.mark.parametrize(("verdict", "charges"), [("done", 1), ("retry", 2)])
def test_a_run_that_died_leaves_a_doubt_to_all_slots_and_jobs(
    store: Wire, clock: HandClock, bank: Bank, verdict: str, charges: int
) -> None:
    dead, other = Office(store), watched(store)
    bank.act = lambda _key: dies(dead)
    with suppress(Exception):
        dead.call(job(lease="10s"), charging(bank))
    watch(other, 12)
    clock.turn(QUARTER)
    bank.act = lambda key: f"paid by {key}"
    for name in ("billing", "dunning"):
        with pytest.raises(InDoubt, match=f"nobody knows whether {EFFECT} happened: its run at web-"):
            other.call(job(name, lease="10s"), charging(bank))
    clock.turn(QUARTER)
    say(other, verdict)
    other.call(job("dunning", lease="10s"), charging(bank))
    assert bank.keys == [EFFECT] * charges


@pytest.mark.parametrize("lasts", [True, False])
def test_while_another_run_is_at_it_it_is_in_progress_and_when_that_is_gone_in_doubt(
    store: Wire, bank: Bank, lasts: bool
) -> None:
    first, other = Office(store), watched(store)

    def charge(_key: str) -> str:
        bank.act = lambda _key: "twice"
        with pytest.raises(InProgress, match=f"{EFFECT} is in progress at web-"):
            other.call(job("dunning"), charging(bank))
        if not lasts:
            dies(first)
        return "paid"

    bank.act = charge
    with suppress(Exception):
        first.call(job(lease="10s"), charging(bank))
    watch(other, 12)
    if lasts:
        assert other.call(job("reminding"), charging(bank)) == "paid"
    else:
        with pytest.raises(InDoubt):  # nobody has settled the run: its lease is over, and that was watched
            other.call(job("reminding"), charging(bank))
    assert len(bank.keys) == 1


def test_a_consumer_of_a_queue_finds_the_doubt_of_a_run(store: Wire, bank: Bank) -> None:
    dead, other = Office(store), watched(store)
    bank.act = lambda _key: dies(dead)
    with suppress(Exception):
        dead.call(job(lease="10s"), charging(bank))
    keyed = Keyed(
        "charge", lambda invoice: f"invoice:{invoice}", THING_KEPT, EffectPolicy("raise", ()), lambda: other.keeper
    )
    consume = keyed.guard(lambda _invoice: bank.charge("again"))
    with pytest.raises(InProgress):
        consume(7)
    watch(other, 12)
    with pytest.raises(InDoubt):
        consume(7)
    assert bank.keys == [EFFECT]


def test_what_surely_did_not_happen_is_done_by_the_next_slot(office: Office, clock: HandClock, bank: Bank) -> None:
    bank.fails(Refused())
    with pytest.raises(Refused):
        office.call(job(), charging(bank, not_done=Refused))
    clock.turn(QUARTER)
    assert office.call(job(), charging(bank, not_done=Refused)) == f"paid by {EFFECT}"
    assert bank.keys == [EFFECT] * 2


def test_what_may_be_skipped_is_passed_over_by_every_slot(office: Office, clock: HandClock, bank: Bank) -> None:
    bank.fails(Boom())
    for _ in range(2):
        assert office.call(job(), charging(bank, unsure="skip")) is None
        clock.turn(QUARTER)
    assert bank.keys == [EFFECT]


def test_done_is_known_for_400_days_and_doubt_for_ever(office: Office, clock: HandClock, bank: Bank) -> None:
    office.call(job(), charging(bank))
    bank.fails(Boom())
    with pytest.raises(InDoubt):
        office.call(job("other"), charging(bank, 8))
    clock.turn(timedelta(days=399).total_seconds())
    office.call(job(), charging(bank))
    assert bank.keys == [EFFECT, "charge/invoice:8"]
    clock.turn(timedelta(days=2).total_seconds())
    office.call(job(), charging(bank))
    assert bank.keys == [EFFECT, "charge/invoice:8", EFFECT]
    with pytest.raises(InDoubt):
        office.call(job("other"), charging(bank, 8))


# --- two effects are two --------------------------------------------------------------------------------------------


def test_two_effects_on_one_id_are_two_effects(office: Office) -> None:
    """Of the issue: `once(7, charge)`, then `once(7, mail)`, and the mail never went out."""
    done: list[str] = []

    def charge(what: str) -> None:
        done.append(f"charged {what}")

    def mail(what: str) -> None:
        done.append(f"wrote to {what}")

    def body(run: Run) -> None:
        for _ in range(2):
            run.on("customer", 7).once("charge", charge, "ada")
            run.on("customer", 7).once("mail", mail, "ada")

    office.call(job(), body)
    assert done == ["charged ada", "wrote to ada"]


def retried(fn: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(fn)
    def again(*args: Any) -> Any:
        return fn(*args)

    return again


def pay() -> None:
    """One function."""


def write() -> None:
    """Another."""


class Client:
    def pay(self) -> None:
        """A method."""

    def write(self) -> None:
        """Another."""


ANOTHER = [
    (pay, write),
    (retried(pay), retried(write)),
    (partial(pay), partial(write)),
    (Client().pay, Client().write),
    (lambda: pay(), lambda: write()),  # noqa: PLW0108
    (pay, Client),
]


@pytest.mark.parametrize(("one", "other"), ANOTHER)
@pytest.mark.parametrize("scope", ["slot", "thing", "slot each", "thing each"])
def test_another_function_under_the_same_name_in_one_run_is_an_error_that_says_so(
    office: Office, one: Any, other: Any, scope: str
) -> None:
    def call(run: Run, fn: Any) -> None:
        match scope:
            case "slot":
                run.once("p", fn, per="slot")
            case "thing":
                run.on("invoice", 7).once("p", fn)
            case "slot each":
                run.once_each(["p"], key=str, fn=fn, per="slot")
            case _:
                run.once_each([7], on="invoice", key=str, what="p", fn=fn)

    def body(run: Run) -> None:
        call(run, one)
        call(run, other)

    if scope.endswith("each"):
        one, other = (lambda _item: pay()), (lambda _item: write())
    with pytest.raises(
        BadInput, match=r"p' is already used for another function.*, so .* would be skipped: use another name"
    ):
        office.call(job(), body)


def test_the_same_function_made_anew_in_each_turn_of_a_loop_is_the_same(office: Office) -> None:
    def body(run: Run) -> int:
        for number in range(3):
            run.on("invoice", number).once("charge", lambda number=number: number)
            run.on("invoice", number).once("note", partial(Client.pay, Client()))
            run.on("invoice", number).once("file", Client().write)
        return 3

    assert office.call(job(), body) == 3


def test_two_functions_under_one_idempotent_name_are_an_error(tmp_path: Any) -> None:
    """Of the issue: the second was never called for a key that the first had."""
    with Cronce(f"sqlite:///{tmp_path}/cronce.db") as cron:
        cron.idempotent("p", key=str)(pay)
        cron.idempotent("p", key=str)(pay)  # the same again: a module that is loaded once more
        with pytest.raises(BadInput, match="the name 'p' is already used for another function"):
            cron.idempotent("p", key=str)(write)


# --- what a call has to say -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "thing", "slot"),
    [
        (
            lambda run: run.once("charge:7", pay),
            "run.on('invoice', 7).once('charge', fn, …)",
            "run.once('charge:7', fn, …, per='slot')",
        ),
        (
            lambda run: run.once("charge:7", pay, per="day"),
            "run.on('invoice', 7).once('charge', fn, …)",
            "run.once('charge:7', fn, …, per='slot')",
        ),
        (
            lambda run: run.once_each([7], key=str, fn=print),
            "run.once_each(items, on='invoice', key=…, what='charge', fn=…)",
            "run.once_each(items, key=…, fn=…, per='slot')",
        ),
        (
            lambda run: run.once_each([7], key=str, fn=print, on="invoice"),
            "run.once_each(items, on='invoice', key=…, what='charge', fn=…)",
            "run.once_each(items, key=…, fn=…, per='slot')",
        ),
        (
            lambda run: run.once_each([7], key=str, fn=print, on="invoice", what="charge", per="slot"),
            "run.once_each(items, on='invoice', key=…, what='charge', fn=…)",
            "run.once_each(items, key=…, fn=…, per='slot')",
        ),
        (
            lambda run: run.key_of("charge:7"),
            "run.on('invoice', 7).key_of('charge')",
            "run.key_of('charge:7', per='slot')",
        ),
        (
            lambda run: run.headers("charge:7"),
            "run.on('invoice', 7).headers('charge')",
            "run.headers('charge:7', per='slot')",
        ),
        (
            lambda run: run.transaction(None, "charge:7"),
            "run.on('invoice', 7).transaction(conn, 'charge')",
            "run.transaction(conn, 'charge:7', per='slot')",
        ),
    ],
)
def test_a_call_that_does_not_say_what_may_not_happen_twice_is_refused_with_both_spellings(
    office: Office, call: Callable[[Run], Any], thing: str, slot: str
) -> None:
    with pytest.raises(BadInput) as refused:
        office.call(job(), call)
    said = str(refused.value)
    assert (thing in said, slot in said, "does not say what must happen only once" in said) == (True, True, True)
    assert [key for key in office.store._cells if key.startswith(("effect/", "once/"))] == []


@pytest.mark.parametrize(
    "call",
    [
        lambda run: run.on("a:b", 7).once("charge", pay),
        lambda run: run.on("", 7).once("charge", pay),
        lambda run: run.on("an invoice", 7).once("charge", pay),
        lambda run: run.on("invoice", 7.5).once("charge", pay),
        lambda run: run.on("invoice", "").once("charge", pay),
        lambda run: run.on("invoice", "x" * 500).once("charge", pay),
        lambda run: run.on("invoice", 7).once("charge/7", pay),
        lambda run: run.on("invoice", 7).once(7, pay),
        lambda run: run.once_each([7], on="a:b", key=str, what="charge", fn=print),
        lambda run: run.once_each([7], on="invoice", key=lambda _i: 1.5, what="charge", fn=print),
    ],
)
def test_what_cannot_name_a_thing_or_what_is_done_is_refused(office: Office, call: Callable[[Run], Any]) -> None:
    with pytest.raises((BadInput, BadName)):
        office.call(job(), call)
    assert [key for key in office.store._cells if key.startswith("once/")] == []


def test_the_record_says_which_run_made_it(office: Office, bank: Bank) -> None:
    slot = office.call(job(), lambda run: (charging(bank)(run), run.slot)[1])
    (cell,) = office.store.load(["once/charge/invoice:7"]).cells
    record = decode(cell.value, cell.key)
    assert (record.under and record.under.run, cell.at, record.keep) == (slot.cell, None, THING_KEPT)


# --- a failure that nobody made anything of is no success -------------------------------------------------------------


@pytest.mark.parametrize("per", ["slot", "thing", "each"])
@pytest.mark.parametrize(
    ("how", "outcomes"),
    [
        ({"unsure": "raise"}, [Outcome.UNKNOWN]),
        ({"unsure": "retry"}, [None, None, Outcome.FAILED]),
        ({"not_done": Boom}, [None, None, Outcome.FAILED]),
        ({"unsure": "retry", "not_done": Boom}, [None, None, Outcome.FAILED]),
        ({"unsure": "skip"}, [Outcome.SUCCEEDED]),
    ],
)
def test_a_slot_with_an_effect_that_is_not_done_is_not_closed_as_succeeded_unless_it_was_skipped_on_purpose(
    office: Office, per: str, how: dict[str, Any], outcomes: list[Outcome | None]
) -> None:
    """Of the issue: a body that swallowed the error was *succeeded*, with effects in doubt or missing."""

    def fails(_invoice: int = 7) -> None:
        raise Boom("no answer")

    def body(run: Run) -> str:
        with suppress(Exception):
            if per == "slot":
                run.once("charge", fails, per="slot", **how)
            elif per == "thing":
                run.on("invoice", 7).once("charge", fails, **how)
            else:
                run.once_each([7], on="invoice", key=int, what="charge", fn=fails, **how)
        return "went on"

    declared, seen = job(retries=2, backoff="1s"), []
    for _ in outcomes:
        if how == {"unsure": "skip"}:
            assert office.call(declared, body, when=START_SLOT) == "went on"
        else:
            assert "Boom: no answer" in office.call_failing(declared, body, when=START_SLOT)
        seen.append(office.record(START_SLOT).outcome)
        office.hand.turn(60)
    assert seen == outcomes
    if outcomes[-1] is Outcome.FAILED:
        name = "billing@2026-03-29T12:00:00Z/charge" if per == "slot" else EFFECT
        assert office.record(START_SLOT).reason == f"{name} is not done: Boom: no answer"


def test_what_is_done_in_a_second_try_of_the_same_run_is_done(office: Office, bank: Bank) -> None:
    bank.fails(Refused(), times=2)

    def body(run: Run) -> Any:
        for _ in range(2):
            with suppress(Refused):
                charging(bank, not_done=Refused)(run)
        return charging(bank, not_done=Refused)(run)

    assert office.call(job(), body, when=START_SLOT) == f"paid by {EFFECT}"
    assert office.record(START_SLOT).outcome is Outcome.SUCCEEDED


def test_what_could_not_even_be_begun_is_not_done_either(office: Office) -> None:
    """Of the issue: a body that caught `LeaseLost` succeeded with the step missing."""

    def body(run: Run) -> None:
        granted = run._lease.grant
        run._lease.grant = granted._replace(trust=Trust(0.0))
        with suppress(Exception):
            run.on("invoice", 7).once("charge", pay)
        run._lease.grant = granted

    office.call_failing(job(), body, when=START_SLOT)
    record = office.record(START_SLOT)
    assert (record.outcome, record.reason.partition(":")[0]) == (Outcome.FAILED, "charge/invoice")


def test_what_another_run_is_at_is_left_to_that_one(store: Wire) -> None:
    first, other = Office(store), Office(store)

    def beside() -> None:
        with_other = other.call(job("dunning"), _caught, when=Slot("dunning", START))
        assert with_other == "in progress"

    first.call(job(), lambda run: run.on("invoice", 7).once("charge", beside))
    assert other.record(Slot("dunning", START)).outcome is Outcome.SUCCEEDED


def _caught(run: Run) -> str:
    try:
        run.on("invoice", 7).once("charge", pay)
    except InProgress:
        return "in progress"
    return "done"
