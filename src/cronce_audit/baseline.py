"""A baseline: findings that were there when a project began to be audited. Only new ones fail.

A finding is known again by its rule, its path and what stands on its line, white space apart; not by the number of the
line, which changes with every edit above. Equal lines of one file are counted. The file holds hashes of lines, not the
lines: it is there to be committed, and a line may hold what is not for everybody.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cronce.errors import BadInput
from cronce_audit.model import Finding

VERSION: Final = 1


class Entry(NamedTuple):
    """A known finding."""

    path: str
    rule: str
    fingerprint: str


def fingerprints(findings: Iterable[Finding]) -> Mapping[Finding, str]:
    """The same for the same finding, wherever in its file it has moved to."""
    seen: Counter[tuple[str, str, str]] = Counter()
    marks = {}
    for finding in sorted(findings, key=lambda finding: finding.order):
        what = (finding.rule, finding.place.path, " ".join(finding.snippet.split()))
        seen[what] += 1
        marks[finding] = hashlib.sha256(
            "\0".join((*what, str(seen[what]))).encode(errors="surrogateescape")
        ).hexdigest()[:20]
    return marks


def write(path: Path, entries: Iterable[Entry]) -> int:
    """One line each, in order: so that a change of it can be read. How many there are."""
    lines = [
        json.dumps({"path": one.path, "rule": one.rule, "fingerprint": one.fingerprint}) for one in sorted(entries)
    ]
    body = ",\n    ".join(lines)
    inner = f"\n    {body}\n  " if lines else ""
    try:
        path.write_text(f'{{\n  "version": {VERSION},\n  "findings": [{inner}]\n}}\n', encoding="utf-8")
    except OSError as error:
        raise BadInput(f"the baseline {path} cannot be written: {error.strerror}") from None
    return len(lines)


def read(path: Path) -> Sequence[Entry]:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"there is no baseline {path}; `cronce audit --write-baseline {path}` makes it") from None
    except OSError as error:
        raise BadInput(f"the baseline {path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise BadInput(f"the baseline {path} is damaged: it is no JSON; {_AGAIN}") from None
    if isinstance(told, dict) and told.get("version") not in (None, VERSION):
        raise BadInput(f"the baseline {path} is of another version of cronce; {_AGAIN}")
    try:
        return sorted(Entry(*(_text(one[key]) for key in Entry._fields)) for one in told["findings"])
    except (TypeError, KeyError):
        raise BadInput(f"the baseline {path} is damaged: it is no list of findings; {_AGAIN}") from None


_AGAIN: Final = "write it again with --write-baseline"


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
