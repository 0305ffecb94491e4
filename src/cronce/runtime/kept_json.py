"""What is kept as JSON: payloads, results, positions."""

import json
from typing import Any, Final

from cronce.errors import BadInput

LONGEST: Final = 64 * 1024
"""In bytes. It travels with its record: it says what to work on, or what came of it, and is not the work."""


def json_text(what: str, value: Any) -> str:
    """Nothing for None."""
    if value is None:
        return ""
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"{what} is what JSON can say: {error}") from None
    if len(text) > LONGEST:
        raise BadInput(f"{what} is at most {LONGEST // 1024} KB of JSON, and this is {len(text):,} bytes")
    return text
