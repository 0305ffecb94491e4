"""From the commands of a tree to what they serve or run, in how many processes.

`facts.conclude(servings)` are the web servers, `facts.conclude(runnings)` the plain Python programs, and
`facts.conclude(celeries)` what Celery is told to be.
"""

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import PurePosixPath
from typing import Final, Literal, NamedTuple

from cronce_audit.containers.facts import Service
from cronce_audit.containers.running import Scripts
from cronce_audit.containers.shell import is_shell
from cronce_audit.model import CommandLine as Command
from cronce_audit.model import Confidence, Facts, Found, Origin, Place, Severity, is_for_development, rule
from cronce_audit.processes.argv import ONE, Argv, Count, KnownProgram, behind, count, programs, role, told_in
from cronce_audit.processes.units import Unit, units
from cronce_audit.python.facts import Bound, Call, Called, Const, Items, Operation, Table, Value, shown
from cronce_audit.python.names import names


@dataclass(frozen=True, slots=True)
class Serving:
    """A web server that is started, with the app it serves."""

    server: str
    app: str
    """`pkg.mod:app` as the server is told; "" where it is not, as with manage.py."""
    workers: Count
    place: Place
    by: Unit | None = None
    """Who starts it; None where code does."""
    preload: bool = False
    """The app is imported once, before the workers are forked."""
    config: str = ""
    """The file of settings that it is told to read, or would find; "" is none."""
    counted: str = ""
    """That file, if it says how many workers there are."""
    decided: bool = False
    """Somebody says how many workers there are; it is not the default."""
    watches: bool = False
    """It starts again when a file changes: that is for people who work on the code."""

    @property
    def copies(self) -> Count:
        """Of the whole server: replicas, scale."""
        return self.by.copies if self.by else ONE

    @property
    def module(self) -> str:
        return self.app.partition(":")[0]


class Celery(NamedTuple):
    """A celery worker or beat that is started."""

    kind: Literal["worker", "worker with beat", "beat"]
    app: str
    scheduler: str
    """The class that decides what is due; "" where none is given."""
    copies: Count
    command: Command
    by: Unit
    beside: bool
    """The script that starts it goes on meanwhile."""

    @property
    def place(self) -> Place:
        return self.command.place

    @property
    def origin(self) -> Origin:
        return self.command.origin

    @property
    def unit(self) -> str:
        return self.by.name

    @property
    def sureness(self) -> Confidence:
        return self.by.confidence


class Started(NamedTuple):
    """A program, and the command it stands in."""

    argv: Argv
    command: Command
    place: Place
    """Of its words."""
    by: Unit
    """Who starts it, or the script that has the command."""
    script: str | None = ""
    """The script of this tree that starts it; "" if none does, None for a script that is not seen."""
    certain: bool = True
    """It is started under no condition."""

    @property
    def copies(self) -> Count:
        return self.by.copies

    @property
    def folder(self) -> str:
        """Of the file that has the words: what they name is below it."""
        return str(PurePosixPath(self.place.path).parent)

    @property
    def role(self) -> KnownProgram | None:
        return role(self.argv)

    @property
    def what(self) -> str:
        """Of a Python program: a module as `-m` has it, or the path of a file; "" of any other."""
        program = self.argv.program
        return program.removeprefix("-m ") if program.startswith("-m ") or program.endswith(".py") else ""


def started(facts: Facts) -> Sequence[Started]:
    """Every program that is started, also through a script or an image of this tree."""
    scripts = Scripts(facts)
    return [
        one
        for unit in facts.conclude(units)
        for argv in programs(unit.command.words, dict(unit.command.environment))
        for one in _followed(Started(_in_alpine(argv, unit), unit.command, unit.words_at, unit), scripts)
    ]


def _in_alpine(argv: Argv, unit: Unit) -> Argv:
    """BusyBox's shell makes way for the last program."""
    makes_way = argv.lingers is None and unit.container is not None and unit.container.is_alpine
    return argv._replace(lingers=False) if makes_way else argv


