"""Rules about containers: who gets TERM, copies of a cron, updates, time zones."""

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

from cronce_audit.clocks import has_changes
from cronce_audit.containers.facts import Image, Service
from cronce_audit.containers.running import ProcessOne
from cronce_audit.crontab.read import CronLine, homes
from cronce_audit.model import CommandLine, Confidence, Facts, Found, Place, Severity, ZoneSet, rule
from cronce_audit.processes.argv import KnownProgram, known_program
from cronce_audit.processes.commands import Started, is_agreed, started
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
    'put `exec` before it, so that it takes the place of the shell (`sh -c "… && exec program"`, `exec "$@"` at the end'
    " of a script), and an init above it that passes TERM on: `init: true`, tini",
)
def _shell(facts: Facts) -> Iterator[Found]:
    told: dict[Place, Found] = {}  # several services may start the same
    for run, program in facts.conclude(contained):
        who = container_of(run)
        if run.argv.has_init or who.init or _is_cron(program) or (who.inherits and not run.script):
            continue
        how = (
            f"is started without `exec` by a script that is process 1 of {who.name} ({who.start.place})"
            if run.script
            else f"runs behind a shell that stays process 1 of {who.name}"
        )
        if run.argv.lingers and not (run.script and program.kind == "cron"):
            sure, message = Confidence.HIGH if program.sure else Confidence.MEDIUM, f"`{program.name}` {how}: {_DEAF}"
        elif run.argv.lingers is None:
            sure, message = (
                Confidence.LOW,
                (
                    f"`{program.name}` runs behind `sh -c` in {who.name}: where that is Debian's dash, it "
                    "stays process 1 and does not pass on TERM (bash and BusyBox's ash make way for the program)"
                ),
            )
        else:
            continue
        told.setdefault(run.place, Found(run.place, message, sure, remedy=_heard(run, program)))
    yield from told.values()


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


def contained(facts: Facts) -> Sequence[tuple[Started, KnownProgram]]:
    """The schedulers, workers and crons in containers, as far as the scripts on the way are seen."""
    return [
        (one, found)
        for one in facts.conclude(started)
        if one.by.container and one.script is not None and (found := one.role)
    ]


def container_of(run: Started) -> ProcessOne:
    assert run.by.container is not None
    return run.by.container


def _heard(run: Started, program: KnownProgram) -> str:
    """The fix. As process 1 a program that does not handle TERM ignores it, so it needs an init above it."""
    plain = _WITH_EXEC if run.script else _AS_LIST
    if program.name.split()[0] in _HANDLES:
        return plain
    return f"{plain}; and put an init above it, as process 1 ignores TERM unless it handles it: `init: true`, or tini"


def _is_cron(program: KnownProgram) -> bool:
    """A cron for machines, which has a rule of its own."""
    return program.name in ("cron", "crond")


@rule(
    "CR604 cron-does-not-hear-the-stop",
    Severity.INFO,
    "run a cron that is made for containers as process 1 (supercronic waits for its jobs at TERM), or the jobs"
    " under `cronce run`; `init: true` or tini before cron ends the overlap, but the jobs are still killed",
)
def _cron(facts: Facts) -> Iterator[Found]:
    told: dict[Place, Found] = {}
    for run, program in facts.conclude(contained):
        why = _why_deaf(run, program) if _is_cron(program) and not container_of(run).inherits else None
        if why:
            told.setdefault(run.place, Found(run.place, f"`{program.name}` {why}"))
    yield from told.values()


def _why_deaf(run: Started, program: KnownProgram) -> str | None:
    container, lingers = container_of(run), run.argv.lingers
    if program.detaches:
        return None if run.script and not lingers else f"runs in the background of {container.name}: {_UNTOLD}"
    if container.init or run.argv.has_init or not (lingers or _ignores_term(container, program)):
        return None
    name = container.name
    how = f"runs behind a shell that is process 1 of {name}" if lingers else f"as process 1 of {name} ignores TERM"
    return (
        f"{how}: it keeps starting jobs, next to the new copy if that is already up, until it is killed together"
        " with them"
    )


def _ignores_term(container: ProcessOne, program: KnownProgram) -> bool:
    """Debian's and BusyBox's do (measured), cronie's does not; others are not known."""
    engine = container.image.engine if container.image else ""
    return engine in (("debian", "") if program.name == "cron" else ("busybox",))


@rule(
    "CR610 cron-in-every-copy",
    Severity.ERROR,
    "run cron in one container only; or let every copy try and one win: `cronce exec` before each command",
)
def _copies(facts: Facts) -> Iterator[Found]:
    for one in facts.conclude(started):
        container, found = one.by.container, one.role
        told = one.by.command.origin == "kubernetes" or (container is not None and container.service is not None)
        if not (found and found.kind == "cron" and told and one.copies.is_several and one.certain):
            continue
        if not _all_guarded(facts, container.image if container else None):
            place = one.by.copies_at if container else one.by.command.place
            many = f"in each of the {one.copies} copies of `{one.by.name}`: every line runs {one.copies} times"
            sure = _sureness(one, found) if container else Confidence.HIGH
            yield Found(place, f"`{found.name}` runs {many}", sure)
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
        crons = [one for one in commands if (found := known_program(one.words)) and found.kind == "cron"]
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


def _sureness(run: Started, program: KnownProgram) -> Confidence:
    return Confidence.MEDIUM if run.script or not program.sure else Confidence.HIGH


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
    for run, program in facts.conclude(contained):
        service_of = container_of(run).service
        if service_of and service_of.order and fires_twice(program, facts):
            yield _in_both(service_of, f"`{program.name}`", _sureness(run, program), Severity.WARNING)


def _in_both(service: Service, what: str, sure: Confidence | None, severity: Severity) -> Found:
    message = f"an update starts the new `{service.name}` before the old one stops: until then {what} runs in both, and"
    place = service.order.place if service.order else service.place
    return Found(place, f"{message} both start what is due", sure, severity, _STOP_FIRST)


def fires_twice(program: KnownProgram, facts: Facts) -> bool:
    """Whether two copies would start the same jobs; workers share them."""
    if program.kind == "worker" or program.agrees:
        return False
    return program.name != "celery beat" or not is_agreed(facts)


@rule(
    "CR620 container-not-in-utc",
    Severity.INFO,
    "leave TZ out, so that the container is in UTC, and set the zone next to the schedule, if it needs one",
)
def _zone(facts: Facts) -> Iterator[Found]:
    found = {
        (zone, program.name): run
        for zone in facts.of(ZoneSet)
        for run, program in facts.conclude(contained)
        if program.kind != "worker" and _is_in(container_of(run), zone) and has_changes(zone.zone, facts.year)
    }
    for (zone, name), run in found.items():
        yield Found(
            zone.place,
            f"`{name}` ({run.place}) runs in {zone.zone}, whose clocks change: fixed times of those nights come"
            " twice or never",
        )


def _is_in(container: ProcessOne, zone: ZoneSet) -> bool:
    service, image = container.service, container.image
    if service is not None:
        return zone.unit == service.name and zone.place.path == service.place.path
    return image is not None and zone.unit == image.path
