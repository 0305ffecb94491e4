"""Workers: the body of a message runs once, however often the message is delivered.

Celery delivers at least once. A worker that dies before it acknowledges, a task that takes longer than the visibility
timeout of Redis, a beat that does not know whether it had sent: each brings the same task id again.

*A message is a task id and an attempt.* `self.retry()` sends the same id with a higher number, `self.replace()` with a
deeper nesting: those are other messages, and run. The one that called for them is over, and does not run again.

*A body that raised is over*, too: Celery says so to whoever waits, and whether it is tried again is for `self.retry` or
`autoretry_for` to say. Only `Reject` asks for the same message again, and gets it.

*A body whose worker died* leaves a doubt. `acks_late=True` is how people ask Celery to run such a task again, so then
it is (`on_lost="rerun"`), when the lease of the dead has lapsed; else it fails with `InDoubt` (`on_lost="skip"`), and a
person looks.

*What comes again* is dropped, and its result stays as it was. One exception: a message that the broker delivers again,
because it was never acknowledged, and whose body is done, is answered from the record. Its worker may have died right
after the body, and then Celery has yet to store the result, call back, and go on with the chain.

*Not knowing is not running.* While another is at it, or the store does not answer, the message is sent again as it is,
for later, and takes up no worker meanwhile.
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
"""Seconds until a store that did not answer is asked again."""


class Once(Task):  # type: ignore[misc]  # Celery has no types
    """`@app.task(base=Once)`, or `app.Task = Once` for all. Called directly, or eagerly, it is the plain function."""

    abstract = True

    on_lost: ClassVar[OnLost | None] = None
    """What becomes of a message whose worker died in its body: "rerun", or "skip"; else as acks_late says."""
    ttl: ClassVar[Duration] = "7d"
    """For how long it is known that a message was done: longer than its broker may deliver it again."""
    lease: ClassVar[Duration] = "30s"
    """After how long a worker that is silent counts as dead."""

    def __init_subclass__(cls, **named: Any) -> None:
        """A task, or a base class of tasks, that cannot be meant is never made: no worker starts with it."""
        super().__init_subclass__(**named)
        cls._check()

    @classmethod
    def on_bound(cls, app: App) -> None:
        """By now `task_annotations` have had their say."""
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
            """It does not raise: for Celery, a body that raised is over. Of an error JSON says nothing, so that no
            repeat is answered with one."""
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
        """The body is done; where Celery's part may not be, with what came of it."""
        if not (self.request.delivery_info or {}).get("redelivered"):
            self._drop()
        return returned

    def _drop(self) -> NoReturn:
        LOGGER.debug("%s was done before, and is dropped", self.request.id)
        raise Ignore

    def _look_again(self, seconds: float) -> NoReturn:
        """The message as it is, later: one for this one, so that they do not grow in number."""
        self.signature_from_request(countdown=seconds, retries=self.request.retries).apply_async()
        raise Ignore


def _message(request: Any) -> str:
    """The id, and which attempt; a task that replaces itself goes by the same id, too."""
    return f"{request.id}:{request.retries or 0}:{request.replaced_task_nesting or 0}"
