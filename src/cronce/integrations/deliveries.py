"""What a queue delivers at least once, done once: what the guards of queues share.

A message goes by its id. Its body runs once for each id; a message that comes again gets what came of it, and one that
comes again while its body is still at it waits for that.

*A retry is not a duplicate.* A body that raised runs again whenever its queue brings the message back: how often, and
after how long, is the queue's business. A body whose process died is another matter, for nobody knows how far it came:
`on_lost="skip"` leaves it to a person (`InDoubt`), `"rerun"` runs it again when the lease of the dead has lapsed.

*What is done is done.* A body that came to its end while the store was away is done for its queue, too, which then
has no reason to deliver it again.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from hashlib import sha256
from typing import Any, Final, Literal, TypedDict

from cronce.errors import BadInput, BadPolicy, CronceError, InProgress, LeaseLost, StoreError
from cronce.model import check_key, name_from
from cronce.policy import OnLost, WhenUnsure, check_choice, refuse_foreign
from cronce.protocol.codec import json_text
from cronce.runtime.app import Cronce
from cronce.runtime.declare import Duration
from cronce.runtime.effects.idempotent import read_lease, read_ttl
from cronce.runtime.effects.once import checked_how
from cronce.runtime.effects.things import scope_unsaid
from cronce.runtime.log import LOGGER
from cronce.runtime.run import Run
from cronce.runtime.steps import Nap, sleep
from cronce.schedule import parse_duration

UNSURE: Final[dict[OnLost, WhenUnsure]] = {"skip": "raise", "rerun": "retry"}
PAUSE: Final = 0.1
"""Seconds between two looks at what another is at. Whoever is gone is known to be when its lease has lapsed."""
READABLE: Final = 80
"""Letters of an id that are there for people; what follows tells it from all others."""


def check_policies(on_lost: OnLost, ttl: Duration, lease: Duration) -> None:
    """Whatever cannot be meant is refused where it is written: a worker that met it would use up the message."""
    check_choice("on_lost", on_lost, OnLost)
    for name, length in (("ttl", ttl), ("lease", lease)):
        try:
            parse_duration(length)
        except BadInput as error:
            raise BadPolicy(f"{name}: {error}") from None
    read_ttl(ttl)
    read_lease(lease)


def check_is(given: object, kind: type, how: str) -> None:
    """Refuse what is passed in the place of something else; its value may be a URL with a password, and is not said."""
    if not isinstance(given, kind):
        raise BadInput(f"this is no {kind.__name__}, but of type {type(given).__name__}: write {how}")


class NotKept(CronceError):
    """The body is done, and there is no record of what it returned: if the queue has that, it is to be left alone."""


class Deliveries:
    """The bodies of messages. `failed` are exceptions, besides those that are an `Exception`, after which the queue may
    deliver again: any other stopped the body from outside, like a crash."""

    def __init__(
        self,
        cron: Cronce,
        *,
        on_lost: OnLost,
        ttl: Duration,
        lease: Duration,
        failed: tuple[type[BaseException], ...] = (),
    ) -> None:
        check_policies(on_lost, ttl, lease)
        self._guard = partial(
            cron.idempotent,
            key=lambda key, _body: key,
            ttl=ttl,
            lease=lease,
            unsure=UNSURE[on_lost],
            not_done=(Exception, *failed),
        )

    def once(self, name: str, message: str, body: Callable[[], Any]) -> Any:
        """What the body returns; of one that ran before, what JSON said of that, and else `NotKept`. While another is
        at it, it is waited for."""
        return stand_by(lambda body: self.try_once(name, message, body), body)

    def try_once(self, name: str, message: str, body: Callable[[], Any]) -> Any:
        """The same; `InProgress` where another is at it."""
        results: list[Any] = []

        def first() -> Any:
            results.append(body())
            return _kept(results[0])

        done = self._guard(name_from(name))(lambda _message, body: body())
        try:
            recorded = done(message, first)
        except (StoreError, LeaseLost) as trouble:
            if not results:
                raise
            LOGGER.error("%s %s is done, but that is not on record: %s", name, message, trouble)
        if results:
            return results[0]
        if recorded is None:
            raise NotKept(f"{name} {message} is done, and what it returned was not kept")
        return recorded["returned"]


def _kept(result: Any) -> dict[str, Any] | None:
    """A queue may carry results that JSON cannot say, or long ones: that it is done is kept then, and nothing else."""
    kept = {"returned": result}
    try:
        json_text("a result", kept)
    except BadInput:
        return None
    return kept


def dispatch(run: Run, key: object, send: Callable[[str], object]) -> str:
    """Send a message for the run's slot once, by an id that is always the same for the slot and the key. A run that
    died in between leaves a doubt: then it is sent again by the same id, and the worker's guard drops one of them."""
    message = message_id(run, key)

    def sent() -> str:
        send(message)
        return message

    found: str = run.once(f"message:{key}", sent, per="slot", unsure="retry")
    return found


