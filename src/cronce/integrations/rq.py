"""RQ: a job's function runs once for its id, and a slot queues its work once.

RQ may run a job again: after a worker was killed or fell silent, after a retry, or because its id was queued twice (an
existing id is overwritten, and queued again). With `@once(cron)` the function then returns the recorded result. It
works with every kind of worker, since the function itself is guarded.
"""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from inspect import iscoroutine, unwrap
from typing import Any, Final, ParamSpec, TypeVar

from cronce.errors import BadInput
from cronce.integrations import deliveries
from cronce.integrations.deliveries import Deliveries, NotKept, check_is
from cronce.policy import OnLost
from cronce.runtime.app import Cronce
from cronce.runtime.declare import Duration
from cronce.runtime.run import Run

try:
    from rq import Queue, Retry, get_current_job
    from rq.job import Job
except ImportError as missing:
    raise BadInput("cronce.integrations.rq needs rq: pip install 'cronce[rq]'") from missing

P = ParamSpec("P")
R = TypeVar("R")

_IN_HAND: Final[ContextVar[str]] = ContextVar("the id of the job that runs now", default="")


def once(
    cron: Cronce, *, on_lost: OnLost = "skip", ttl: Duration = "7d", lease: Duration = "30s"
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Guard a function that RQ's workers run. Called outside a worker it is the plain function, like its `fn`."""
    check_is(cron, Cronce, "@once(Cronce(url)), above the function")
    kept = Deliveries(cron, on_lost=on_lost, ttl=ttl, lease=lease)

    def guard(fn: Callable[P, R]) -> Callable[P, R]:
        @wraps(fn)
        def guarded(*args: P.args, **named: P.kwargs) -> Any:
            job = get_current_job()
            if job is None or _IN_HAND.get() == job.id:
                return fn(*args, **named)
            _check_own(job, guarded)
            return _performed(kept, job, lambda: fn(*args, **named))

        guarded.fn = fn  # type: ignore[attr-defined]
        return guarded

    return guard


def dispatch(run: Run, key: object, queue: Queue, fn: Any, /, *args: Any, **named: Any) -> str:
    """Queue a call for the run's slot, once per key: the id of its job. Takes what `queue.enqueue` takes."""
    how = "dispatch(run, key, queue, function, ...), with the run that a job function gets"
    check_is(run, Run, how)
    check_is(queue, Queue, how)

    def send(message: str) -> None:
        if not Job.exists(message, connection=queue.connection):  # RQ would overwrite it, and run it twice
            queue.enqueue(fn, *args, job_id=message, **named)

    return deliveries.dispatch(run, key, send)


class _RetryAsked(Exception):
    """The function returned RQ's `Retry`: it is to run again, like one that raised."""

    def __init__(self, retry: Retry) -> None:
        super().__init__("it asked to be retried")
        self.retry = retry


def _performed(kept: Deliveries, job: Job, call: Callable[[], Any]) -> Any:
    def body() -> Any:
        token = _IN_HAND.set(job.id)
        try:
            result = call()
            result = asyncio.run(result) if iscoroutine(result) else result
        finally:
            _IN_HAND.reset(token)
        if isinstance(result, Retry):
            raise _RetryAsked(result)
        return result

    try:
        return kept.once(str(job.func_name), _delivery(job), body)
    except _RetryAsked as again:
        return again.retry
    except NotKept:  # RQ stores what is returned here as the latest result
        return job.return_value(refresh=True)


def _delivery(job: Job) -> str:
    """A job that repeats has one id for all its repetitions."""
    left = getattr(job, "repeats_left", None)
    return job.id if left is None else f"{job.id}:{left}"


def _check_own(job: Job, guarded: Callable[..., Any]) -> None:
    """A call inside another function's job has no id of its own: the second one would count as done."""
    if unwrap(getattr(job.func, "__func__", job.func)) is not unwrap(guarded):
        name = guarded.__qualname__
        raise BadInput(
            f"{name} is guarded as a job of its own, and was called inside the job {job.id} of {job.func_name}: call"
            f" {name}.fn there, or queue it. Decorators above @once have to use functools.wraps"
        )
