"""Rules about containers: who gets TERM, copies of a cron, updates, time zones."""

import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final

from cronce_audit.clocks import has_changes
from cronce_audit.containers.facts import Image, Service
from cronce_audit.containers.running import ContainerProgram, program, runs
from cronce_audit.containers.shell import simple_commands
from cronce_audit.crontab.read import CronLine, homes
from cronce_audit.model import CommandLine, Confidence, Facts, Found, Place, Severity, ZoneSet, rule
from cronce_audit.processes.commands import is_agreed
from cronce_audit.processes.rules import every_launch, is_claimed

_DEAF: Final = (
    "TERM does not reach it: it keeps running, next to the new copy if that is already up, until it is killed in"
    " the middle of its work"
)

_UNTOLD: Final = (
    "it and its jobs get no signal when the container stops (they are killed with it), and its death goes unnoticed"
)


@rule(
    "CR601 shell-swallows-term",
    Severity.INFO,
    'let it be a child of an init that passes TERM on, `init: true` or `ENTRYPOINT ["tini", "--"]`, and take '
    'the shell out of the way: `sh -c "… && exec program"`',
)
def _shell(facts: Facts) -> Iterator[Found]:
    for run in _each_place(facts, lambda run: not (run.script or run.container.inherits or _is_cron(run))):
        if run.lingers:
            message = f"`{run.program.name}` runs behind a shell that stays process 1 of {run.container.name}: {_DEAF}"
            yield Found(run.place, message, _sureness(run), remedy=_heard(run, _AS_LIST))
        elif run.lingers is None:
            yield Found(
                run.place,
                f"`{run.program.name}` runs behind `sh -c` in {run.container.name}: where that is Debian's dash, it "
                "stays process 1 and does not pass on TERM (bash and BusyBox's ash make way for the program)",
                Confidence.LOW,
                remedy=_heard(run, _AS_LIST),
            )


_HANDLES: Final = frozenset(
    {"celery", "rq", "rqworker", "rqscheduler", "huey_consumer", "dramatiq", "supercronic", "airflow"}
)
"""Programs that handle TERM themselves: the kernel ignores it for any other process 1."""
_AS_LIST: Final = (
    'write the command as a list, `CMD ["program", "argument"]`, or with `exec`: `sh -c "… && exec program"`'
)
_WITH_EXEC: Final = (
    'put `exec` before it (`exec "$@"`, `exec celery …`), so that the program takes the place of the script'
)


def _each_place(facts: Facts, is_meant: Callable[[ContainerProgram], bool]) -> Iterable[ContainerProgram]:
    """Those that are not behind an init, the first of each place: several services may start the same."""
    found = [run for run in facts.conclude(runs) if not run.container.init and is_meant(run)]
    return {run.place: run for run in reversed(found)}.values()


def _heard(run: ContainerProgram, plain: str) -> str:
    """The fix. As process 1 a program that does not handle TERM ignores it, so it needs an init above it."""
    if run.program.name.split()[0] in _HANDLES:
        return plain
    return f"{plain}; and put an init above it, as process 1 ignores TERM unless it handles it: `init: true`, or tini"


def _is_cron(run: ContainerProgram) -> bool:
    """A cron for machines, which has a rule of its own."""
    return run.program.name in ("cron", "crond")


def _sureness(run: ContainerProgram) -> Confidence:
    return Confidence.HIGH if run.program.sure else Confidence.MEDIUM


@rule(
    "CR602 entrypoint-without-exec",
    Severity.INFO,
    'put `exec` before it (`exec "$@"`, `exec celery …`), so that it takes the place of the script; and '
    "an init above it (`init: true`, tini) if it does not handle TERM",
)
def _entrypoint(facts: Facts) -> Iterator[Found]:
    for run in _each_place(facts, lambda run: bool(run.script and run.lingers and run.program.kind != "cron")):
        message = (
            f"`{run.program.name}` is started without `exec` by a script that is process 1 of {run.container.name} "
            f"({run.container.start.place}): {_DEAF}"
        )
        yield Found(run.place, message, _sureness(run), remedy=_heard(run, _WITH_EXEC))


@rule(
    "CR604 cron-does-not-hear-the-stop",
    Severity.INFO,
    "run a cron that is made for containers as process 1 (supercronic waits for its jobs at TERM), or the jobs"
    " under `cronce run`; `init: true` or tini before cron ends the overlap, but the jobs are still killed",
)
def _cron(facts: Facts) -> Iterator[Found]:
    told: dict[Place, Found] = {}
    for run in facts.conclude(runs):
        why = _why_deaf(run) if _is_cron(run) and not run.container.inherits else None
        if why:
            told.setdefault(run.place, Found(run.place, f"`{run.program.name}` {why}"))
    yield from told.values()


def _why_deaf(run: ContainerProgram) -> str | None:
    if run.program.detaches:
        return None if run.script and not run.lingers else f"runs in the background of {run.container.name}: {_UNTOLD}"
    if run.container.init or not (run.lingers or _ignores_term(run)):
        return None
    name = run.container.name
    how = f"runs behind a shell that is process 1 of {name}" if run.lingers else f"as process 1 of {name} ignores TERM"
    return (
        f"{how}: it keeps starting jobs, next to the new copy if that is already up, until it is killed together"
        " with them"
    )


