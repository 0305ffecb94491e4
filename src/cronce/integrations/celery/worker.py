"""Workers: the task function of a message runs once, however often the message is delivered.

Celery delivers at least once. A worker that dies before it acknowledges, a task that takes longer than the visibility
timeout of Redis, a beat that does not know whether it has sent: each delivers the same task id again.

*A message is a task id and an attempt.* `self.retry()` sends the same id with a higher number, `self.replace()` with a
deeper nesting: those are other messages, and run. The one that sent them has ended, and does not run again.

*A function that raised has ended*, too: Celery reports that, and `self.retry` or `autoretry_for` decide whether it is
tried again. Only `Reject` asks for the same message again, and gets it.

*If the worker died*, it is unknown how far the function came. `acks_late=True` is how people ask Celery to run such a
task again, so then it is (`on_lost="rerun"`), when the dead worker's lease has expired; else it fails with `InDoubt`
(`on_lost="skip"`), for a person to check.

*A duplicate* is dropped, and its result stays as it was. One exception: a message that the broker delivers again
because it was never acknowledged, and whose function is done, returns the recorded result. Its worker may have died
right after the function, before Celery stored the result, called back, and continued the chain.

*In doubt, wait.* While another worker runs the message, or the store does not answer, the message is sent again for
later, and occupies no worker meanwhile.
"""

from typing import Any, ClassVar, Final, NoReturn

from celery import Task
from celery.exceptions import Ignore, Reject

from cronce.errors import BadInput, BadPolicy, InProgress, LeaseLost, StoreError, StoreUnusable
from cronce.integrations.celery.beat import App, check_settings, cronce_of
from cronce.integrations.deliveries import Deliveries, NotKept, check_policies
from cronce.policy import OnLost
from cronce.runtime.declare import Duration
from cronce.runtime.log import LOGGER
from cronce.schedule import parse_duration

ASK_STORE_AGAIN: Final = 5.0
"""Seconds after which a message is tried again whose store did not answer."""


class Once(Task):  # type: ignore[misc]  # Celery has no types
    """`@app.task(base=Once)`, or `app.Task = Once` for all. Called directly, or eagerly, it is the plain function."""

    abstract = True

    on_lost: ClassVar[OnLost | None] = None
    """What becomes of a message whose worker died: "rerun" or "skip"; by default "rerun" with acks_late."""
    ttl: ClassVar[Duration] = "7d"
    """How long a done message is remembered: longer than its broker may deliver it again."""
    lease: ClassVar[Duration] = "30s"
    """After how long a silent worker counts as dead."""

    def __init_subclass__(cls, **named: Any) -> None:
        """Wrong settings are refused when the class is made, so that no worker starts with them."""
        super().__init_subclass__(**named)
        cls._check()

    @classmethod
    def on_bound(cls, app: App) -> None:
        """By now `task_annotations` are applied."""
        check_settings(app)
        cls._check()

    @classmethod
    def _check(cls) -> None:
        try:
            check_policies(cls._lost(), cls.ttl, cls.lease)
        except BadInput as error:
            raise BadPolicy(f"the task {cls.name or cls.__qualname__}: {error}") from None

    @classmethod
    def _lost(cls) -> OnLost:
        return cls.on_lost or ("rerun" if cls.acks_late else "skip")

    def __call__(self, *args: Any, **named: Any) -> Any:
        request = self.request
        if request.called_directly or request.is_eager or not request.id:
            return self.run(*args, **named)
        began: list[bool] = []
        raised: list[Exception] = []

        def body() -> Any:
            """It returns its exception: for Celery, a function that raised has ended. An exception is no JSON, so it is
            not recorded as a result."""
            began.append(True)
            try:
                return self.run(*args, **named)
            except Reject:  # it asks for the message to be delivered again
                raise
            except Exception as error:
                raised.append(error)
                return error

        try:
            returned = self._deliveries().try_once(self.name, _message(request), body)
        except InProgress as busy:
            LOGGER.debug("%s is postponed: %s", request.id, busy)
            self._look_again(parse_duration(self.lease).total_seconds())
        except (StoreError, LeaseLost) as trouble:
            LOGGER.warning("%s is postponed: %s", request.id, trouble)
            self._look_again(ASK_STORE_AGAIN)
        except NotKept:
            self._drop()
        if raised:
            raise raised[0]
        return returned if began else self._answer_again(returned)

    def _deliveries(self) -> Deliveries:
        cron = cronce_of(self.app)
        try:
            cron.at_work()
        except BadInput as misnamed:  # a URL that is mended uses up no message
            raise StoreUnusable(str(misnamed)) from None
        return Deliveries(cron, on_lost=self._lost(), ttl=self.ttl, lease=self.lease)

    def _answer_again(self, returned: Any) -> Any:
        """The recorded result, if Celery may not have stored it yet; else the message is dropped."""
        if not (self.request.delivery_info or {}).get("redelivered"):
            self._drop()
        return returned

    def _drop(self) -> NoReturn:
        LOGGER.debug("%s was done before, and is dropped", self.request.id)
        raise Ignore

    def _look_again(self, seconds: float) -> NoReturn:
        """Send the same message for later, in place of this one."""
        self.signature_from_request(countdown=seconds, retries=self.request.retries).apply_async()
        raise Ignore


def _message(request: Any) -> str:
    """The id and the attempt; a task that replaces itself has the same id, so its nesting counts too."""
    return f"{request.id}:{request.retries or 0}:{request.replaced_task_nesting or 0}"
