"""Jobs that live in the store: how they are defined and changed there.

A definition is in JSON what the arguments of `Cronce.job` are in Python, and names its job function: an importable
function, or a command. Every change is a compare-and-swap on one cell, raises its revision, and writes on the board of
jobs in the same swap: all processes look. What was removed leaves its cell behind, so that the revision goes on rising
if it comes back. Which of them a process runs is its own choice (`RunnableStoredJobs`).
"""

import json
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, Never, cast

from cronce.errors import BadInput, BadRecord, CronceError
from cronce.model import Cell, Instant, Mark, Write, check_name, job_cell, spell, stored_cell
from cronce.protocol.codec import json_text, readable
from cronce.protocol.notices import Stored, decode_stored, encode_notice
from cronce.protocol.record import Job, Spec, decode_job, encode_job
from cronce.protocol.specs import read_spec
from cronce.runtime.app_loading import place_of
from cronce.runtime.attempt import Work, describe
from cronce.runtime.client import NEWS, Client
from cronce.runtime.declare import Declaration, declare
from cronce.runtime.flow import Flow
from cronce.runtime.guard import guarded
from cronce.runtime.log import LOGGER
from cronce.runtime.operations import Operator
from cronce.runtime.processes.child import BodyRunners
from cronce.runtime.processes.command import checked_words
from cronce.runtime.queries import (
    JobLine,
    JobSeen,
    holders,
    job_names,
    latest_runs,
    read_all,
    read_bundle,
    refuse_unknown,
    seen_job,
)
from cronce.schedule import At, Cron, Every, Window, format_duration, parse_instant, spec_of
from cronce.schedule.instant import shown
from cronce.stores.base import Scan
from cronce.value import NamedTuple

MAX_DEFINITION: Final = 65_536
"""Characters of a definition. Every process reads all of them."""

# --- definitions ----------------------------------------------------------------------------------------------------

Words = Mapping[str, Any]
"""A definition as a user gives it: the options of `Cronce.job`, and `function` or `command`, `payload`, `isolate`."""

REPLACED_BY: Final[Mapping[str, Sequence[str]]] = {
    "schedule": ("every", "at"),
    "every": ("schedule", "at", "tz", "gap", "fold"),
    "at": ("schedule", "every", "tz", "gap", "fold"),
    "function": ("command",),
    "command": ("function", "isolate"),
}
"""The options that an option replaces, when it is given in an edit."""


class Definition(NamedTuple):
    """A definition, checked. It has a function or a command."""

    job: Declaration
    function: str = ""
    command: tuple[str, ...] = ()
    isolate: bool = False


def define(name: str, words: Words) -> Definition:
    """Whatever cannot be meant is refused."""
    policies = dict(words)
    function, command = policies.pop("function", ""), policies.pop("command", [])
    payload, isolate = policies.pop("payload", None), policies.pop("isolate", False)
    if "transaction" in policies:
        raise BadInput(f"{name}: a database is declared in code (@cron.job(transaction=…)): a URL may hold a password")
    if "mode" in policies:
        raise BadInput(
            f"{name}: mode is for jobs that another scheduler calls; cronce itself runs the jobs in the store"
        )
    if bool(function) == bool(command):
        raise BadInput(f"{name}: give what to run: function='package.module:name' or command=['./sync.sh']")
    job = declare(name, **policies)._replace(payload=json_text("a payload", payload))
    if job.schedule is None:
        raise BadInput(f"{name}: give when to run it: a schedule, every=… or at=…")
    if isolate not in (True, False) or (isolate and command):
        raise BadInput(
            f"{name}: isolate must be true or false, and only for a function; a command always has its own process"
        )
    if command:
        return Definition(job, command=tuple(checked_words(command)))
    return Definition(job, _function_name(function), isolate=isolate)


def _function_name(text: object) -> str:
    """One plain name in one module: `tasks:os.system` would be a function of another."""
    module, colon, name = text.partition(":") if isinstance(text, str) else ("", "", "")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), name)):
        raise BadInput(f"{text!r:.80} is not a function; write it like 'package.module:name'")
    return f"{module}:{name}"


def spelled(name: str, words: Words) -> str:
    """The definition as the store keeps it: only the options that were given. None means not given."""
    said = {word: value for word, value in _plain_schedule(words).items() if value is not None}
    try:
        text = json.dumps(said, default=_plain, allow_nan=False, separators=(",", ":"), sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"{name} cannot be kept in the store: {error}") from None
    parsed(name, text)
    return text