def message_id(run: Run, key: object) -> str:
    """Of letters, digits and dashes, which is all that some queues allow."""
    text = run.key_of(key, per="slot")
    readable = re.sub(r"[^A-Za-z0-9]+", "-", text)[:READABLE].strip("-")
    return f"{readable}-{sha256(text.encode()).hexdigest()[:16]}"


# --- waiting for another who is at it --------------------------------------------------------------------------------


def stand_by(once: Callable[[Callable[[], Any]], Any], body: Callable[[], Any]) -> Any:
    """What `once` returns for the body; while another is at the same, it is asked again."""
    made: list[bool] = []

    def noted() -> Any:
        made.append(True)
        return body()

    while True:
        try:
            return once(noted)
        except InProgress:
            if made:  # the body's own words: what it asked for is in progress, and not it
                raise
        sleep(Nap(PAUSE))


async def stand_by_async(
    once: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]], body: Callable[[], Awaitable[Any]]
) -> Any:
    """The same on an event loop."""
    made: list[bool] = []

    async def noted() -> Any:
        made.append(True)
        return await body()

    while True:
        try:
            return await once(noted)
        except InProgress:
            if made:
                raise
        await asyncio.sleep(PAUSE)


# --- tools of agents --------------------------------------------------------------------------------------------------

# Tools of agents, called once for each slot or once for each thing: what the guards of tools share.
#
# An agent that is started again is asked again. The ids of its calls are the model's, and others each time, so a call
# goes by the tool's name and its arguments, or by what `key` makes of them: a model may word the same wish differently.
# A call on a thing goes by the tool's name and the thing that `key` names. A call that was made returns what came of
# it, and one that is being made, by the same agent at the same time, waits.

READABLE_CALL: Final = 160
"""Letters of a call that its key shows; a longer one ends in a digest."""


class ToolPolicies(TypedDict, total=False):
    """What `once` of a tool takes: the slot (`per`) or a thing (`on`), and what tells one call from another (`key`);
    the rest is as in `run.once`."""

    per: Literal["slot"] | None
    on: str | None
    key: Callable[..., object] | None
    unsure: WhenUnsure
    not_done: type[BaseException] | tuple[type[BaseException], ...]


class Calls:
    """The calls of one tool, under a run."""

    def __init__(self, run: Run, tool: str, how: ToolPolicies) -> None:
        if not isinstance(run, Run):
            raise BadInput(f"a tool is guarded under a run, which a job's body is given, and this is {run!r:.60}")
        refuse_foreign([word for word in how if word not in ToolPolicies.__annotations__], ToolPolicies.__annotations__)
        per, on, key = how.get("per"), how.get("on"), how.get("key")
        if (per, on) != ("slot", None) and (per is not None or on is None or key is None):
            call = f"once({tool}, run"
            raise scope_unsaid(
                f"{call})", f"{call}, on='invoice', key=lambda invoice: invoice)", f"{call}, per='slot')"
            )
        self._run, self._tool, self._on, self._key = run, tool, on, key
        self._how = checked_how(how.get("unsure", "raise"), how.get("not_done", ()))

    def once(self, args: tuple[Any, ...], named: Mapping[str, Any], call: Callable[[], Any]) -> Any:
        """What came of the call, as JSON says it, the first time too."""
        once, how = self._once(args, named), self._how._asdict()
        return stand_by(lambda body: once(body, **how), call)

    async def once_async(
        self, args: tuple[Any, ...], named: Mapping[str, Any], call: Callable[[], Awaitable[Any]]
    ) -> Any:
        once, how = self._once(args, named), self._how._asdict()
        return await stand_by_async(lambda body: once(body, **how), call)

    def _once(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Callable[..., Any]:
        if self._on is not None and self._key is not None:
            return partial(self._run.on(self._on, self._key(*args, **named)).once, self._tool)
        return partial(self._run.once, self._key_of(args, named), per="slot")

    def _key_of(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> str:
        if self._key is not None:
            return f"{self._tool}:{check_key(self._key(*args, **named))}"
        from pydantic_core import to_jsonable_python  # noqa: PLC0415  whoever has such tools has it

        try:
            plain = to_jsonable_python([*args, named] if args else named)
            said = json.dumps(plain, sort_keys=True, separators=(",", ":"))
        except ValueError as error:
            words = f"the arguments of {self._tool} are no JSON ({error}): give key=, a function of them"
            raise BadInput(words) from None
        text = f"{self._tool}:{said}"
        return (
            text
            if len(text) <= READABLE_CALL
            else f"{text[:READABLE_CALL]}... {sha256(said.encode()).hexdigest()[:16]}"
        )
