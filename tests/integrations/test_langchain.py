"""A tool of LangChain under a run: the same tool for the model, and each call of it made once per slot."""

import asyncio
from collections.abc import Iterator
from datetime import date
from typing import Annotated, Any

import pytest
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import (
    BaseTool,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    Tool,
    ToolException,
    tool,
)
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, Field

from cronce import Cronce, InDoubt, Run
from cronce.errors import BadInput, SlotFailed
from cronce.integrations.langchain import once
from cronce.stores.memory import MemoryStore
from tests.integrations.agents.night import attempts, outcome


@pytest.fixture
def cron() -> Iterator[Cronce]:
    with Cronce(store=MemoryStore()) as cron:
        yield cron


def call(name: str, args: dict[str, Any], number: int) -> dict[str, Any]:
    """As a model says it: by another id each time."""
    return {"type": "tool_call", "name": name, "args": args, "id": f"call-{number}"}


def test_the_model_sees_the_same_tool(cron: Cronce) -> None:
    @tool
    def charge(customer: str, cents: int = 100) -> str:
        """Charge a customer."""
        return f"charged {customer} {cents}"

    def body(run: Run) -> None:
        guarded = once(charge, run, per="slot")
        assert isinstance(guarded, StructuredTool)
        assert convert_to_openai_tool(guarded) == convert_to_openai_tool(charge)
        assert (guarded.name, guarded.description, guarded.args) == (charge.name, charge.description, charge.args)

    attempts(cron, body, 1)


class Charge(BaseModel):
    customer: str
    cents: int = 100
    parts: dict[str, int] = {}


@pytest.mark.parametrize("schema", [None, Charge])
def test_a_call_goes_by_its_arguments_and_not_by_its_id(cron: Cronce, schema: type[BaseModel] | None) -> None:
    made: list[str] = []

    @tool(args_schema=schema)
    def charge(
        customer: str,
        cents: int = 100,
        parts: dict[str, int] = {},  # noqa: B006
        *,
        tool_call_id: Annotated[str, InjectedToolCallId],
    ) -> str:
        """Charge a customer."""
        made.append(tool_call_id)
        return f"charged {customer} {cents}"

    def body(run: Run) -> list[Any]:
        guarded = once(charge, run, per="slot")
        first = len(made)
        calls: list[dict[str, Any]] = [
            {"customer": "ada"},
            {"cents": 100, "customer": "ada"},
            {"customer": "ada", "cents": 200, "parts": {"a": 150, "b": 50}},
            {"customer": "ada", "cents": 200, "parts": {"b": 50, "a": 150}},
        ]
        return [guarded.invoke(call("charge", args, first + place)) for place, args in enumerate(calls)]

    first, second = attempts(cron, body)
    assert [message.content for message in first] == ["charged ada 100"] * 2 + ["charged ada 200"] * 2
    assert [message.content for message in second] == [message.content for message in first]
    assert [message.tool_call_id for message in second] == ["call-2", "call-3", "call-4", "call-5"]  # the model's own
    assert made == ["call-0", "call-2"]


def test_what_is_injected_into_a_call_does_not_tell_it_apart(cron: Cronce) -> None:
    made: list[int] = []

    @tool
    def charge(customer: str, state: Annotated[dict[str, int], InjectedToolArg]) -> str:
        """Charge a customer, knowing the state of a graph."""
        made.append(state["turn"])
        return f"charged {customer} at {state['turn']}"

    def body(run: Run) -> list[Any]:
        return [once(charge, run, per="slot").invoke({"customer": "ada", "state": {"turn": turn}}) for turn in (1, 2)]

    assert attempts(cron, body, 1) == [["charged ada at 1", "charged ada at 1"]]
    assert made == [1]


class Order(BaseModel):
    day: date
    number: int = Field(alias="no")

    model_config = {"populate_by_name": True}


class ByClass(BaseTool):
    name: str = "order"
    description: str = "Order something."
    args_schema: type[BaseModel] = Order
    response_format: Any = "content_and_artifact"
    made: list[int] = Field(default_factory=list)

    def _run(self, day: date, number: int, config: RunnableConfig) -> tuple[str, list[int]]:
        self.made.append(number)
        return f"ordered {number} for {day}", [number]


