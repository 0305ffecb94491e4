"""The choices a job can make, as types: checked where they enter, trusted inside."""

from typing import Literal

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