def parsed(name: str, text: str) -> Definition:
    """The definition in the store. One that cronce did not write is a BadInput, whatever it is."""
    words = read_words(name, text)
    try:
        return define(name, words)
    except BadInput:
        raise
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        raise BadInput(f"the definition of {name} is not valid: {error}") from error


def read_words(name: str, text: str) -> dict[str, Any]:
    if len(text) > MAX_DEFINITION:
        raise BadInput(
            f"the definition of {name} has {len(text):,} characters; at most {MAX_DEFINITION:,} can be stored"
        )
    try:
        words = json.loads(text)
    except (ValueError, RecursionError):
        words = None
    if not isinstance(words, dict):
        raise BadInput(f"the definition of {name} cannot be read: {text[:60]!r}")
    return words


def _plain_schedule(words: Words) -> dict[str, Any]:
    rule = words.get("schedule")
    if not isinstance(rule, Cron | Every | At | Window):
        return dict(words)
    spec = spec_of(rule)
    return {**words, "schedule": spec.pop("text"), **spec}


def _plain(value: object) -> str:
    match value:
        case timedelta():
            return format_duration(value)
        case datetime():
            return spell(parse_instant(value))
        case _:
            raise TypeError(f"{value!r:.60} cannot be written as JSON")


# --- changing them --------------------------------------------------------------------------------------------------

Change = Callable[[Stored | None], str | None]
"""The new definition, given the current one; None takes it out of the store."""


def add(operator: Operator, name: str, words: Words) -> Flow[Stored | None]:
    """The new job; None if it was there already, and is defined the same."""
    text = spelled(check_name(name), words)
    yield from _refuse_in_code(operator.ledger.client, name)

    def added(stored: Stored | None) -> str:
        if stored is not None and stored.definition is not None and not _same(name, stored.definition, text):
            raise BadInput(
                f"the store already has a job {name} with another definition; use `cronce jobs edit` to change it"
            )
        return text

    return (yield from _change(operator, name, added))


def edit(operator: Operator, name: str, changes: Words) -> Flow[Stored | None]:
    """The job as it is now; None if that is what it was. A change to None goes back to the default."""
    yield from _refuse_missing(operator.ledger.client, name)

    def edited(stored: Stored | None) -> str:
        return spelled(name, _merged(read_words(name, _present(name, stored)), _plain_schedule(changes)))

    return (yield from _change(operator, name, edited))


def remove(operator: Operator, name: str) -> Flow[Stored | None]:
    """Its definition goes, its history stays."""
    yield from _refuse_missing(operator.ledger.client, name)

    def removed(stored: Stored | None) -> None:
        _present(name, stored)

    return (yield from _change(operator, name, removed))


def _present(name: str, stored: Stored | None) -> str:
    """Its definition; what is not there cannot be changed."""
    if stored is None or stored.definition is None:
        how = f"was removed from the store by {stored.by} at {spell(stored.at)}" if stored else "is gone from the store"
        raise CronceError(f"{name} {how}; `cronce jobs add` creates it again")
    return stored.definition


def _same(name: str, old: str, new: str) -> bool:
    """Whether they mean the same, however they are written."""
    try:
        return parsed(name, old) == parsed(name, new)
    except BadInput:  # the old one is of a cronce that knew other words
        return False


def _merged(words: Words, changes: Words) -> dict[str, Any]:
    replaced = {other for word in changes if changes[word] is not None for other in REPLACED_BY.get(word, ())}
    return {**{word: value for word, value in words.items() if word not in replaced}, **changes}


def _change(operator: Operator, name: str, change: Change) -> Flow[Stored | None]:
    """The definition that is there now; None if that means the same as before."""

    def changed(cell: Cell, now: Instant) -> tuple[Stored | None, Write | None]:
        stored = decode_stored(cell.value, cell.key) if cell.version else None
        text = change(stored)
        if stored and stored.definition is not None and text is not None and _same(name, stored.definition, text):
            return None, None
        new = Stored(stored.revision + 1 if stored else 1, text, operator.by, now)
        return new, Write(cell.key, cell.version, encode_notice(new), Mark.CLOSED if text is None else Mark.OPEN)

    return (yield from operator.ledger.client.rewrite(stored_cell(name), changed, NEWS))


