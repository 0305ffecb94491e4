"""The choices a job can make, as types: checked where they enter, trusted inside."""

from collections.abc import Iterable
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


FOREIGN = {
    "coalesce": "missed='latest' (or 'all', or 'skip')",
    "misfire_grace_time": "start_within='5m'",
    "max_instances": "turns=2, or overlap='allow' for no limit",
    "replace_existing": "nothing: a job is known by its name, and the newest version of it counts",
    "id": "name='...'",
    "jitter": "nothing: a slot is one instant for all machines",
    "trigger": "the schedule itself, as in '*/15 * * * *' or every='15m'",
    "seconds": "every='30s'",
    "minutes": "every='15m'",
    "hours": "every='2h'",
    "timezone": "tz='Europe/Berlin'",
    "catchup": "missed='all' or missed='latest'",
    "concurrencyPolicy": "overlap='skip' for Forbid, 'allow' for Allow, 'replace' for Replace",
    "concurrency_policy": "overlap='skip' for Forbid, 'allow' for Allow, 'replace' for Replace",
    "startingDeadlineSeconds": "start_within='5m'",
    "starting_deadline_seconds": "start_within='5m'",
    "backoffLimit": "retries=3",
    "activeDeadlineSeconds": "timeout='1h'",
    "max_retries": "retries=3",
    "soft_time_limit": "timeout='1h'",
    "time_limit": "timeout='1h'",
    "lockAtMostFor": "at_most='10m'",
    "lock_at_most_for": "at_most='10m'",
    "lockAtLeastFor": "at_least='1m'",
    "lock_at_least_for": "at_least='1m'",
    "ttl": "lease='30s', which is renewed while the run works; or at_most='10m' for a lock",
    "expire": "lease='30s', which is renewed while the run works; or at_most='10m' for a lock",
    "blocking_timeout": "wait='5s'",
    "unique": "nothing: each slot runs once anyway",
}
"""What other schedulers call it → what it is called here. There are no aliases."""


def refuse_foreign(words: Iterable[str], ours: Iterable[str]) -> None:
    """Refuse a keyword that is none of ours, with the one that is meant."""
    known = list(ours)
    for word in words:
        raise BadPolicy(f"there is no {word!r:.60} here; {_meant(word, known)}")


def _meant(word: str, ours: list[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  only who misspells pays for it

    if word in FOREIGN:
        return f"here it is {FOREIGN[word]}"
    close = get_close_matches(word.lower(), ours, n=1)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(ours)}"
