"""LangChain and LangGraph: a tool whose calls are effects of a run, each made once."""

from functools import wraps
from typing import Any, Final, TypeVar, Unpack

from cronce.errors import BadInput
from cronce.integrations.tools import Calls, ToolPolicies
from cronce.runtime.run import Run

try:
    from langchain_core.tools import BaseTool
    from langchain_core.utils.pydantic import get_fields
except ImportError as missing:
    raise BadInput("cronce.integrations.langchain needs langchain-core: pip install 'cronce[langchain]'") from missing

T = TypeVar("T", bound=BaseTool)

PASSED_BY_LANGCHAIN: Final = frozenset({"config", "run_manager", "callbacks"})
"""Arguments by which LangChain passes its own objects."""


def once(tool: T, run: Run, **how: Unpack[ToolPolicies]) -> T:
    """The same tool, for a model and for an agent; the same call is made once, whoever repeats it: once for the slot
    (`per="slot"`), or once for a thing, whichever slot reaches it (`on="invoice", key=lambda invoice: invoice`).

    `key` is a function of the arguments that the model gives, `unsure` and `not_done` are as in `run.once`.
    """
    if not isinstance(tool, BaseTool):
        raise BadInput(f"{tool!r:.60} is not a LangChain tool; make it one with @tool")
    calls, added = Calls(run, tool.name, how), _added(tool)

    def given(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return args, {name: value for name, value in named.items() if name not in added}

    def whole(result: Any) -> Any:
        if tool.response_format != "content_and_artifact":
            return result
        return ("", None) if result is None else tuple(result)  # there is no result of a skipped call

    @wraps(tool._run)
    def run_once(*args: Any, **named: Any) -> Any:
        return whole(calls.once(*given(args, named), lambda: tool._run(*args, **named)))

    @wraps(tool._arun)
    async def arun_once(*args: Any, **named: Any) -> Any:
        return whole(await calls.once_async(*given(args, named), lambda: tool._arun(*args, **named)))

    guarded = tool.model_copy()
    vars(guarded).update(_run=run_once, _arun=arun_once)  # the rest of a tool is what it was, whatever its class
    return guarded


def _added(tool: BaseTool) -> frozenset[str]:
    """Arguments that do not come from the model: the state of a graph, callbacks, the id of the call."""
    from_model = _fields(tool.tool_call_schema)
    return (_fields(tool.get_input_schema()) | tool._injected_args_keys | PASSED_BY_LANGCHAIN) - from_model


def _fields(schema: Any) -> frozenset[str]:
    return frozenset(schema.get("properties", ()) if isinstance(schema, dict) else get_fields(schema))
