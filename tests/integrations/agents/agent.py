"""A process with a nightly agent: whoever is late stands by, and takes over from the dead. Run as a script.

The model is a script, and asks in words and by ids that are never the same. It is paid, like the tools.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
)
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, tool

from cronce import Cronce, Run, Skipped
from cronce.integrations.langchain import once
from tests.integrations.agents.market import pay
from tests.integrations.agents.night import SLOT

ASKED = HumanMessage("Bill the customers, and tell the boss.")
PLAN: list[tuple[str, dict[str, Any]]] = [
    ("search", {"text": "who is to pay"}),
    ("charge", {"customer": "ada", "cents": 500}),
    ("mail", {"to": "boss"}),
]

cron = Cronce()


class Scripted(BaseChatModel):
    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        pay("thought")
        done = sum(isinstance(message, ToolMessage) for message in messages)
        calls = [{"name": name, "args": args, "id": uuid4().hex} for name, args in PLAN[done : done + 1]]
        said = AIMessage(f"I think {uuid4().hex}", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=said)])

    @property
    def _llm_type(self) -> str:
        return "scripted"


def tools(run: Run) -> list[BaseTool]:
    @tool
    def search(text: str) -> str:
        """Search."""
        return pay("search")

    @tool
    def charge(customer: str, cents: int) -> str:
        """Charge a customer, by a key that the bank knows."""
        return pay("charge", run.key_of(f"charge:{customer}", per="slot"))

    @tool
    def mail(to: str) -> str:
        """Write to somebody."""
        return pay("mail")

    return [once(search, run, per="slot"), once(charge, run, per="slot", unsure="retry"), once(mail, run, per="slot")]


@cron.job(name="plain", on_lost="rerun", lease="3s")
def plain(run: Run) -> list[str]:
    """No framework: a loop. A thought is a step, like a call of a tool, or a second attempt would pay for it again."""
    model, by_name = Scripted(), {one.name: one for one in tools(run)}
    messages: list[BaseMessage] = [ASKED]

    def think() -> Any:
        return messages_to_dict([model.invoke(messages)])

    while True:
        (said,) = messages_from_dict(run.once(f"thought-{len(messages)}", think, per="slot"))
        messages.append(said)
        assert isinstance(said, AIMessage)
        if not said.tool_calls:
            return [str(message.content) for message in messages if isinstance(message, ToolMessage)]
        messages += [by_name[call["name"]].invoke(call) for call in said.tool_calls]


@cron.job(name="graph", on_lost="rerun", lease="3s")
def graph(run: Run) -> list[str]:
    """LangGraph keeps the thoughts: the slot is its thread, and what a step brought is on disk before the next."""
    from langgraph.graph import START, MessagesState, StateGraph  # noqa: PLC0415
    from langgraph.prebuilt import ToolNode, tools_condition  # noqa: PLC0415

    from tests.integrations.agents.saver import FileSaver  # noqa: PLC0415

    def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [Scripted().invoke(state["messages"])]}

    plan = StateGraph(MessagesState)
    plan.add_node("think", think)
    plan.add_node("tools", ToolNode(tools(run)))
    plan.add_edge(START, "think")
    plan.add_conditional_edges("think", tools_condition)
    plan.add_edge("tools", "think")
    agent = plan.compile(checkpointer=FileSaver(Path(os.environ["NIGHT"]) / "checkpoints", fatal="mail"))
    config: Any = {"configurable": {"thread_id": run.key}}
    begun = bool(agent.get_state(config).next)
    last = agent.invoke(None if begun else {"messages": [ASKED]}, config, durability="sync")
    return [str(message.content) for message in last["messages"] if isinstance(message, ToolMessage)]


def main(markets: dict[str, str]) -> None:
    """Three processes for each kind of agent, at the same time. All import what they need once."""
    if "graph" in markets:
        import langgraph.prebuilt  # noqa: F401, PLC0415
    kinds = {}
    for name, market in markets.items():
        for _ in range(3):
            if pid := os.fork():
                kinds[pid] = name
            else:
                os.environ["MARKET"] = market
                night(name)
                sys.stdout.flush()
                os._exit(0)
    ends = [os.wait() for _ in kinds]
    for name in markets:
        print(name, sorted(os.waitstatus_to_exitcode(status) for pid, status in ends if kinds[pid] == name))


def night(name: str) -> None:
    job = {"plain": plain, "graph": graph}[name].at(SLOT)
    while isinstance(answer := job(), Skipped) and answer.kind == "held":
        time.sleep(0.2)
    print(name, answer.reason if isinstance(answer, Skipped) else answer)


if __name__ == "__main__":
    main(dict(word.split("=", 1) for word in sys.argv[1:]))
