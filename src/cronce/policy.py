"""The choices a job can make, as types: checked where they enter, trusted inside."""

from collections.abc import Iterable
from typing import Any, Literal, get_args

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


FOREIGN = {
    # APScheduler
    "coalesce": "missed='latest' (or 'all', or 'skip')",
    "misfire_grace_time": "start_within='5m'",
    "max_instances": "turns=2, or overlap='allow' for no limit",
    "replace_existing": "nothing: a job is known by its name, and the newest version of it counts",
    "next_run_time": "start='2026-03-29T01:00:00Z', or `cronce trigger` to run it now, or `cronce pause`",
    "start_date": "start='2026-03-29T01:00:00Z'",
    "end_date": "end='2026-03-29T01:00:00Z'",
    "id": "name='...'",
    "trigger": "the schedule itself, as in '*/15 * * * *' or every='15m'",
    "seconds": "every='30s'",
    "minutes": "every='15m'",
    "hours": "every='2h'",
    "timezone": "tz='Europe/Berlin'",
    "jobstore": "the store, as in Cronce('postgresql://...')",
    # Kubernetes
    "concurrencyPolicy": "overlap='skip' for Forbid, 'allow' for Allow, 'replace' for Replace",
    "Forbid": "overlap='skip'",
    "Allow": "overlap='allow'",
    "Replace": "overlap='replace'",
    "startingDeadlineSeconds": "start_within='5m'",
    "activeDeadlineSeconds": "timeout='1h'",
    "backoffLimit": "retries=3",
    "suspend": "`cronce pause`",
    "successfulJobsHistoryLimit": "keep={'succeeded': 3}",
    "failedJobsHistoryLimit": "keep={'failed': 10}",
    "ttlSecondsAfterFinished": "keep='1d'",
    # Quartz
    "DisallowConcurrentExecution": "overlap='wait'; the default, overlap='skip', skips instead",
    "requestsRecovery": "on_lost='rerun'",
    "FireAndProceed": "missed='latest'",
    "FireOnceNow": "missed='latest'",
    "FireNow": "missed='latest'",
    "DoNothing": "missed='skip'",
    "IgnoreMisfires": "missed='all'",
    "misfireThreshold": "nothing: a slot up to a minute late is not missed; start_within='5m' is its deadline",
    "startAt": "start='2026-03-29T01:00:00Z'",
    "endAt": "end='2026-03-29T01:00:00Z'",
    # ShedLock and other locks
    "lockAtMostFor": "at_most='10m'",
    "lockAtLeastFor": "at_least='1m'",
    "ttl": "lease='30s', which is renewed while the run works; or at_most='10m' for a lock",
    "expire": "lease='30s', which is renewed while the run works; or at_most='10m' for a lock",
    "blocking_timeout": "wait='5s'",
    # Temporal
    "Skip": "overlap='skip'",
    "BufferOne": "overlap='wait'",
    "BufferAll": "overlap='wait' with missed='all'",
    "CancelOther": "overlap='replace'",
    "TerminateOther": "overlap='replace'",
    "AllowAll": "overlap='allow'",
    "catchupWindow": "missed='all' with start_within='1h'",
    "backfill": "`cronce rerun`",
    "pause": "`cronce pause`",
    # Airflow
    "catchup": "missed='all' or missed='latest'",
    "max_active_runs": "turns=2",
    "retry_delay": "backoff='10s'",
    "execution_timeout": "timeout='1h'",
    # Celery
    "max_retries": "retries=3",
    "autoretry_for": "retries=3",
    "default_retry_delay": "backoff='10s'",
    "retry_backoff": "backoff='10s'",
    "retry_jitter": "nothing: backoff always varies, by hash",
    "soft_time_limit": "timeout='1h'",
    "time_limit": "timeout='1h'",
    "expires": "start_within='5m'",
    "acks_late": "on_lost='rerun'",
    "reject_on_worker_lost": "on_lost='rerun'",
    "unique": "nothing: each slot runs once anyway",
    # Hangfire
    "Relaxed": "missed='latest'",
    "Strict": "missed='all'",
    "Ignorable": "missed='skip'",
    "DisableConcurrentExecution": "overlap='wait'",
    "AutomaticRetry": "retries=3",
    # cron, anacron and systemd
    "CRON_TZ": "tz='Europe/Berlin'",
    "RANDOM_DELAY": "jitter='30s'",
    "RandomizedDelaySec": "jitter='30s'",
    "splay": "jitter='30s'",
    "OnCalendar": "the schedule itself, as in '*/15 * * * *' or every='15m'",
    "Persistent": "missed='latest'",
    "TimeoutStartSec": "timeout='1h'",
    "flock": "overlap='skip' for flock -n, the default; overlap='wait' for flock",
}
"""What other schedulers call it → what it is called here: words, and values of theirs. There are no aliases. Case and
underscores do not matter: `concurrency_policy` is found too. docs/reference/translations.md has the same table."""


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