def _followed(one: Started, scripts: Scripts) -> Iterator[Started]:
    """It, and if it is a script what that starts: its own commands, the system's cron, and its arguments."""
    yield one
    argv, unit = one.argv, one.by
    words = [argv.program, *argv.arguments]
    if is_shell(argv.program):
        words = list(dropwhile(lambda word: word.startswith(("-", "+")), argv.arguments))
    path = scripts.find(words[0], unit.dockerfile, one.place) if words and one.command.origin != "script" else None
    if path is None:
        is_script = words[:1] == [argv.program] and words[0].endswith((".sh", "entrypoint"))
        for inner in behind(argv.arguments, argv.environment) if is_script else ():
            yield from _followed(one._replace(argv=inner, script=None), scripts)
        return
    entry = scripts.entries[path]
    for command in scripts.lines[path]:
        for inner in programs(command.words, {**argv.environment, **dict(command.environment)}):
            lingers = inner.lingers or (command.shell and not entry.passes_on)
            yield Started(
                inner._replace(lingers=lingers, has_init=argv.has_init),
                command, command.place, unit, path, command.certain,
            )  # fmt: skip
    for inner in programs(words[1:], argv.environment) if entry.gives_way or entry.arguments else ():
        if entry.gives_way:
            has_init = inner.has_init or argv.has_init or entry.passes_on
            yield from _followed(one._replace(argv=inner._replace(has_init=has_init)), scripts)
        elif entry.arguments:
            stays = inner._replace(lingers=not entry.passes_on, has_init=argv.has_init)
            yield one._replace(argv=stays, place=entry.arguments, script=path)


def runnings(facts: Facts) -> Sequence[Started]:
    """The Python programs that are started as such."""
    return [one for one in facts.conclude(started) if one.what]


def celeries(facts: Facts) -> Sequence[Celery]:
    """The workers and beats that are started."""
    return [celery for one in facts.conclude(started) if one.argv.program == "celery" and (celery := _celery(one))]


def _celery(one: Started) -> Celery | None:
    told, copies = told_in(one.argv.arguments), one.copies
    kind = next(iter(told.words), "")
    if kind == "multi" and told.words[1:2] in (["start"], ["restart"]):
        nodes = count(told.words[2]) if told.words[2:3] and told.words[2].isdigit() else Count(len(told.words) - 2)
        kind, copies = "worker", copies.times(nodes)
    if kind not in ("worker", "beat"):
        return None
    return Celery(
        "beat" if kind == "beat" else "worker with beat" if told.has("-B", "--beat") else "worker",
        told.value("-A", "--app") or one.argv.environment.get("CELERY_APP", ""),
        told.value("--scheduler", *(["-S"] if kind == "beat" else [])) or "",  # a worker's -S is its state file
        copies,
        one.command,
        one.by,
        one.command.beside or told.has("--detach"),
    )


_AGREEING: Final = ("redbeat", "cronce")
"""Schedulers of beat that let one of several send."""
_SCHEDULER: Final = frozenset({"beat_scheduler", "celery_beat_scheduler", "celerybeat_scheduler"})
SCHEDULE: Final = frozenset({"beat_schedule", "celery_beat_schedule", "celerybeat_schedule"})
_TOGETHER: Final = frozenset({"compose", "procfile"})
"""What stands in one such file is started together."""
_SAFE: Final = (
    "give beat a scheduler that several beats can share, and run as many as you like: `-S cronce`, or RedBeat"
)


def settings_called(facts: Facts, wanted: frozenset[str]) -> Iterator[tuple[str, Value, Place, str]]:
    """Settings of Celery by these names, in lower case: assigned, or passed to `conf.update`. The name in full, the
    value, the place and the module."""
    for bound in facts.of(Bound):
        name = bound.name.rpartition(".")[2].lower()
        if name.partition("[")[0] in wanted:
            yield name, bound.value, bound.place, bound.scope.module
    for call in facts.conclude(names).calls("update", "Celery", "dict"):
        for name, value in call.called.keywords:
            if name in wanted:
                yield name, value, call.place, call.scope.module


