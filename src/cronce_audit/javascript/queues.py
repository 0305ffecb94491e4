"""Repeatable jobs of Bull and BullMQ, which stay in Redis until they are removed."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from cronce_audit.grammars import column, line, text, within
from cronce_audit.javascript.code import MADE, Code, Origin, arguments, entries
from cronce_audit.javascript.facts import Repeatable

if TYPE_CHECKING:
    from tree_sitter import Node

MENTIONS: Final = re.compile(r"""['"]bull(?:mq)?['"]""")
_ADDS: Final = frozenset({
    Origin("bullmq", ("Queue", MADE, "add")), Origin("bull", ("Queue", MADE, "add")), Origin("bull", (MADE, "add"))
})  # fmt: skip
_REMOVALS: Final = re.compile(r"removeRepeatable|removeJobScheduler|removeRepeatableByKey|obliterate")


def repeatables(code: Code) -> Iterator[Repeatable]:
    """`queue.add(name, data, {repeat: {pattern}})`; none where the file also removes such jobs."""
    if _REMOVALS.search(code.source.text):
        return
    for call in within(code.root, "call_expression"):
        function = call.child_by_field_name("function")
        told = arguments(call)
        if function is None or code.origin(function) not in _ADDS or len(told) < 3:
            continue
        name, pattern = code.literal(told[0]), _pattern(code, told[2])
        if name and pattern:
            queue = text(function.child_by_field_name("object"))
            yield Repeatable(queue, name, pattern, code.source.place(line(call), column(call)))


def _pattern(code: Code, options: "Node") -> str | None:
    """The cron expression; a job id of its own makes a repeatable of its own."""
    told = entries(options)
    repeat = entries(told.get("repeat"))
    if "jobId" in told or {"key", "jobId"} & set(repeat):
        return None
    pattern = code.literal(repeat.get("pattern") or repeat.get("cron"))
    return pattern or (text(repeat["every"]) if "every" in repeat else None)
