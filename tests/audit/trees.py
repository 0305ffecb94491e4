"""Trees of files, made for a test, and what the auditor says about them."""

import textwrap
from collections.abc import Mapping
from pathlib import Path

from cronce_audit.engine import Report, audit, files, report_of
from cronce_audit.live import look_at

YEAR = 2026


def report_on(root: Path, tree: Mapping[str, str]) -> Report:
    """Write the files below `root`, and audit them."""
    for path, text in tree.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(textwrap.dedent(text))
    return audit(root, list(files(root, [])), YEAR)


def findings_in(root: Path, tree: Mapping[str, str], *only: str) -> list[str]:
    """`CR101 app.py:3`, in order; of the named rules only, if any are named."""
    found = report_on(root, tree).findings
    return [f"{finding.rule} {finding.place}" for finding in found if not only or finding.rule in only]


def report_on_machine(root: Path, tree: Mapping[str, str]) -> Report:
    """Make the root directory of a machine, and audit it. What is no plain file there is written as the pages do: a
    word a line in `cmdline`, the target of a link in `fd/…`, ␀ for a zero byte, and the clock as `etc/localtime`."""
    for path, text in tree.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if "/fd/" in path:
            (root / path).symlink_to(text.strip())
        else:
            (root / path).write_text(
                (text.replace("\n", "\0") if path.endswith("cmdline") else text).replace("␀", "\0")
            )
    clock = tree.get("etc/localtime", "")
    zone = clock.partition("zone: ")[2].strip() or "UTC"
    return report_of(look_at(root, zone, in_step="clock in step: no" not in clock), root, YEAR)
