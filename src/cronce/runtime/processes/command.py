"""A command under a lease: the claim and the record are those of every call (`call`), the body is a process group.

Under rerun, where another may take the slot over, a watchdog ends the group before the lease lapses even if we are
stopped ourselves. Under skip no process takes it over, so a run whose supervisor is merely paused goes on.
"""

import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from cronce.errors import BadInput, LeaseLost, TimedOut
from cronce.model import Traits, spell
from cronce.policy import is_rerun
from cronce.protocol.lease import margin
from cronce.protocol.record import Outcome
from cronce.runtime.attempt import Ending, Work
from cronce.runtime.keeper import NOT_RENEWED, LeaseEnd
from cronce.runtime.ledger import Grant
from cronce.runtime.processes.child import Child, Ended, NotStarted, Supervisor
from cronce.runtime.run import Run, Skipped
from cronce.runtime.steps import BodyStep


class Command(Work):
    """One run after the other of the same command; many at once take as many of these."""

    can_be_killed = True

    def __init__(
        self, words: Sequence[str], supervisor: Supervisor, traits: Traits, env: Mapping[str, str] = os.environ
    ) -> None:
        self._words, self._supervisor, self._traits, self._env = words, supervisor, traits, env
        self._run: Run | None = None
        self._child: Child | None = None

    def run(self, run: Run) -> Ended | NotStarted:
        self._run = run
        self._child = child = self.child(run)
        self.renewed(run.grant)
        if not run.trusted:  # it ended before there was a child to stop
            child.stop((run.over or NOT_RENEWED).why)
        return child.run()

    def child(self, run: Run) -> Child:
        return self._supervisor.child(self._words, {**self._env, **environment(run)})

    def renewed(self, grant: Grant) -> None:
        """Where another may take over, the group is to be gone half a margin before the lease lapses: that is time for
        a TERM, and for the KILL after it."""
        if self._child is not None and is_rerun(grant.record.on_lost):
            self._child.move_deadline(self._last_moment(grant))

    def stop(self, _body: BodyStep, run: Run, over: LeaseEnd) -> None:
        """One whose lease is not lost has its grace, as far as the lease goes: it is not renewed any more."""
        if self._child is None:
            return
        left = self._half_margin(run.grant)
        if over.cause in ("timed out", "drained"):
            left = max(left, self._last_moment(run.grant) - self._supervisor.clock.boot())
        self._child.stop(over.why, min(self._supervisor.grace, left, over.grace))

    def _last_moment(self, grant: Grant) -> float:
        return grant.trust.end + self._half_margin(grant)

    def _half_margin(self, grant: Grant) -> float:
        return margin(grant.lease, self._traits).total_seconds() / 2

    def ending(self, run: Run, result: Ended | NotStarted) -> Ending | None:
        if isinstance(result, NotStarted):
            return None
        over = self.over(run, result)
        if over is None:
            return self.ended(result)
        cut_short = over.cause in ("lost", "drained")
        return Ending(Outcome.FAILED, result.stopped or over.why, cut_short, result.output, final=over.cause == "asked")

    def over(self, run: Run, result: Ended) -> LeaseEnd | None:
        """What ended it from outside, if anything did."""
        return (run.over or NOT_RENEWED) if result.stopped else None

    def ended(self, result: Ended) -> Ending:
        """It ended by itself."""
        if result.code == 0:
            return Ending(Outcome.SUCCEEDED, output=result.output)
        if result.signalled:
            reason = f"stopped by {_signal_name(result.signalled)}"
            return Ending(Outcome.FAILED, reason, cut_short=True, output=result.output)
        return Ending(Outcome.FAILED, in_words(result.code), output=result.output)

    def answer(self, result: Ended | NotStarted | Skipped) -> Any:
        """The exit code."""
        if isinstance(result, Skipped):
            return result
        assert self._run is not None
        if isinstance(result, NotStarted):
            raise LeaseLost(
                f"{self._run.key} was not started: {result.stopped}", name=self._run.key, why=result.stopped
            )
        over = self.over(self._run, result)
        if over is None:
            return self.value(result)
        if over.cause == "timed out":
            raise TimedOut(f"{self._run.key} {over.why}")
        why = result.stopped or over.why
        raise LeaseLost(f"{self._run.key} was stopped: {why}", name=self._run.key, why=why)

    def value(self, result: Ended) -> Any:
        return result.code


def environment(run: Run) -> dict[str, str]:
    """What a process gets to know of its slot: enough to make its effects idempotent, and fenced."""
    told = {
        **run.environment,
        "CRONCE_JOB": run.job,
        "CRONCE_SLOT": spell(run.at),
        "CRONCE_KEY": run.key,
        "CRONCE_FENCE": str(run.fence),
        "CRONCE_SCOPE": run.scope,
        "CRONCE_ATTEMPT": str(run.attempt),
    }
    if run.deadline is not None:
        told["CRONCE_DEADLINE"] = spell(run.deadline.replace(microsecond=0))
    payload = run.grant.record.payload
    return {**told, "CRONCE_PAYLOAD": payload} if payload else told


def checked_words(words: object) -> list[str]:
    """A command is words, as a program gets them. What a shell would make of a text is not guessed."""
    if isinstance(words, str):
        import shlex  # noqa: PLC0415

        try:
            meant = f"{shlex.split(words)!r}"
        except ValueError:
            meant = "['./sync.sh', '--all']"
        raise BadInput(
            f"a command is a list of words, not a text: {meant:.200}. For what only a shell can do (pipes, variables,"
            f" *) call one: ['sh', '-c', {words!r:.60}]"
        )
    if not isinstance(words, Sequence) or not words or not all(isinstance(word, str) and word for word in words[:1]):
        raise BadInput(f"a command is a list of words, such as ['./sync.sh', '--all'], not {words!r:.60}")
    for word in words:
        if not isinstance(word, str) or "\0" in word:
            raise BadInput(f"every word of a command must be text; {word!r:.60} is not")
    return list(words)


def in_words(code: int) -> str:
    """How a process ended, by its exit status."""
    name = _signal_name(code - 128) if code > 128 else ""
    return f"ended by {name}" if name else f"exit code {code}"


def _signal_name(number: int) -> str:
    """Empty for what is no signal, or one without a name: a command may exit with any number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""
