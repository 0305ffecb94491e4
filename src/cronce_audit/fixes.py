"""What can be mended with certainty: one word or one line, after which the job does what its author meant.

CR102: a job that has an id, and fails at the next start because it is taken, gets `replace_existing=True`.
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
    """Change the files, from the last line to the first; what was mended."""
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


def _replace_existing(text: str, finding: Finding) -> str | None:
    """Before the bracket that ends the call."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        here = isinstance(node, ast.Call) and (node.lineno, node.col_offset + 1) == finding.place[1:]
        if here and isinstance(node, ast.Call) and node.keywords and node.end_lineno and node.end_col_offset:
            last = max(
                (*node.args, *(each.value for each in node.keywords)),
                key=lambda one: (one.end_lineno, one.end_col_offset),
            )
            lines = text.split("\n")
            at = (last.end_lineno or 1) - 1
            line = lines[at].encode()
            cut = last.end_col_offset or 0
            lines[at] = (line[:cut] + b", replace_existing=True" + line[cut:]).decode()
            return "\n".join(lines)
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


FIXES: Final[dict[str, Fix]] = {"CR102": _replace_existing, "CR501": _forbid}
