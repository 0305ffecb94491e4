"""Fixes that are certain: one word or one line, after which the job does what its author meant.

CR102: a job that has an id, and fails at the next start because it is taken, gets `replace_existing=True`.
CR103: `coalesce=False`, by which missed runs come in a burst, becomes True.
CR501: a CronJob whose runs may overlap gets `concurrencyPolicy: Forbid`.
"""

import ast
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from cronce_audit.model import Finding

_POLICY: Final = re.compile(r"(?P<before>\s*concurrencyPolicy:\s*)[\"']?Allow[\"']?(?P<behind>\s*(?:#.*)?)")
_SCHEDULE: Final = re.compile(r"(?P<indent>\s*)schedule:\s*[^|>\s].*")

Fix = Callable[[str, Finding], str | None]


def mend(root: Path, findings: Sequence[Finding]) -> list[Finding]:
    """Change the files, from the last line to the first. Returns what was fixed."""
    mended = []
    for finding in sorted(findings, key=lambda one: one.order, reverse=True):
        fix = FIXES.get(finding.rule)
        path = root / finding.place.path
        before = path.read_text(encoding="utf-8") if fix else ""
        after = fix(before, finding) if fix else None
        if after is not None:
            path.write_text(after, encoding="utf-8")
            mended.append(finding)
    return mended[::-1]


def _call(text: str, finding: Finding) -> ast.Call | None:
    """The call at the finding's place."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    here = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.keywords)
    return next((node for node in here if (node.lineno, node.col_offset + 1) == finding.place[1:]), None)


def _put(text: str, line: int, start: int, end: int, word: str) -> str:
    """The text with a word instead of the bytes from start to end."""
    lines = text.split("\n")
    old = lines[line - 1].encode()
    lines[line - 1] = (old[:start] + word.encode() + old[end:]).decode()
    return "\n".join(lines)


def _replace_existing(text: str, finding: Finding) -> str | None:
    """Adds an argument before the closing bracket of the call."""
    call = _call(text, finding)
    if call is None:
        return None
    given = (*call.args, *(each.value for each in call.keywords))
    line, column = max((one.end_lineno or 1, one.end_col_offset or 0) for one in given)
    return _put(text, line, column, column, ", replace_existing=True")


def _coalesce(text: str, finding: Finding) -> str | None:
    """Changes the only False in the call itself: `coalesce=False`, or `"coalesce": False` in a dict there."""
    call = _call(text, finding)
    said: list[ast.expr] = []
    for node in ast.walk(call) if call else ():
        match node:
            case ast.keyword(arg="coalesce", value=value):
                said.append(value)
            case ast.Dict(keys=keys, values=values):
                pairs = zip(keys, values, strict=True)
                said += [value for key, value in pairs if isinstance(key, ast.Constant) and key.value == "coalesce"]
    match said:
        case [ast.Constant(value=False, lineno=line, col_offset=start, end_col_offset=int(end))]:
            return _put(text, line, start, end, "True")
    return None


def _forbid(text: str, finding: Finding) -> str | None:
    lines = text.split("\n")
    at = finding.place.line - 1
    if found := _POLICY.fullmatch(lines[at]):
        lines[at] = f"{found['before']}Forbid{found['behind']}"
    elif found := _SCHEDULE.fullmatch(lines[at]):
        lines.insert(at + 1, f"{found['indent']}concurrencyPolicy: Forbid")
    else:
        return None
    return "\n".join(lines)


FIXES: Final[dict[str, Fix]] = {"CR102": _replace_existing, "CR103": _coalesce, "CR501": _forbid}
WRITTEN: Final = {
    "CR102": "added `replace_existing=True`",
    "CR103": "changed `coalesce` from False to True",
    "CR501": "set `concurrencyPolicy: Forbid`",
}
"""What each fix writes."""
