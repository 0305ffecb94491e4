"""Rules about how many containers run at a time, how often they run, and in which zone."""

import posixpath
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from cronce_audit.common import Command, ZoneSet
from cronce_audit.containers.facts import Image, Service
from cronce_audit.containers.oneshots import one_shot
from cronce_audit.containers.programs import program
from cronce_audit.containers.running import Run, containers, runs
from cronce_audit.containers.shell import simple_commands
from cronce_audit.crontab.hosts import homes
from cronce_audit.crontab.read import Line
from cronce_audit.folds import has_changes
from cronce_audit.model import Confidence, Facts, Found, Place, Rule, Severity, rule
from cronce_audit.processes.celery import is_agreed
from cronce_audit.processes.launches import every_launch, is_claimed


@rule(
    "CR610",
    "cron-in-every-copy",
    Severity.ERROR,
    Confidence.HIGH,
    remedy="run cron in one container only; or let every copy try and one win: `cronce exec` before each command",
)
def _copies(facts: Facts) -> Iterator[Found]:
    crons = [
        run
        for run in facts.conclude(runs)
        if run.program.kind == "cron" and run.certain and not _all_guarded(facts, run.container.image)
    ]
    for run in crons:
        service = run.container.service
        if service is not None and service.copies is not None and service.copies > 1:
            yield _in_each(run.program.name, service.copies, service.name, service.copies_place, _sureness(run))
    for command in facts.of(Command):
        guarded = command.origin != "kubernetes" or _all_guarded(facts, None)
        if not guarded and command.copies is not None and command.copies > 1:
            for found in filter(None, map(program, simple_commands(command.words))):
                if found.kind == "cron":
                    yield _in_each(found.name, command.copies, command.unit, command.place, Confidence.HIGH)
    yield from _twice(crons)


def _in_each(name: str, copies: int, unit: str, place: Place, sure: Confidence) -> Found:
    message = f"`{name}` runs in each of the {copies} copies of `{unit}`: every line runs {copies} times"
    return Found(place, message, sure)


def _sureness(run: Run) -> Confidence:
    return Confidence.MEDIUM if run.script or not run.program.sure else Confidence.HIGH


def _twice(crons: list[Run]) -> Iterator[Found]:
    """Services of one file that have the cron of the same image: its command, or what its entrypoint starts."""
    users: dict[tuple[str, Place], list[tuple[Service, Run]]] = defaultdict(list)
    for run in crons:
        service = run.container.service
        if service is not None and not service.on_demand and run.place.path != service.place.path:
            users[service.place.path, run.place].append((service, run))
    for (_, place), found in users.items():
        (first, _), *others = found
        for service, run in others:
            yield Found(
                service.place,
                f"`{first.name}` and `{service.name}` both start the cron of their image ({place}): every line of its "
                "crontab runs in both",
                _sureness(run),
            )


def _all_guarded(facts: Facts, image: Image | None) -> bool:
    """Of the crontabs that an image takes; of all that there are, where it is not told which those are."""
    known = facts.conclude(homes)
    taken = [line for line in facts.of(Line) if image is not None and image.path in known[line.place.path].images]
    lines = taken or facts.of(Line)
    return bool(lines) and all(line.guard == "cronce" for line in lines)


@rule(
    "CR611",
    "new-copy-before-the-old-stops",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="take `stop-first`, the default, for what must not run twice; or claim each run with cronce, and overlap",
)
def _order(facts: Facts) -> Iterator[Found]:
    yield from _started_first(facts)
    for run in facts.conclude(runs):
        service = run.container.service
        if service and service.order and _fires_twice(run, facts):
            yield Found(
                service.order.place,
                f"an update starts the new `{service.name}` before the old one stops: until then `{run.program.name}` "
                "runs in both, and both start what is due",
                _sureness(run),
            )


def _started_first(facts: Facts) -> Iterator[Found]:
    """The same of an app that starts a scheduler inside; the order may stand in a file that is laid over."""
    launched = {
        (posixpath.dirname(launch.by.by.command.place.path), launch.by.by.name): launch
        for launch in facts.conclude(every_launch)
        if launch.start.kind == "scheduler" and launch.by and launch.by.by and not is_claimed(launch, facts, far=True)
    }
    for service in facts.of(Service):
        launch = launched.get((posixpath.dirname(service.place.path), service.name))
        if service.order and launch:
            yield Found(
                service.order.place,
                f"an update starts the new `{service.name}` before the old one stops: until then {launch.start.what} "
                f"({launch.start.place}) runs in both, and both start what is due",
                Confidence.LOW if launch.doubts else Confidence.MEDIUM,
                Severity.INFO if launch.doubts else None,
            )


def _fires_twice(run: Run, facts: Facts) -> bool:
    """Beside another of it; workers share what there is to do."""
    if run.program.kind == "worker" or run.program.agrees:
        return False
    return run.program.name != "celery beat" or not is_agreed(facts, run.place)


@rule(
    "CR612",
    "one-shot-restarts-for-ever",
    Severity.ERROR,
    Confidence.HIGH,
    remedy='write `restart: "no"` or `on-failure`, and let a scheduler start it when it is due',
)
def _restart(facts: Facts) -> Iterator[Found]:
    for container in facts.conclude(containers):
        service = container.service
        if service and service.restart and service.restart.value in ("always", "unless-stopped"):
            name = one_shot(_last(container.start.words))
            if name and not _waits(container.start.words):
                yield Found(
                    service.restart.place,
                    f"`{name}` ({container.start.place}) ends when its work is done, and "
                    f"`restart: {service.restart.value}` starts `{service.name}` again: it is repeated for ever",
                )


def _waits(words: tuple[str, ...]) -> bool:
    """`sleep 3600 && …`: being started again is how it is repeated."""
    return any(command[:1] == ("sleep",) for command in simple_commands(words))


def _last(words: tuple[str, ...]) -> tuple[str, ...]:
    """What runs last, also behind a shell: the container ends with it."""
    *_, last = ((), *simple_commands(words))
    return last


@rule(
    "CR620",
    "container-not-in-utc",
    Severity.INFO,
    Confidence.HIGH,
    remedy="leave TZ out, so that the container is in UTC, and say the zone where the schedule stands, if it needs one",
)
def _zone(facts: Facts) -> Iterator[Found]:
    found = {
        (zone, run.program.name): run
        for zone in facts.of(ZoneSet)
        for run in facts.conclude(runs)
        if run.program.kind != "worker" and _is_in(run, zone) and has_changes(zone.zone, facts.year)
    }
    for (zone, name), run in found.items():
        yield Found(
            zone.place,
            f"`{name}` ({run.place}) runs in {zone.zone}, whose clocks change: fixed times of those nights come twice "
            "or never",
        )


def _is_in(run: Run, zone: ZoneSet) -> bool:
    service, image = run.container.service, run.container.image
    if service is not None:
        return zone.unit == service.name and zone.place.path == service.place.path
    return image is not None and zone.unit == image.path


RULES: Final[tuple[Rule, ...]] = (_copies, _order, _restart, _zone)
