"""Dramatiq: the actor of a message runs once for its id, and a slot sends its work once.

Dramatiq delivers at least once: what a killed worker had not acknowledged is delivered again, and an id that is sent
twice is two messages. The middleware guards the functions of all actors of its broker by wrapping them: what a
middleware raises before a message is only logged, and without an answer from the store nothing may run. Retries have
the same id, and are no duplicates.
"""

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any, Final

from cronce.errors import BadInput, BadPolicy
from cronce.integrations import deliveries
from cronce.integrations.deliveries import Deliveries, NotKept, check_is
from cronce.policy import OnLost, check_choice
from cronce.runtime.app import Cronce
from cronce.runtime.declare import Duration
from cronce.runtime.run import Run

try:
    from dramatiq import Actor, Broker, Message, MessageProxy, Middleware, get_broker
    from dramatiq.middleware import MiddlewareError, SkipMessage, TimeLimitExceeded
except ImportError as missing:
    raise BadInput("cronce.integrations.dramatiq needs dramatiq: pip install 'cronce[dramatiq]'") from missing

_DELIVERED: Final[ContextVar[MessageProxy | None]] = ContextVar("the message that is to be processed", default=None)


class _Refused(BadPolicy, MiddlewareError):
    """Dramatiq ignores any other exception of a middleware."""


class Once(Middleware):
    """`broker.add_middleware(Once(cron))`, before or after actors are declared. An actor may have its own `on_lost`."""

    def __init__(
        self, cron: Cronce, *, on_lost: OnLost = "skip", ttl: Duration = "7d", lease: Duration = "30s"
    ) -> None:
        check_is(cron, Cronce, "Once(Cronce(url))")
        self._on_lost = on_lost
        self._kept = partial(Deliveries, cron, ttl=ttl, lease=lease, failed=(TimeLimitExceeded,))
        self._kept(on_lost=on_lost)  # wrong values are refused here

    @property
    def actor_options(self) -> set[str]:
        return {"on_lost"}

    def before_declare_actor(self, _broker: Broker, actor: Actor[Any, Any]) -> None:
        try:
            check_choice("on_lost", self._on_lost_of(actor), OnLost)
        except BadPolicy as error:
            raise _Refused(f"the actor {actor.actor_name}: {error}") from None

    def after_declare_actor(self, _broker: Broker, actor: Actor[Any, Any]) -> None:
        actor.fn = self._guarded(actor, actor.fn)

    def before_process_message(self, _broker: Broker, message: MessageProxy) -> None:
        _DELIVERED.set(message)

    def _on_lost_of(self, actor: Actor[Any, Any]) -> Any:
        return actor.options.get("on_lost", self._on_lost)

    def _guarded(self, actor: Actor[Any, Any], fn: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(fn)
        def guarded(*args: Any, **named: Any) -> Any:
            message = _DELIVERED.get()
            if message is None:  # called directly, or inside another message's function
                return fn(*args, **named)
            _DELIVERED.set(None)
            kept = self._kept(on_lost=self._on_lost_of(actor))
            try:
                return kept.once(actor.actor_name, message.message_id, lambda: fn(*args, **named))
            except NotKept as trouble:
                message.options["store_results"] = False  # for this delivery: the first one's result stays
                raise SkipMessage(str(trouble)) from None

        return guarded


def dispatch(
    run: Run, key: object, message: Message[Any], *, delay: int | None = None, broker: Broker | None = None
) -> str:
    """Send a message for the run's slot, once per key: its id. `dispatch(run, "report", report.message(customer))`."""
    how = "dispatch(run, key, actor.message(...)), with the run that a job function gets"
    check_is(run, Run, how)
    check_is(message, Message, how)
    to = broker or get_broker()
    return deliveries.dispatch(run, key, lambda name: to.enqueue(message.copy(message_id=name), delay=delay))
