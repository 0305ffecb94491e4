"""Calls of an agent's tool, whatever its framework: what tells them apart, and those that were refused."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from langchain_core.tools import (
    BaseTool,
    tool,
)

from cronce import Cronce, Run
from cronce.errors import BadInput, SlotFailed
from cronce.integrations.langchain import once
from cronce.stores.memory import MemoryStore
from tests.integrations.agents.night import attempts, outcome


@pytest.fixture
def cron() -> Iterator[Cronce]:
    with Cronce(store=MemoryStore()) as cron:
        yield cron


def test_calls_with_long_arguments_that_differ_at_the_end_are_two(cron: Cronce) -> None:
    made: list[str] = []

    @tool
    def mail(text: str) -> str:
        """Write to somebody."""
        made.append(text)
        return f"sent: {text}"

    texts = ["x" * 400 + end for end in "ab"]
    first, second = attempts(cron, lambda run: [once(mail, run, per="slot").invoke({"text": text}) for text in texts])
    assert first == second == [f"sent: {text}" for text in texts]
    assert made == texts


def test_what_a_key_makes_of_the_arguments_tells_calls_apart(cron: Cronce) -> None:
    made: list[str] = []

    @tool
    def mail(to: str, text: str) -> str:
        """Write to somebody."""
        made.append(text)
        return f"sent: {text}"

    texts = iter(["Dear Ada", "Hello Ada", "Hi"])

    def body(run: Run) -> Any:
        return once(mail, run, per="slot", key=lambda to, **_: to).invoke({"to": "ada", "text": next(texts)})

    assert attempts(cron, body, 3) == ["sent: Dear Ada"] * 3
    assert made == ["Dear Ada"]


def test_the_same_call_twice_at_the_same_time_is_made_once(cron: Cronce) -> None:
    made: list[str] = []

    @tool
    async def search(text: str) -> str:
        """Search."""
        made.append(text)
        await asyncio.sleep(0.05)
        return text.upper()

    async def both(guarded: BaseTool) -> list[Any]:
        return await asyncio.gather(*(guarded.ainvoke({"text": "a"}) for _ in range(3)))

    assert attempts(cron, lambda run: asyncio.run(both(once(search, run, per="slot"))), 1) == [["A", "A", "A"]]
    assert made == ["a"]


def refusable(made: list[int | None]) -> BaseTool:
    @tool
    def charge(invoice: int | None = None) -> str:
        """Charge an invoice."""
        made.append(invoice)
        return f"charged {invoice}"

    return charge


def test_a_call_that_was_refused_and_then_corrected_leaves_its_run_as_it_is(cron: Cronce) -> None:
    """An agent that forgot the id, read the error and called again had its slot *failed*."""
    made: list[int | None] = []

    def body(run: Run) -> None:
        guarded = once(refusable(made), run, on="invoice", key=lambda invoice=None: invoice)
        for invoice in (None, 7, None, None, 8, 9):
            with suppress(BadInput):
                guarded.invoke({"invoice": invoice})

    attempts(cron, body, 2)
    assert (made, outcome(cron)) == ([7, 8, 9], "succeeded")


@pytest.mark.parametrize("calls", [(None,), (7, None), (7, None, 7), (None, None, 7)])
def test_a_call_that_was_refused_and_never_corrected_fails_its_run(cron: Cronce, calls: tuple[int | None, ...]) -> None:
    """Each takes a call of its own that is done; a repeat of one that was done before the refusal is none."""
    made: list[int | None] = []

    def body(run: Run) -> None:
        guarded = once(refusable(made), run, on="invoice", key=lambda invoice=None: invoice)
        for invoice in calls:
            with suppress(BadInput):
                guarded.invoke({"invoice": invoice})

    told = r"ended as failed.*: a call of charge that was refused( \(2\))? is not done: BadName: None cannot be"
    with pytest.raises(SlotFailed, match=told):
        attempts(cron, body, 1)
    assert made == [7] * (7 in calls)


def test_arguments_that_are_no_json_are_a_refusal_that_its_run_remembers(cron: Cronce) -> None:
    @tool
    def odd(anything: Any) -> str:
        """Anything."""
        return "done"

    def body(run: Run) -> None:
        with pytest.raises(BadInput, match=r"the arguments of odd are not JSON .*: give key="):
            once(odd, run, per="slot").invoke({"anything": object()})

    with pytest.raises(SlotFailed, match="a call of odd that was refused is not done: BadInput: the arguments of odd"):
        attempts(cron, body, 1)
