"""Celery: who runs a beat, and what is in its schedule."""

import posixpath
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce_audit.containers.facts import Service
from cronce_audit.model import Confidence, Facts, Found, Place, Rule, Severity, rule
from cronce_audit.processes.commands import Celery, celeries
from cronce_audit.python.facts import Bound, Call, Called, Const, Items, Name, Package, Table, Value
from cronce_audit.python.names import names

_AGREEING: Final = ("redbeat", "cronce")
"""Schedulers of beat that let one of several send."""
_SCHEDULER: Final = frozenset({"beat_scheduler", "celery_beat_scheduler", "celerybeat_scheduler"})
SCHEDULE: Final = frozenset({"beat_schedule", "celery_beat_schedule", "celerybeat_schedule"})
_TOGETHER: Final = frozenset({"compose", "procfile"})
"""What stands in one such file is started together."""
_SAFE: Final = "give beat a scheduler that agrees with the others, and run as many as you like: `-S cronce`, or RedBeat"


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


def agrees(celery: Celery, facts: Facts) -> bool:
    return any(word in celery.scheduler.lower() for word in _AGREEING) or is_agreed(facts, celery.place, celery.app)


def is_agreed(facts: Facts, place: Place, app: str = "") -> bool:
    """Whether the settings of Celery, for what is started at a place, name a scheduler with which several beats agree.
    Of several projects in one tree each has its own."""
    said = [(_root(at, facts), _is_agreeing(value)) for _, value, at, _ in settings_called(facts, _SCHEDULER)]
    others = {
        _root(bound.place, facts) for bound in facts.of(Bound) if bound.value == _CELERY or _is_celery(bound.value)
    }
    roots = {root for root, _ in said} | others
    if len(roots) < 2:
        return any(agreed for _, agreed in said)
    here = PurePosixPath(place.path).parent
    word = app.partition(".")[0].partition(":")[0]
    near = [
        (root, agreed)
        for root, agreed in said
        if here.is_relative_to(root) or (word and PurePosixPath(root).name == word) or _has(root, word, facts)
    ]
    own = max((len(PurePosixPath(root).parts) for root, _ in near), default=0)
    return any(agreed for root, agreed in near if len(PurePosixPath(root).parts) == own)


_CELERY: Final = Name("celery.Celery")


def _is_celery(value: Value) -> bool:
    return isinstance(value, Called) and value.function == _CELERY


def _is_agreeing(value: Value) -> bool:
    return isinstance(value, Const) and any(word in str(value.value) for word in _AGREEING)


def _root(place: Place, facts: Facts) -> str:
    """The folder of the project that a file is in: the first above its packages."""
    packages = facts.conclude(_package_folders)
    folder = PurePosixPath(place.path).parent
    while str(folder) in packages:
        folder = folder.parent
    return str(folder)


def _package_folders(facts: Facts) -> frozenset[str]:
    return frozenset(package.name.replace(".", "/") for package in facts.of(Package))


def _has(root: str, word: str, facts: Facts) -> bool:
    """Whether the app's package is in that folder."""
    return bool(word) and str(PurePosixPath(root) / word) in facts.conclude(_package_folders)