def same_entries(facts: Facts) -> Iterator[Found]:
    """Entries of one schedule that send the same task at the same times, or under what was meant as one name."""
    for _, value, _, _ in settings_called(facts, SCHEDULE):
        first: dict[tuple[str, ...], str] = {}
        for key, entry in value.pairs if isinstance(value, Table) else ():
            due = entry.get("schedule") if isinstance(entry, Table) else None
            if not isinstance(entry, Table) or not isinstance(due, Called) or not isinstance(key, Const):
                continue
            sent = tuple(shown(entry.get(part) or Const("")) for part in ("task", "args", "kwargs"))
            name = str(key.value)
            for same in ((*sent, shown(due)), (*sent, re.sub(r"\W|_", "", name.lower()))):
                if "…" not in same[0] and first.setdefault(same, name) != name:
                    yield Found(
                        due.place,
                        f"the entries `{first[same]}` and `{name}` both send {sent[0]}",
                        Confidence.MEDIUM,
                        Severity.INFO,
                        "keep one of the entries",
                    )
                    break


def agrees(celery: Celery, facts: Facts) -> bool:
    return any(word in celery.scheduler.lower() for word in _AGREEING) or is_agreed(facts)


def is_agreed(facts: Facts) -> bool:
    """Whether settings of Celery in this tree name a scheduler with which several beats agree."""
    said = [value for _, value, _, _ in settings_called(facts, _SCHEDULER) if isinstance(value, Const)]
    return any(word in str(value.value) for value in said for word in _AGREEING)


@rule(
    "CR211 beat-inside-a-worker",
    Severity.INFO,
    f"run `celery beat` as a process of its own, once; or {_SAFE} (of a worker, `--scheduler cronce`)",
)
def _embedded(facts: Facts) -> Iterator[Found]:
    for celery in facts.conclude(celeries):
        if celery.kind == "worker with beat" and not agrees(celery, facts):
            if celery.copies.is_several:
                yield Found(
                    celery.place,
                    f"each of the {celery.copies} workers of `{celery.unit}`{_elsewhere(celery)} runs a beat (-B): "
                    "every entry is sent as often",
                    celery.sureness,
                    severity=Severity.ERROR,
                )
            elif _is_deployed(celery):
                yield Found(
                    celery.place,
                    f"the worker of `{celery.unit}` runs a beat (-B): "
                    "a second worker would send every entry a second time",
                )
    for celery in _beside_workers(facts):
        yield Found(
            celery.place,
            f"`{celery.unit}` starts a beat beside its worker: a second copy would send every entry a second time",
        )
    yield from _by_code(facts)


_DEPLOYS: Final = re.compile(r"(?i)deploy|prod|docker|entrypoint|k8s|server")


def _is_deployed(celery: Celery) -> bool:
    """Not on a developer's machine; a script that nothing starts may be for that, unless its path says otherwise."""
    path = celery.place.path
    by_hand = celery.by.command.origin == "script" and not _DEPLOYS.search(path)
    return not by_hand and not is_for_development(path)


def _beside_workers(facts: Facts) -> Iterator[Celery]:
    """Beats in what also starts a worker: in the background of a script, or in a line of shell."""
    by_unit: dict[tuple[str, str], list[Celery]] = defaultdict(list)
    found: dict[Place, Celery] = {}
    for celery in facts.conclude(celeries):
        by_unit[celery.by.command.place.path, celery.unit].append(celery)
    for group in by_unit.values():
        workers = [celery for celery in group if celery.kind == "worker"]
        before = min((celery.place.line for celery in workers if celery.beside), default=None)
        beats = [
            one
            for one in group
            if one.kind == "beat"
            and (one.beside or one.origin != "script" or (before is not None and before < one.place.line))
        ]
        for celery in beats if workers else ():
            if not agrees(celery, facts) and not is_for_development(celery.place.path):
                found.setdefault(celery.place, celery)
    return iter(found.values())


