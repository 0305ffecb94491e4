"""A tool of AutoGen under a run, called by AutoGen's own agent for a scripted model."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

import pytest
from autogen_core import AgentId, CancellationToken, FunctionCall, SingleThreadedAgentRuntime
from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage, RequestUsage, UserMessage
from autogen_core.tool_agent import ToolAgent, tool_agent_caller_loop
from autogen_core.tools import BaseToolWithState, FunctionTool, StaticWorkbench
from pydantic import BaseModel

from cronce import Cronce, Run
from cronce.errors import BadInput, SlotFailed
from cronce.integrations.autogen import once
from cronce.stores.memory import MemoryStore
from tests.integrations.agents.night import attempts, outcome


@pytest.fixture
def cron() -> Iterator[Cronce]:
    with Cronce(store=MemoryStore()) as cron:
        yield cron


class Receipt(BaseModel):
    number: int
    customer: str


class Shop:
    """What is paid, and the tools that pay."""

    def __init__(self) -> None:
        self.paid: list[str] = []

    async def charge(self, customer: str, cents: int = 100) -> Receipt:
        self.paid.append(customer)
        await asyncio.sleep(0.02)
        return Receipt(number=len(self.paid), customer=customer)

    def mail(self, text: str) -> str:
        self.paid.append(text)
        raise TimeoutError("no answer")

    def tools(self, run: Run) -> list[Any]:
        charge = FunctionTool(self.charge, "Charge a customer.", name="charge")
        return [
            once(charge, run, per="slot"),
            once(FunctionTool(self.mail, "Write.", name="mail"), run, per="slot", key=lambda **_: "once"),
        ]


class Scripted(ChatCompletionClient):
    """Charges two customers, one of them twice at once, and is done."""

    async def create(self, messages: Sequence[LLMMessage], **_: Any) -> CreateResult:
        asked: list[dict[str, Any]] = [{"customer": "ada"}, {"customer": "ada", "cents": 100}, {"customer": "bob"}]
        calls = [FunctionCall(id=uuid4().hex, name="charge", arguments=json.dumps(args)) for args in asked]
        content: Any = calls if len(messages) == 1 else "done"
        return CreateResult(finish_reason="stop", content=content, usage=RequestUsage(0, 0), cached=False)

    def create_stream(self, *args: Any, **named: Any) -> Any: ...
    async def close(self) -> None: ...
    def actual_usage(self) -> Any: ...
    def total_usage(self) -> Any: ...
    def count_tokens(self, *args: Any, **named: Any) -> Any: ...
    def remaining_tokens(self, *args: Any, **named: Any) -> Any: ...
    @property
    def capabilities(self) -> Any: ...
    @property
    def model_info(self) -> Any: ...


async def asked(tools: list[Any]) -> list[str]:
    runtime = SingleThreadedAgentRuntime()
    await ToolAgent.register(runtime, "tools", lambda: ToolAgent("tools", list(tools)))
    runtime.start()
    question: list[LLMMessage] = [UserMessage(content="charge them", source="user")]
    said = await tool_agent_caller_loop(runtime, AgentId("tools", "x"), Scripted(), question, list(tools))
    await runtime.stop()
    await runtime.close()
    return [result.content for result in said[1].content]  # type: ignore[union-attr]


def test_each_call_of_an_agent_is_made_once_per_slot(cron: Cronce) -> None:
    shop = Shop()
    first, second = attempts(cron, lambda run: asyncio.run(asked(shop.tools(run))))
    assert sorted(shop.paid) == ["ada", "bob"]
    assert first[0] == first[1]
    assert [json.loads(text)["customer"] for text in first] == ["ada", "ada", "bob"]
    assert second == first


def test_the_model_sees_the_same_tool(cron: Cronce) -> None:
    shop = Shop()

    def body(run: Run) -> None:
        strict = FunctionTool(shop.mail, "Write.", name="mail", strict=True)
        for plain in (FunctionTool(shop.charge, "Charge a customer.", name="charge"), strict):
            assert once(plain, run, per="slot").schema == plain.schema
            assert once(plain, run, per="slot").return_type() is plain.return_type()

    attempts(cron, body, 1)


def test_a_call_that_failed_is_in_doubt_even_if_the_agent_goes_on(cron: Cronce) -> None:
    shop = Shop()

    said: list[str] = []

    def body(run: Run) -> None:
        bench = StaticWorkbench(shop.tools(run))
        results = [asyncio.run(bench.call_tool("mail", {"text": text}, CancellationToken())) for text in ("a", "b")]
        assert [result.is_error for result in results] == [True, True]
        said.append(str(results[1].result[0].content))

    with pytest.raises(SlotFailed, match="nobody knows whether"):
        attempts(cron, body, 1)
    assert shop.paid == ["a"]
    assert "nobody knows whether" in said[0]
    assert outcome(cron) == "unknown"


def test_a_call_that_is_passed_over_returns_nothing(cron: Cronce) -> None:
    paid: list[str] = []

    async def charge(customer: str) -> Receipt:
        paid.append(customer)
        raise TimeoutError("no answer")

    def body(run: Run) -> Any:
        guarded = once(FunctionTool(charge, "Charge a customer."), run, per="slot", unsure="skip")
        return asyncio.run(guarded.run_json({"customer": "ada"}, CancellationToken()))

    assert attempts(cron, body) == [None, None]
    assert paid == ["ada"]


class Name(BaseModel):
    name: str


class Greeting(BaseToolWithState[Name, Name, Name]):
    """Knows whom it met last."""

    def __init__(self) -> None:
        super().__init__(Name, Name, Name, "greet", "Greet somebody.")
        self.met = "nobody"

    async def run(self, args: Name, cancellation_token: CancellationToken) -> Name:
        self.met = args.name
        return args

    def save_state(self) -> Name:
        return Name(name=self.met)

    def load_state(self, state: Name) -> None:
        self.met = state.name


def test_the_state_of_a_tool_is_saved_and_loaded(cron: Cronce) -> None:
    async def carried_over(run: Run) -> tuple[str, str]:
        first, second = Greeting(), Greeting()
        await once(first, run, per="slot").run_json({"name": "ada"}, CancellationToken())
        await once(second, run, per="slot").load_state_json(await once(first, run, per="slot").save_state_json())
        return first.met, second.met

    assert attempts(cron, lambda run: asyncio.run(carried_over(run)), 1) == [("ada", "ada")]


def test_what_is_no_tool_is_refused(cron: Cronce) -> None:
    def body(run: Run) -> None:
        with pytest.raises(BadInput, match="not an AutoGen tool; wrap it in FunctionTool"):
            once(print, run, per="slot")  # type: ignore[arg-type]

    attempts(cron, body, 1)