@rule(
    "CR211",
    "beat-inside-a-worker",
    Severity.INFO,
    Confidence.HIGH,
    remedy=f"run `celery beat` as a process of its own, once; or {_SAFE} (of a worker, `--scheduler cronce`)",
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
            else:
                yield Found(
                    celery.place,
                    f"the worker of `{celery.unit}` runs a beat (-B): "
                    "a second worker would send every entry a second time",
                )


def _elsewhere(celery: Celery) -> str:
    """The place of the number, where it stands in another file."""
    place = celery.by.copies_at
    return f" ({place})" if place.path != celery.place.path else ""


@rule("CR212", "several-beats", Severity.ERROR, Confidence.HIGH, remedy=f"run one beat; or {_SAFE}")
def _several(facts: Facts) -> Iterator[Found]:
    beats = [each for each in facts.conclude(celeries) if each.kind == "beat" and not agrees(each, facts)]
    for beat in beats:
        if beat.copies.is_several and not (beat.origin == "kubernetes" and _elsewhere(beat)):  # CR520 tells that
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


def _home(celery: Celery) -> str:
    """What is started together: one file; of Kubernetes one folder, which a chart or `kubectl apply -f` takes whole,
    though a condition may choose between two. "" where that is not known."""
    path = celery.place.path
    if celery.origin == "kubernetes":
        return posixpath.dirname(path) or "."
    return path if celery.origin in _TOGETHER else ""


class _Entry(NamedTuple):
    """One line of a schedule: under its name, what is sent when."""

    name: str
    place: Place
    what: tuple[Value, ...]


@rule(
    "CR213",
    "entry-twice-in-the-schedule",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="remove one of them; entries are known by their names, and two names are two messages",
)
def _twice(facts: Facts) -> Iterator[Found]:
    seen: dict[tuple[str, tuple[Value, ...]], _Entry] = {}
    for module, entry in [*_entries(facts), *_added(facts)]:
        first = seen.setdefault((module, entry.what), entry)
        if first is not entry and first.name != entry.name:
            yield Found(
                entry.place,
                f"`{entry.name}` and `{first.name}` ({first.place}) send the same task, with the same arguments, "
                "at the same times: it runs twice",
            )


def _entries(facts: Facts) -> Iterator[tuple[str, _Entry]]:
    for name, value, place, module in settings_called(facts, SCHEDULE):
        pairs: Sequence[tuple[Value, Value]] = value.pairs if isinstance(value, Table) else ()
        if name.endswith("]"):
            pairs = [(Const(name[:-1].partition("[")[2]), value)]
        for key, each in pairs:
            entry = _entry(key, each, place)
            if entry is not None:
                yield module, entry


def _entry(key: Value, value: Value, place: Place) -> _Entry | None:
    if not isinstance(key, Const) or not isinstance(value, Table) or value.splat:
        return None
    schedule = value.get("schedule")
    what = (_plain(schedule), *(_plain(value.get(word)) for word in ("task", "args", "kwargs", "options")))
    if not _is_known(what) or not isinstance(value.get("task"), Const):
        return None
    return _Entry(str(key.value), schedule.place if isinstance(schedule, Called) else place, what)


def _added(facts: Facts) -> Iterator[tuple[str, _Entry]]:
    """`sender.add_periodic_task(crontab(hour=7), report.s("daily"), name="daily report")`."""
    for call in facts.conclude(names).calls("add_periodic_task"):
        what = tuple(map(_plain, call.called.args))
        if len(what) > 1 and _is_known(what) and not call.called.splat and not call.scope.loop:
            yield call.scope.module, _Entry(_name(call), call.place, what)


def _name(call: Call) -> str:
    named = call.called.keyword("name")
    return str(named.value) if isinstance(named, Const) else f"the entry of line {call.place.line}"


def _plain(value: Value | None) -> Value:
    """Without the places of calls, so that two that are written alike are alike."""
    nowhere = Place("", 0)
    match value:
        case None:
            return Const(None)
        case Called(function, args, keywords, splat, _):
            plain = tuple(sorted((name, _plain(each)) for name, each in keywords))
            return Called(function, tuple(map(_plain, args)), plain, splat, nowhere)
        case Items(values, splat):
            return Items(tuple(map(_plain, values)), splat)
        case Table(pairs, splat):
            return Table(tuple((_plain(key), _plain(each)) for key, each in pairs), splat)
    return value


def _is_known(values: tuple[Value, ...]) -> bool:
    """All through: what we do not know may differ."""
    for value in values:
        match value:
            case Const() | Name():
                pass
            case Called(_, args, keywords, False):
                if not _is_known((*args, *(each for _, each in keywords))):
                    return False
            case Items(inner, False):
                if not _is_known(inner):
                    return False
            case Table(pairs, False):
                if not _is_known(tuple(each for pair in pairs for each in pair)):
                    return False
            case _:
                return False
    return True


RULES: Final[tuple[Rule, ...]] = (_embedded, _several, _twice)
