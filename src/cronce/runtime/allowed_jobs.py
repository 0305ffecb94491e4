"""Which stored jobs a process runs, and how.

*Whoever can write to the store can define a job*, and that must not be enough to run code. A process runs only what it
was told to allow when it was started, by patterns; without any, nothing. A definition is matched against them before
anything of it is imported or looked up. What a process cannot run it says once, and leaves to the others.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, Never, cast

from cronce.errors import BadInput, BadRecord
from cronce.runtime.attempt import Work, describe
from cronce.runtime.declare import Declaration
from cronce.runtime.guard import guarded
from cronce.runtime.log import LOGGER
from cronce.runtime.processes.bodies import Bodies, place_of
from cronce.runtime.stored_jobs import Definition, StoredJob, parsed
from cronce.schedule.instant import shown
from cronce.value import NamedTuple

COMMAND: Final = "command:"
"""What a pattern for commands begins with."""


class Carried(NamedTuple):
    """A stored job that this process runs, and what makes its body."""

    job: Declaration
    work: Callable[[], Work]


class Allowed:
    """The stored jobs of one process. `declared` are those in its own code, which go before."""

    def __init__(self, allow: Sequence[str], bodies: Bodies, declared: Container[str] = ()) -> None:
        self._allow = _patterns(allow)
        self._bodies = bodies
        self._declared = declared
        self._known: Mapping[str, tuple[StoredJob, Carried | None]] = MappingProxyType({})
        self._told = False

    def carry(self, stored: Iterable[StoredJob]) -> dict[str, Carried]:
        """Those that it allows and can run. What has not changed is neither imported nor reported again."""
        known = {}
        for one in stored if self._allow else self._ignored(list(stored)):
            before = self._known.get(one.name)
            known[one.name] = before if before and before[0] == one else (one, self._carried(one))
        self._known = known
        return {name: carried for name, (_, carried) in known.items() if carried}

    def _ignored(self, stored: list[StoredJob]) -> list[StoredJob]:
        if stored and not self._told:
            self._told = True
            others = f" (and {len(stored) - 1} more)" if len(stored) > 1 else ""
            LOGGER.warning(
                "the stored job %s%s is not run by this process, which allows none: see --allow, cron.run(allow=[…])",
                shown(stored[0].name),
                others,
            )
        return []

    def _carried(self, one: StoredJob) -> Carried | None:
        try:
            return self._resolved(one)
        except BaseException as error:  # whatever is wrong with one must not keep this process from the others
            LOGGER.warning(
                "the stored job %s, revision %s, is not run by this process: %s", shown(one.name), one.revision, error
            )
            return None

    def _resolved(self, one: StoredJob) -> Carried:
        if one.trouble:
            raise BadRecord(one.trouble)
        if one.name in self._declared:
            raise BadInput("its own code has a job of that name")
        definition = parsed(one.name, one.definition)
        if not any(allows(pattern, definition) for pattern in self._allow):
            target = f"{COMMAND}{definition.command[0]}" if definition.command else definition.function
            raise BadInput(f"it does not allow {target!r:.120}; see the option --allow")
        job = definition.job._replace(revision=one.revision)
        if definition.command:
            return Carried(job, partial(self._bodies.command, definition.command))
        return Carried(job, self._work(job.name, definition))

    def _work(self, name: str, definition: Definition) -> Callable[[], Work]:
        fn = _function(definition.function)
        isolated = partial(self._bodies.isolated, place_of(fn)) if definition.isolate else None
        work: Callable[[], Work] | None = guarded(name, fn, None, _uncalled, isolated).work
        if work is None:
            raise BadInput(f"{definition.function} cannot be called without arguments")
        return work


def _uncalled(*_call: object) -> Never:
    raise AssertionError("nobody has the guard of a stored job in hand")


def _patterns(allow: Sequence[str]) -> tuple[str, ...]:
    if not all(one.startswith(COMMAND) or one.count(":") == 1 for one in allow):
        raise BadInput(f"allow is a list of patterns like 'myapp.tasks:*' or 'command:./scripts/*', not {allow!r:.80}")
    return tuple(allow)


def allows(pattern: str, definition: Definition) -> bool:
    """A pattern for commands is none for functions, though a module may be called `command`. In a path a * stands for
    one part, and nothing leads out of it: `./scripts/*` is not `./scripts/../../bin/sh`."""
    if pattern.startswith(COMMAND) != bool(definition.command):
        return False
    if not definition.command:
        return fnmatchcase(definition.function, pattern)
    wanted, parts = pattern.removeprefix(COMMAND).split("/"), definition.command[0].split("/")
    return ".." not in parts and len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def _function(path: str) -> Callable[..., Any]:
    """The function, if it is that module's own: what a module imports for itself it does not offer to others."""
    module, _, name = path.partition(":")
    try:
        found = vars(import_module(module)).get(name)
    except BaseException as error:  # importing runs what is in there
        raise BadInput(f"{module} cannot be imported: {describe(error)}") from error
    fn: Any = getattr(found, "fn", found)  # of a guard, the function: the guard is another job
    if not callable(fn) or isinstance(fn, type):
        raise BadInput(f"there is no function {name} in {module}")
    if fn.__module__ != module:
        raise BadInput(f"{name} in {module} comes from {fn.__module__}: name it there")
    return cast(Callable[..., Any], fn)