@pytest.mark.parametrize("awaited", [False, True])
def test_a_tool_of_any_class_is_guarded_awaited_or_not(cron: Cronce, awaited: bool) -> None:
    order = ByClass()

    def body(run: Run) -> list[Any]:
        guarded = once(order, run, per="slot")
        asked = [call("order", {"day": "2026-03-29", "no": number}, number) for number in (1, 2)]
        return [asyncio.run(guarded.ainvoke(one)) if awaited else guarded.invoke(one) for one in asked]

    first, second = attempts(cron, body)
    assert order.made == [1, 2]
    assert [(one.content, one.artifact) for one in first] == [
        ("ordered 1 for 2026-03-29", [1]),
        ("ordered 2 for 2026-03-29", [2]),
    ]
    assert [(one.content, one.artifact) for one in second] == [(one.content, one.artifact) for one in first]


@pytest.mark.parametrize("awaited", [False, True])
def test_a_call_that_is_passed_over_returns_nothing(cron: Cronce, awaited: bool) -> None:
    class Failing(ByClass):
        def _run(self, day: date, number: int, config: RunnableConfig) -> tuple[str, list[int]]:
            super()._run(day, number, config)
            raise TimeoutError("no answer")

    order, asked = Failing(), call("order", {"day": "2026-03-29", "no": 1}, 1)

    def body(run: Run) -> Any:
        guarded = once(order, run, per="slot", unsure="skip")
        return asyncio.run(guarded.ainvoke(asked)) if awaited else guarded.invoke(asked)

    assert [(one.content, one.artifact) for one in attempts(cron, body)] == [("", None), ("", None)]
    assert order.made == [1]


def test_a_tool_of_one_text_is_guarded(cron: Cronce) -> None:
    made: list[str] = []

    def look_up(text: str) -> str:
        made.append(text)
        return text.upper()

    plain = Tool(name="search", func=look_up, description="Search.")
    assert attempts(cron, lambda run: [once(plain, run, per="slot").run(text) for text in ("a", "b")]) == [
        ["A", "B"],
        ["A", "B"],
    ]
    assert made == ["a", "b"]


def test_a_call_that_failed_is_in_doubt_even_if_the_agent_goes_on(cron: Cronce) -> None:
    @tool
    def pay(cents: int) -> str:
        """Pay."""
        raise TimeoutError("no answer")

    def body(run: Run) -> None:
        with pytest.raises(InDoubt, match="TimeoutError: no answer"):
            once(pay, run, per="slot").invoke({"cents": 5})

    with pytest.raises(SlotFailed, match="TimeoutError: no answer"):
        attempts(cron, body, 1)
    assert outcome(cron) == "unknown"


def test_what_surely_did_not_happen_is_told_to_the_model_and_may_be_tried_again(cron: Cronce) -> None:
    made: list[int] = []

    @tool
    def pay(cents: int) -> str:
        """Pay."""
        made.append(cents)
        if len(made) == 1:
            raise ToolException("the bank is closed")
        return "paid"

    pay.handle_tool_error = True

    def body(run: Run) -> list[Any]:
        guarded = once(pay, run, per="slot", not_done=ToolException)
        return [guarded.invoke({"cents": 5}) for _ in range(3)]

    assert attempts(cron, body, 1) == [["the bank is closed", "paid", "paid"]]
    assert made == [5, 5]
    assert outcome(cron) == "succeeded"


def test_what_cannot_be_meant_is_refused(cron: Cronce) -> None:
    @tool
    def odd(what: object) -> str:
        """Do something with anything."""
        return "done"

    def body(run: Run) -> None:
        with pytest.raises(BadInput, match="not a LangChain tool; make it one with @tool"):
            once(print, run, per="slot")  # type: ignore[type-var]
        with pytest.raises(BadInput, match="a tool needs the run that its job function gets"):
            once(odd, "night")  # type: ignore[arg-type]

    attempts(cron, body, 1)
