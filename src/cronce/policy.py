"""The choices a job can make, as types: checked where they enter, trusted inside."""

from typing import Any, Literal, get_args

from cronce.errors import BadPolicy

Gap = Literal["run", "skip"]
"""A fixed time that the clocks jump over: run right after the gap, or not at all."""

Fold = Literal["first", "second", "both"]
"""A fixed time that comes twice: at its first coming, its second, or both."""

Missed = Literal["skip", "latest", "all"]
"""Slots that passed while nobody looked: none of them, the latest one, or every one."""

OnLost = Literal["skip", "rerun"]
"""A slot whose holder died: close it as lost, or let another take it over."""

Overlap = Literal["skip", "wait", "replace", "allow"]
"""A slot that falls due while the job still runs. How many may run at once is `turns`."""


def check_choice(name: str, value: object, choices: Any) -> None:
    """Refuse a value that is none of the choices, naming them."""
    if value not in get_args(choices):
        known = ", ".join(map(repr, get_args(choices)))
        raise BadPolicy(f"{name} is one of {known}, and this is {value!r:.60}")
