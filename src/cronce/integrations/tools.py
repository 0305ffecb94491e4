"""Tools of agents, called once for each slot or once for each thing: what the guards of tools share.

An agent that is restarted makes its calls again. The model chooses their ids, others each time, so a call is known by
the tool's name and its arguments, or by what `key` makes of them: a model may word the same call differently. A call on
a thing is known by the tool's name and the thing that `key` names. A call that was made before returns its recorded
result, and one that is being made at the same time waits.

*Refused, and corrected.* A model that leaves out the id gets an error, and calls again. So a refused call does not fail
its run for good: a later call of the tool that is done, and is no repeat, makes up for one refused call.
"""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from typing import Any, Final, Literal, TypedDict

from cronce.errors import BadInput
from cronce.integrations.deliveries import stand_by, stand_by_async
from cronce.model import check_key
from cronce.policy import WhenUnsure, refuse_foreign
from cronce.protocol.codec import as_json
from cronce.runtime.effects.once import checked_how
from cronce.runtime.effects.things import scope_missing
from cronce.runtime.run import Run
from cronce.runtime.unfinished import REFUSED_EFFECT

CALL_LETTERS: Final = 160
"""Characters of a call in its key; a longer one ends in a digest."""


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
            raise BadInput(f"a tool needs the run that its job function gets, not {run!r:.60}")
        refuse_foreign([word for word in how if word not in ToolPolicies.__annotations__], ToolPolicies.__annotations__)
        per, on, key = how.get("per"), how.get("on"), how.get("key")
        if (per, on) != ("slot", None) and (per is not None or on is None or key is None):
            call = f"once({tool}, run"
            raise scope_missing(
                f"{call})", f"{call}, on='invoice', key=lambda invoice: invoice)", f"{call}, per='slot')"
            )
        self._run, self._tool, self._on, self._key = run, tool, on, key
        self._how = checked_how(how.get("unsure", "raise"), how.get("not_done", ()))
        self._refused: list[str] = []
        """As the run remembers them, the oldest first."""
        self._done: set[str] = set()

    def once(self, args: tuple[Any, ...], named: Mapping[str, Any], call: Callable[[], Any]) -> Any:
        """The result of the call, as read back from JSON, the first time too."""
        with self._remembered(args, named) as once:
            return stand_by(once, lambda: as_json(call()))

    async def once_async(
        self, args: tuple[Any, ...], named: Mapping[str, Any], call: Callable[[], Awaitable[Any]]
    ) -> Any:

        async def called() -> Any:
            return as_json(await call())

        with self._remembered(args, named) as once:
            return await stand_by_async(once, called)

    @contextmanager
    def _remembered(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Iterator[Callable[..., Any]]:
        """How the call is made once. A refused call is remembered until another one makes up for it."""
        try:
            key, once = self._once(args, named)
            yield lambda body: once(body, **self._how._asdict())
        except (BadInput, TypeError) as error:
            self._refuse(error)
            raise
        if key not in self._done:
            self._done.add(key)
            if self._refused:
                self._run.unfinished.pop(self._refused.pop(0), None)

    def _refuse(self, error: BaseException) -> None:
        unfinished, number = self._run.unfinished, len(self._refused) + 1
        if unfinished.get(REFUSED_EFFECT) is error:
            del unfinished[REFUSED_EFFECT]
        name = f"a call of {self._tool} that was refused{f' ({number})' if number > 1 else ''}"
        unfinished.refuse(error, name)
        if unfinished.get(name) is error:
            self._refused.append(name)

    def _once(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[str, Callable[..., Any]]:
        """The key of the call, and how it is made."""
        if self._on is not None and self._key is not None:
            thing = self._run.on(self._on, self._key(*args, **named))
            return thing.name, partial(thing.once, self._tool)
        key = self._key_of(args, named)
        return key, partial(self._run.once, key, per="slot")

    def _key_of(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> str:
        if self._key is not None:
            return f"{self._tool}:{check_key(self._key(*args, **named))}"
        from pydantic_core import to_jsonable_python  # noqa: PLC0415  every framework with such tools has it

        try:
            plain = to_jsonable_python([*args, named] if args else named)
            said = json.dumps(plain, sort_keys=True, separators=(",", ":"))
        except ValueError as error:
            words = f"the arguments of {self._tool} are not JSON ({error}): give key=, a function of them"
            raise BadInput(words) from None
        text = f"{self._tool}:{said}"
        return (
            text if len(text) <= CALL_LETTERS else f"{text[:CALL_LETTERS]}... {sha256(said.encode()).hexdigest()[:16]}"
        )