def _ignores_term(run: ContainerProgram) -> bool:
    """Debian's and BusyBox's do (measured), cronie's does not; others are not known."""
    image = run.container.image
    return (image.engine if image else "") in (("debian", "") if run.program.name == "cron" else ("busybox",))


@rule(
    "CR610 cron-in-every-copy",
    Severity.ERROR,
    "run cron in one container only; or let every copy try and one win: `cronce exec` before each command",
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
            yield _in_each(run.program.name, service.copies, service.name, service.copies_place, _cron_sureness(run))
    for command in facts.of(CommandLine):
        guarded = command.origin != "kubernetes" or _all_guarded(facts, None)
        if not guarded and command.copies is not None and command.copies > 1:
            for found in filter(None, map(program, simple_commands(command.words))):
                if found.kind == "cron":
                    yield _in_each(found.name, command.copies, command.unit, command.place, Confidence.HIGH)
    yield from _beside_web(facts)


_WEB_SERVER: Final = re.compile(
    r"nginx|php-fpm[\d.]*|apache2?(?:-foreground|ctl)?|httpd(?:-foreground)?|caddy|frankenphp|gunicorn|uvicorn|uwsgi|puma"
)


def _beside_web(facts: Facts) -> Iterator[Found]:
    """Cron in the container of a web app: a script, or supervisor, starts both."""
    by_file: dict[str, list[CommandLine]] = defaultdict(list)
    for command in facts.of(CommandLine) if not _all_guarded(facts, None) else ():
        if command.origin in ("supervisor", "script"):
            by_file[command.place.path].append(command)
    for commands in by_file.values():
        crons = [one for one in commands if (found := program(one.words)) and found.kind == "cron"]
        served = [
            one for one in commands if any(_WEB_SERVER.fullmatch(PurePosixPath(word).name) for word in one.words[:2])
        ]
        if crons and served:
            yield Found(
                crons[0].place,
                f"cron runs in the container of the web app (`{served[0].words[0]}`, line {served[0].place.line}): a"
                " second copy of it runs every line of the crontab once more",
                Confidence.MEDIUM,
                Severity.INFO,
            )


def _in_each(name: str, copies: int, unit: str, place: Place, sure: Confidence) -> Found:
    message = f"`{name}` runs in each of the {copies} copies of `{unit}`: every line runs {copies} times"
    return Found(place, message, sure)


def _cron_sureness(run: ContainerProgram) -> Confidence:
    return Confidence.MEDIUM if run.script or not run.program.sure else Confidence.HIGH


def _all_guarded(facts: Facts, image: Image | None) -> bool:
    """Whether cronce guards all lines of the crontabs that an image copies; of all crontabs, if these are not known."""
    known = facts.conclude(homes)
    taken = [line for line in facts.of(CronLine) if image is not None and image.path in known[line.place.path].images]
    lines = taken or facts.of(CronLine)
    return bool(lines) and all(line.guard == "cronce" for line in lines)


_STOP_FIRST: Final = (
    "use `stop-first`, the default, for what must not run twice; or claim each run with cronce, then overlap does no"
    " harm"
)


def started_first(facts: Facts) -> Iterator[Found]:
    """Services of which an update starts the new copy before the old one stops. The order may be set in an override."""
    launched = {
        (posixpath.dirname(launch.by.by.command.place.path), launch.by.by.name): launch
        for launch in facts.conclude(every_launch)
        if launch.start.kind == "scheduler" and launch.by and launch.by.by and not is_claimed(launch, facts, far=True)
    }
    for service in facts.of(Service):
        launch = launched.get((posixpath.dirname(service.place.path), service.name))
        if service.order and launch:
            sure, loud = Confidence.MEDIUM, Severity.WARNING
            if launch.doubts:
                sure, loud = Confidence.LOW, Severity.INFO
            yield _in_both(service, f"{launch.start.what} ({launch.start.place})", sure, loud)
    for run in facts.conclude(runs):
        service_of = run.container.service
        if service_of and service_of.order and _fires_twice(run, facts):
            yield _in_both(service_of, f"`{run.program.name}`", _cron_sureness(run), Severity.WARNING)


def _in_both(service: Service, what: str, sure: Confidence | None, severity: Severity) -> Found:
    message = f"an update starts the new `{service.name}` before the old one stops: until then {what} runs in both, and"
    place = service.order.place if service.order else service.place
    return Found(place, f"{message} both start what is due", sure, severity, _STOP_FIRST)


def _fires_twice(run: ContainerProgram, facts: Facts) -> bool:
    """Whether two copies would start the same jobs; workers share them."""
    if run.program.kind == "worker" or run.program.agrees:
        return False
    return run.program.name != "celery beat" or not is_agreed(facts)


@rule(
    "CR620 container-not-in-utc",
    Severity.INFO,
    "leave TZ out, so that the container is in UTC, and set the zone next to the schedule, if it needs one",
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


def _is_in(run: ContainerProgram, zone: ZoneSet) -> bool:
    service, image = run.container.service, run.container.image
    if service is not None:
        return zone.unit == service.name and zone.place.path == service.place.path
    return image is not None and zone.unit == image.path