def _refuse_missing(client: Client, name: str) -> Flow[None]:
    """Raise an error that explains why there is nothing to change, if there is not."""
    loaded, _ = yield from client.load([stored_cell(check_name(name)), job_cell(name)])
    stored, job = loaded.cells
    if stored.version:
        return
    if job.version:
        where = "is declared in code" if seen_job(job).is_scheduled else "is called by a crontab line, or by your code"
        raise CronceError(f"{name} {where}, and not kept in the store: change it there")
    refuse_unknown(name, (yield from job_names()))


def _refuse_in_code(client: Client, name: str) -> Flow[None]:
    """Two definitions of one name would take turns: what live processes have in their code is changed there. A job that
    the store has is not in their code; a process may carry it, and have its version on record a moment later."""
    carried = yield from _carried(name)
    if not carried:
        return
    loaded, _ = yield from client.load([job_cell(name), stored_cell(name)])
    cell, stored = loaded.cells
    if stored.version and decode_stored(stored.value, stored.key).definition is not None:
        return
    specs = decode_job(cell.value, cell.key).specs if cell.version else ()
    if carried - {spec.digest for spec in specs if "revision" in read_spec(spec.text)}:
        raise BadInput(
            f"live processes have a job {name} in their code; change it there, or give this one another name"
        )


def _carried(name: str) -> Flow[set[str]]:
    """Which versions of the job live processes carry."""
    _, live = yield from holders()
    carried = set()
    for bundle in {one.holder.bundle for one in live}:
        carried.add((yield from read_bundle(bundle)).specs.get(name, ""))
    return carried - {""}


# --- reading them ---------------------------------------------------------------------------------------------------


class StoredJob(NamedTuple):
    """A job as the store has it; with a `trouble` it cannot be read."""

    name: str
    revision: int = 0
    definition: str = ""
    trouble: str = ""


def definitions() -> Flow[list[StoredJob]]:
    """All that were not removed."""
    cells = (yield from read_all(Scan("stored/", mark=Mark.OPEN))).cells
    return [_stored_job(cell) for cell in cells]


def _stored_job(cell: Cell) -> StoredJob:
    name = cell.key.removeprefix("stored/")
    try:
        stored = decode_stored(cell.value, cell.key)
    except BadRecord as error:
        return StoredJob(name, trouble=str(error))
    return StoredJob(name, stored.revision, stored.definition or "")


def listed() -> Flow[tuple[Instant, list[JobLine]]]:
    """All jobs, with the definitions of those in the store; also those that no process has carried yet."""
    jobs = yield from read_all(Scan("job/"))
    stored = yield from read_all(Scan("stored/"))
    now, cells = jobs.now, {cell.key: cell for cell in (*jobs.cells, *stored.cells)}
    names = {key.partition("/")[2] for key in cells}
    lines = lines_in(sorted(names), cells, now)
    latest = yield from latest_runs([line.seen for line in lines], 1)
    return now, [line._replace(last=next(iter(latest[line.seen.name]), None)) for line in lines]


def lines_in(names: Iterable[str], cells: Mapping[str, Cell], now: Instant) -> list[JobLine]:
    """Jobs by the content of their cells, without a run; a job that is gone is left out."""
    found = (line_of(name, cells.get(job_cell(name)), cells.get(stored_cell(name)), now) for name in names)
    return [line for line in found if line is not None]


def line_of(name: str, job: Cell | None, cell: Cell | None, now: Instant) -> JobLine | None:
    seen = seen_job(job) if job and job.version else None
    if cell and cell.version:
        seen = seen_stored(name, seen, cell)
    if seen is None:
        return None  # removed, and nothing is left of it
    line = JobLine(seen, seen.next(now))
    stored = readable(cell, decode_stored) if cell and cell.version else None
    if stored is None or (stored.definition is None and "revision" not in seen.policies):
        return line  # removed, and there is one of that name in code now
    return line._replace(stored=stored, next=line.next if stored.definition else None)


