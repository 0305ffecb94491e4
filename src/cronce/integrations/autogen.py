"""AutoGen: a tool whose calls are effects of a run, each made once."""

from collections.abc import Mapping
from typing import Any, Unpack

from cronce.errors import BadInput
from cronce.integrations.tools import Calls, ToolPolicies
from cronce.runtime.run import Run

try:
    from autogen_core import CancellationToken
    from autogen_core.tools import BaseTool
    from pydantic import BaseModel
except ImportError as missing:
    raise BadInput("cronce.integrations.autogen needs autogen-core: pip install 'cronce[autogen]'") from missing

AnyTool = BaseTool[Any, Any]


def once(tool: AnyTool, run: Run, **how: Unpack[ToolPolicies]) -> AnyTool:
    """The same tool, for a model and for an agent; the same call is made once, whoever repeats it: once for the slot
    (`per="slot"`), or once for a thing, whichever slot reaches it (`on="invoice", key=lambda invoice: invoice`).

    `key` is a function of the tool's arguments, `unsure` and `not_done` are as in `run.once`.
    """
    if not isinstance(tool, BaseTool):
        raise BadInput(f"{tool!r:.60} is not an AutoGen tool; wrap it in FunctionTool")
    return _Once(tool, Calls(run, tool.name, how))


class _Once(BaseTool[BaseModel, Any]):
    def __init__(self, tool: AnyTool, calls: Calls) -> None:
        strict = bool(tool.schema.get("strict"))
        super().__init__(tool.args_type(), tool.return_type(), tool.name, tool.description, strict)
        self._tool, self._calls = tool, calls

    async def run(self, args: BaseModel, cancellation_token: CancellationToken) -> Any:
        async def call() -> Any:
            result = await self._tool.run(args, cancellation_token)
            return result.model_dump(mode="json") if isinstance(result, BaseModel) else result

        result, kind = await self._calls.once_async((), dict(args), call), self.return_type()
        if result is None or not (isinstance(kind, type) and issubclass(kind, BaseModel)):
            return result
        return kind.model_validate(result)

    async def save_state_json(self) -> Mapping[str, Any]:
        return await self._tool.save_state_json()

    async def load_state_json(self, state: Mapping[str, Any]) -> None:
        await self._tool.load_state_json(state)
