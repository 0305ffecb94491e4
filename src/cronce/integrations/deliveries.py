"""What a queue delivers at least once is done once: what the guards of queues share.

A message is known by its id. Its job function runs once for each id; a message that is delivered again gets the
recorded result, and waits if the function is still running.

*A retry is not a duplicate.* A function that raised runs again whenever its queue delivers the message again: how
often, and after how long, the queue decides. If its process died, it is unknown how far it came: `on_lost="skip"`
leaves it to a person (`InDoubt`), `"rerun"` runs it again when the lease has expired.

*What is done is done.* A function that ended while the store was away is done for its queue, too, which then does not
deliver it again.
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
"""Seconds between two tries while another process works on the same message."""
ID_LETTERS: Final = 80
"""Characters of a message id that people can read; a digest follows."""


def check_policies(on_lost: OnLost, ttl: Duration, lease: Duration) -> None:
    """Refuse wrong values where they are written: in a worker they would cost the message."""
    check_choice("on_lost", on_lost, OnLost)
    for name, length in (("ttl", ttl), ("lease", lease)):
        try:
            parse_duration(length)
        except BadInput as error:
            raise BadPolicy(f"{name}: {error}") from None
    read_ttl(ttl)
    read_lease(lease)


def check_is(given: object, kind: type, how: str) -> None:
    """Refuse an argument of the wrong type; its value is not shown, since it may be a URL with a password."""
    if not isinstance(given, kind):
        raise BadInput(f"this is not a {kind.__name__} but of type {type(given).__name__}: write {how}")


class NotKept(CronceError):
    """The job function is done, and its result is not on record: a result that the queue has must be left alone."""


class Deliveries:
    """Runs the job functions of messages. `failed` are exceptions, besides every `Exception`, after which the queue may
    deliver again: any other stopped the function from outside, like a crash."""

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
        """The result of the job function; if it ran before, the recorded one, or else `NotKept`. While another process
        works on the message, wait."""
        return stand_by(lambda body: self.try_once(name, message, body), body)

    def try_once(self, name: str, message: str, body: Callable[[], Any]) -> Any:
        """The same, but `InProgress` while another process works on the message."""
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
    """The result as JSON; None if it is too long or cannot be JSON: then only that it is done is kept."""
    kept = {"returned": result}
    try:
        json_text("a result", kept)
    except BadInput:
        return None
    return {"returned": as_json(result)}


def dispatch(run: Run, key: object, send: Callable[[str], object]) -> str:
    """Send a message for the run's slot once, with an id made from the slot and the key. If a run died while sending,
    it is sent again with the same id, and the worker's guard drops one of the two."""
    message = message_id(run, key)

    def sent() -> str:
        send(message)
        return message

    found: str = run.once(f"message:{key}", sent, per="slot", unsure="retry")
    return found


def message_id(run: Run, key: object) -> str:
    """Made of letters, digits and dashes: some queues allow nothing else."""
    text = run.key_of(key, per="slot")
    readable = re.sub(r"[^A-Za-z0-9]+", "-", text)[:ID_LETTERS].strip("-")
    return f"{readable}-{sha256(text.encode()).hexdigest()[:16]}"


# --- waiting for another process --------------------------------------------------------------------------------------


def stand_by(once: Callable[[Callable[[], Any]], Any], body: Callable[[], Any]) -> Any:
    """What `once` returns for the job function; while another process works on the same, try again."""
    made: list[bool] = []

    def noted() -> Any:
        made.append(True)
        return body()

    while True:
        try:
            return once(noted)
        except InProgress:
            if made:  # raised by the job function itself, about something else
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