def seen_stored(name: str, seen: JobSeen | None, cell: Cell) -> JobSeen | None:
    """A job as it was seen or, before a process has carried it, as it will be by its definition in the store. It may be
    paused or asked for by then, and have no version on record all the same."""
    if seen is not None and (seen.job is None or seen.job.specs):
        return seen
    try:
        stored = decode_stored(cell.value, cell.key)
        if stored.definition is None:
            return seen
        declared = parsed(name, stored.definition).job._replace(revision=stored.revision)
    except (BadRecord, BadInput) as error:
        return seen or JobSeen(name, None, trouble=str(error))
    digest, text = declared.spec
    known = seen.job if seen and seen.job else Job(stored.at)
    value = encode_job(known._replace(specs=(Spec(digest, stored.at, text),)))
    return seen_job(Cell(job_cell(name), value=value))


# --- which of them a process runs, and how ----------------------------------------------------------------------------

# *Anyone who can write to the store can define a job*, and that must not be enough to run code. A process runs only
# what it was started to allow, by patterns; without any, nothing. A definition is matched against them before anything
# of it is imported or looked up. What a process cannot run it logs once, and leaves to the others.

COMMAND_PATTERN: Final = "command:"
"""What a pattern for commands begins with."""


class RunnableJob(NamedTuple):
    """A stored job that this process runs, and what makes its body."""

    job: Declaration
    work: Callable[[], Work]


class RunnableStoredJobs:
    """The stored jobs of one process. `declared` are those in its own code, which go before."""

    def __init__(self, allow: Sequence[str], bodies: BodyRunners, declared: Container[str] = ()) -> None:
        self._allow = _patterns(allow)
        self._bodies = bodies
        self._declared = declared
        self._known: Mapping[str, tuple[StoredJob, RunnableJob | None]] = MappingProxyType({})
        self._told = False

    def carry(self, stored: Iterable[StoredJob]) -> dict[str, RunnableJob]:
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
                "the stored job %s%s is not run by this process, which allows no stored jobs: see --allow,"
                " cron.run(allow=[…])",
                shown(stored[0].name),
                others,
            )
        return []

    def _carried(self, one: StoredJob) -> RunnableJob | None:
        try:
            return self._resolved(one)
        except BaseException as error:  # whatever is wrong with one must not keep this process from the others
            LOGGER.warning(
                "the stored job %s, revision %s, is not run by this process: %s", shown(one.name), one.revision, error
            )
            return None

    def _resolved(self, one: StoredJob) -> RunnableJob:
        if one.trouble:
            raise BadRecord(one.trouble)
        if one.name in self._declared:
            raise BadInput("its own code has a job of that name")
        definition = parsed(one.name, one.definition)
        if not any(allows(pattern, definition) for pattern in self._allow):
            target = f"{COMMAND_PATTERN}{definition.command[0]}" if definition.command else definition.function
            raise BadInput(f"it does not allow {target!r:.120}; see the option --allow")
        job = definition.job._replace(revision=one.revision)
        if definition.command:
            return RunnableJob(job, partial(self._bodies.command, definition.command))
        return RunnableJob(job, self._work(job.name, definition))

    def _work(self, name: str, definition: Definition) -> Callable[[], Work]:
        fn = _function(definition.function)
        isolated = partial(self._bodies.isolated, place_of(fn)) if definition.isolate else None
        work: Callable[[], Work] | None = guarded(name, fn, None, _uncalled, isolated).work
        if work is None:
            raise BadInput(f"{definition.function} cannot be called without arguments")
        return work


def _uncalled(*_call: object) -> Never:
    raise AssertionError("a stored job has no guard to call")


def _patterns(allow: Sequence[str]) -> tuple[str, ...]:
    if not all(one.startswith(COMMAND_PATTERN) or one.count(":") == 1 for one in allow):
        raise BadInput(f"allow is a list of patterns like 'myapp.tasks:*' or 'command:./scripts/*', not {allow!r:.80}")
    return tuple(allow)


def allows(pattern: str, definition: Definition) -> bool:
    """A pattern for commands is none for functions, though a module may be called `command`. In a path a * matches one
    part, and nothing leads out of it: `./scripts/*` is not `./scripts/../../bin/sh`."""
    if pattern.startswith(COMMAND_PATTERN) != bool(definition.command):
        return False
    if not definition.command:
        return fnmatchcase(definition.function, pattern)
    wanted, parts = pattern.removeprefix(COMMAND_PATTERN).split("/"), definition.command[0].split("/")
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
        raise BadInput(f"{name} in {module} comes from {fn.__module__}: use that name")
    return cast(Callable[..., Any], fn)
