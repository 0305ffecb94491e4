"""The choices a job can make, as types: checked where they enter, trusted inside."""

from collections.abc import Iterable
from typing import Any, Final, Literal, get_args

from cronce.errors import BadPolicy

Gap = Literal["run", "skip"]
"""A fixed time that the clocks jump over: run right after the gap, or not at all."""

Fold = Literal["first", "second", "both"]
"""A fixed time that comes twice: at its first coming, its second, or both."""

Missed = Literal["skip", "latest", "all"]
"""Slots that fell due while no scheduler ran: none of them, the latest one, or every one."""

OnLost = Literal["skip", "rerun"]
"""A slot whose holder died: close it as lost, or let another take it over."""

Overlap = Literal["skip", "wait", "replace", "allow"]
"""A slot that falls due while the job still runs. How many may run at once is `turns`."""


def is_limited(overlap: Overlap) -> bool:
    """Whether there is a limit to how many runs of the job go on at once."""
    return overlap != "allow"


def may_wait(overlap: Overlap) -> bool:
    """Whether a slot waits until a run of the job has ended: then that is worth telling others at once."""
    return overlap in ("wait", "replace")


def is_rerun(on_lost: OnLost) -> bool:
    return on_lost == "rerun"


def wants_all(missed: Missed) -> bool:
    """Whether each slot is wanted, however late."""
    return missed == "all"


Mode = Literal["guard", "observe"]
"""Whether the guard decides, or only notes what it would have refused: then the body runs as before."""

WhenUnsure = Literal["raise", "retry", "skip"]
"""An effect that was begun, and cronce does not know whether it happened: a person checks, or it is done again (the
other side knows its key), or it is skipped."""


def check_choice(name: str, value: object, choices: Any) -> None:
    """Refuse a value that is none of the choices, naming them."""
    known = get_args(choices)
    if value in known:
        return
    alike = [repr(choice) for choice in known if _folded(choice) == _folded(str(value))]
    meant = alike[0] if alike else _translated(value)
    hint = f"; here it is {meant}" if meant else ""
    raise BadPolicy(f"{name} must be one of {', '.join(map(repr, known))}, not {value!r:.60}{hint}")


_NAMES_ELSEWHERE: Final = {
    "name='...'": "id",
    "the schedule itself, as in '*/15 * * * *' or every='15m'": "trigger OnCalendar",
    "every='30s'": "seconds",
    "every='15m'": "minutes",
    "every='2h'": "hours",
    "tz='Europe/Berlin'": "timezone CRON_TZ",
    "start='2026-03-29T01:00:00Z', or `cronce trigger` to run it now, or `cronce pause`": "next_run_time",
    "start='2026-03-29T01:00:00Z'": "start_date startAt",
    "end='2026-03-29T01:00:00Z'": "end_date endAt",
    "the store, as in Cronce('postgresql://...')": "jobstore",
    "missed='latest' (or 'all', or 'skip')": "coalesce",
    "missed='latest'": "FireAndProceed FireOnceNow FireNow Relaxed Persistent",
    "missed='skip'": "DoNothing Ignorable",
    "missed='all'": "IgnoreMisfires Strict",
    "missed='all' with start_within='1h'": "catchupWindow",
    "missed='all' or missed='latest'": "catchup",
    "start_within='5m'": "misfire_grace_time startingDeadlineSeconds expires",
    "overlap='skip' for Forbid, 'allow' for Allow, 'replace' for Replace": "concurrencyPolicy",
    "overlap='skip'": "Forbid Skip",
    "overlap='allow'": "Allow AllowAll",
    "overlap='replace'": "Replace CancelOther TerminateOther",
    "overlap='wait'; the default, overlap='skip', skips instead": "DisallowConcurrentExecution",
    "overlap='wait'": "BufferOne DisableConcurrentExecution",
    "overlap='wait' with missed='all'": "BufferAll",
    "overlap='skip' for flock -n, the default; overlap='wait' for flock": "flock",
    "turns=2, or overlap='allow' for no limit": "max_instances",
    "turns=2": "max_active_runs",
    "on_lost='rerun'": "requestsRecovery acks_late reject_on_worker_lost",
    "retries=3": "backoffLimit max_retries autoretry_for AutomaticRetry",
    "backoff='10s'": "retry_delay default_retry_delay retry_backoff",
    "timeout='1h'": "activeDeadlineSeconds execution_timeout soft_time_limit time_limit TimeoutStartSec",
    "jitter='30s'": "RANDOM_DELAY RandomizedDelaySec splay",
    "lease='30s', which is renewed while the run works; or at_most='10m' for a lock": "ttl expire",
    "at_most='10m'": "lockAtMostFor",
    "at_least='1m'": "lockAtLeastFor",
    "wait='5s'": "blocking_timeout",
    "keep={'succeeded': 3}": "successfulJobsHistoryLimit",
    "keep={'failed': 10}": "failedJobsHistoryLimit",
    "keep='1d'": "ttlSecondsAfterFinished",
    "`cronce pause`": "suspend pause",
    "`cronce rerun`": "backfill",
    "nothing: a job is known by its name, and the newest version of it counts": "replace_existing",
    "nothing: a slot up to a minute late is not missed; start_within='5m' is its deadline": "misfireThreshold",
    "nothing: backoff always varies, by hash": "retry_jitter",
    "nothing: each slot runs once anyway": "unique",
}
"""What it is called here, and what APScheduler, Kubernetes, Quartz, ShedLock, Temporal, Airflow, Celery, Hangfire, cron
and systemd call it: words, and values of theirs. docs/reference/translations.md has the same, tool by tool."""

FOREIGN: Final = {word: ours for ours, theirs in _NAMES_ELSEWHERE.items() for word in theirs.split()}
"""There are no aliases. Case and underscores do not matter: `concurrency_policy` is found too."""


def refuse_foreign(words: Iterable[str], ours: Iterable[str]) -> None:
    """Refuse a keyword that is none of ours, with the one that is meant."""
    known = list(ours)
    for word in words:
        raise BadPolicy(f"there is no option {word!r:.60}; {_meant(word, known)}")


def _meant(word: str, ours: list[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  only who misspells pays for it

    if translated := _translated(word):
        return f"here it is {translated}"
    close = get_close_matches(word.lower(), ours, n=1)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(ours)}"


def _translated(word: object) -> str | None:
    return {_folded(foreign): ours for foreign, ours in FOREIGN.items()}.get(_folded(str(word)))


def _folded(word: str) -> str:
    return word.replace("_", "").replace("-", "").lower()