def _by_code(facts: Facts) -> Iterator[Found]:
    """`app.worker_main(["worker", "-B"])`, also where the list is put together before."""
    calling = {call.scope.function: call for call in facts.conclude(names).calls("worker_main")}
    told = [(call.scope, value, call.place) for call in calling.values() for value in _given(call)]
    told += [(bound.scope, bound.value, bound.place) for bound in facts.of(Bound) if bound.scope.function in calling]
    for scope, value, place in told:
        items = value.values[0] if isinstance(value, Operation) and value.operator == "+=" else value
        beat = isinstance(items, Items) and {Const("-B"), Const("--beat")} & {*items.values}
        if beat and scope.function and not is_agreed(facts):
            yield Found(
                place,
                "each worker that is started here runs a beat (-B): with two workers every entry is sent twice",
                Confidence.MEDIUM,
            )


def _given(call: Call) -> Iterator[Value]:
    yield from (*call.called.args, *(value for _, value in call.called.keywords))


def _elsewhere(celery: Celery) -> str:
    """The place of the number, where it stands in another file."""
    place = celery.by.copies_at
    return f" ({place})" if place.path != celery.place.path else ""


@rule("CR212 several-beats", Severity.ERROR, f"run one beat; or {_SAFE}")
def _several(facts: Facts) -> Iterator[Found]:
    beats = [each for each in facts.conclude(celeries) if each.kind == "beat" and not agrees(each, facts)]
    for beat in beats:
        if beat.copies.is_several:
            yield Found(
                beat.place,
                f"{beat.copies} copies of `{beat.unit}` run a beat each: every entry is sent {beat.copies} times",
                beat.sureness,
            )
    yield from _together(facts)


def _together(facts: Facts) -> Iterator[Found]:
    """Two services, workloads or lines of a Procfile that send the entries of one app."""
    groups: dict[tuple[str, str], list[Celery]] = defaultdict(list)
    on_demand = {(service.place.path, service.name) for service in facts.of(Service) if service.on_demand}
    asked: dict[tuple[str, str], list[Celery]] = defaultdict(list)
    for each in facts.conclude(celeries):
        home = _home(each)
        if each.kind != "worker" and home and (each.place.path, each.unit) in on_demand:
            asked[home, each.app].append(each)
            home = ""
        if each.kind != "worker" and home and each.app and not agrees(each, facts):
            groups[home, each.app].append(each)
    for group in groups.values():
        first = group[0]
        for other in group[1:]:
            if other.unit != first.unit:
                near = first.place.path == other.place.path
                yield Found(
                    other.place,
                    f"`{first.unit}` ({f'line {first.place.line}' if near else first.place}) and `{other.unit}` both "
                    f"run a beat of {first.app}: every entry is sent by both",
                    None if near else Confidence.MEDIUM,
                )

    yield from _nested(groups)
    for key, named in asked.items():
        for first in groups.get(key, [])[:1]:
            yield Found(
                named[0].place,
                f"`{first.unit}` (line {first.place.line}) has no profile: `--profile` starts it beside "
                f"`{named[0].unit}`, and both run a beat of {first.app}",
                Confidence.MEDIUM,
                Severity.INFO,
                "give both a profile, so that each deployment has one beat",
            )


def _nested(groups: Mapping[tuple[str, str], Sequence[Celery]]) -> Iterator[Found]:
    """Manifests in a folder, and in one below it: `kubectl apply -R` takes both, and a person may."""
    for (home, app), below in groups.items():
        for (outer, other), above in groups.items():
            is_below = home.startswith(f"{outer}/") and not _VARIANT_FOLDERS.search(home.removeprefix(outer))
            if is_below and app == other and {below[0].origin, above[0].origin} == {"kubernetes"}:
                yield Found(
                    below[0].place,
                    f"`{above[0].unit}` ({above[0].place}) runs a beat of {app}, too: where both are applied, every"
                    " entry is sent by both",
                    Confidence.LOW,
                    Severity.INFO,
                    "apply one of them, and delete the other",
                )


_VARIANT_FOLDERS: Final = re.compile(r"(?i)overlay|base|dev|stag|prod|test|local|example|old|legacy|archive")


def _home(celery: Celery) -> str:
    """What is started together: one file; of Kubernetes one folder, which a chart or `kubectl apply -f` takes whole,
    though a condition may choose between two. "" where that is not known."""
    path = celery.place.path
    if celery.origin == "kubernetes":
        return posixpath.dirname(path) or "."
    return path if celery.origin in _TOGETHER else ""
