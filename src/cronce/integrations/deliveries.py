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
import re
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import sha256
from typing import Any, Final

from cronce.errors import BadInput, BadPolicy, CronceError, InProgress, LeaseLost, StoreError
from cronce.model import name_from
from cronce.policy import OnLost, WhenUnsure, check_choice
from cronce.protocol.codec import as_json, json_text
from cronce.runtime.app import Cronce
from cronce.runtime.declare import Duration
from cronce.runtime.effects.idempotent import read_lease, read_ttl
from cronce.runtime.log import LOGGER
from cronce.runtime.run import Run
from cronce.runtime.steps import WaitStep, sleep
from cronce.schedule import parse_duration

UNSURE: Final[dict[OnLost, WhenUnsure]] = {"skip": "raise", "rerun": "retry"}
DELIVERY_LOOK_EVERY: Final = 0.1
"""Seconds between two looks at what another is at. Whoever is gone is known to be when its lease has lapsed."""
ID_LETTERS: Final = 80
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
        raise BadInput(f"this is not a {kind.__name__} but of type {type(given).__name__}: write {how}")


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
            LOGGER.error("%s %s is done, but that could not be recorded: %s", name, message, trouble)
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
    return {"returned": as_json(result)}


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
    readable = re.sub(r"[^A-Za-z0-9]+", "-", text)[:ID_LETTERS].strip("-")
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
        sleep(WaitStep(DELIVERY_LOOK_EVERY))


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
        await asyncio.sleep(DELIVERY_LOOK_EVERY)
