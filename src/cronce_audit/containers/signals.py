"""Rules about the end of a container: who hears that it is to stop."""

from collections.abc import Iterator
from typing import Final

from cronce_audit.containers.facts import Said
from cronce_audit.containers.running import Run, runs
from cronce_audit.crontab.images import Image as Built
from cronce_audit.model import Confidence, Facts, Found, Rule, Severity, rule

_DEAF: Final = (
    "TERM does not reach it: it goes on, beside the copy that replaces it where that is already up, until it is killed "
    "in the middle of what it does"
)

_UNTOLD: Final = (
    "nobody tells it or its jobs that the container stops (they are killed with it), and nobody notices when it dies"
)


@rule(
    "CR601",
    "shell-swallows-term",
    Severity.WARNING,
    Confidence.HIGH,
    remedy='let it be a child of an init that passes TERM on, `init: true` or `ENTRYPOINT ["tini", "--"]`, and take '
    'the shell out of the way: `sh -c "… && exec program"`',
)
def _shell(facts: Facts) -> Iterator[Found]:
    seen = set()
    for run in facts.conclude(runs):
        if run.container.init or run.container.inherits or run.script or _is_cron(run) or run.place in seen:
            continue
        seen.add(run.place)
        if run.lingers:
            message = f"`{run.program.name}` runs behind a shell that stays process 1 of {run.container.name}: {_DEAF}"
            yield Found(run.place, message, _sureness(run), remedy=_heard(run, _AS_LIST))
        elif run.lingers is None:
            yield Found(
                run.place,
                f"`{run.program.name}` runs behind `sh -c` in {run.container.name}: where that is Debian's dash, it "
                "stays process 1 and does not pass on TERM (bash and BusyBox's ash make way for the program)",
                Confidence.LOW,
                Severity.INFO,
                _heard(run, _AS_LIST),
            )


_HANDLES: Final = frozenset(
    {"celery", "rq", "rqworker", "rqscheduler", "huey_consumer", "dramatiq", "supercronic", "airflow"}
)
"""Programs that handle TERM themselves: the kernel gives process 1 no other way to hear it."""
_AS_LIST: Final = (
    'write the command as a list, `CMD ["program", "argument"]`, or with `exec`: `sh -c "… && exec program"`'
)
_WITH_EXEC: Final = (
    'put `exec` before it (`exec "$@"`, `exec celery …`), so that the program takes the place of the script'
)


def _heard(run: Run, plain: str) -> str:
    """What helps: a program that does not handle TERM ignores it as process 1, so it needs an init above it."""
    if run.program.name.split()[0] in _HANDLES:
        return plain
    return f"{plain}; and put an init above it, as process 1 ignores TERM unless it handles it: `init: true`, or tini"


def _is_cron(run: Run) -> bool:
    """One that was made for machines: it has a rule of its own."""
    return run.program.name in ("cron", "crond")


def _sureness(run: Run) -> Confidence:
    return Confidence.HIGH if run.program.sure else Confidence.MEDIUM


@rule(
    "CR602",
    "entrypoint-without-exec",
    Severity.WARNING,
    Confidence.HIGH,
    remedy='put `exec` before it (`exec "$@"`, `exec celery …`), so that it takes the place of the script; and '
    "an init above it (`init: true`, tini) if it does not handle TERM",
)
def _entrypoint(facts: Facts) -> Iterator[Found]:
    seen = set()
    for run in facts.conclude(runs):
        if (
            run.script
            and run.lingers
            and not run.container.init
            and run.program.kind != "cron"
            and run.place not in seen
        ):
            seen.add(run.place)
            message = (
                f"`{run.program.name}` is started without `exec` by a script that is process 1 of {run.container.name} "
                f"({run.container.start.place}): {_DEAF}"
            )
            yield Found(run.place, message, _sureness(run), remedy=_heard(run, _WITH_EXEC))


_KILLS: Final = frozenset({"SIGKILL", "KILL", "9"})
_AT_ONCE: Final = frozenset({"0", "0s", "0ms", "0m"})


@rule(
    "CR603",
    "stopped-by-kill",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="leave it out: the default is TERM, and KILL after 10 s (`stop_grace_period`; give it what a job may take)",
)
def _kill(facts: Facts) -> Iterator[Found]:
    seen: set[Said] = set()
    for run in facts.conclude(runs):
        image, service = run.container.image, run.container.service
        signal = (service.stop_signal if service else None) or (image.stop_signal if image else None)
        grace = service.stop_grace if service else None
        for said, how in ((signal, "stopped by KILL"), (grace, "killed at once when it is stopped")):
            kills = said and (said.value.upper() in _KILLS if said is signal else said.value in _AT_ONCE)
            if said and kills and said not in seen:
                seen.add(said)
                yield Found(
                    said.place,
                    f"`{run.program.name}` ({run.place}) is {how}: what it is doing ends half done at every deploy",
                    _sureness(run),
                )


@rule(
    "CR604",
    "cron-does-not-hear-the-stop",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="run a cron that is made for containers as process 1 (supercronic waits for its jobs at TERM), or the jobs "
    "under `cronce run`; `init: true` or tini before cron ends the overlap, but not the jobs in peace",
)
def _cron(facts: Facts) -> Iterator[Found]:
    seen = set()
    for run in facts.conclude(runs):
        why = _why_deaf(run, facts) if _is_cron(run) and not run.container.inherits else None
        if why and run.place not in seen:
            seen.add(run.place)
            yield Found(run.place, f"`{run.program.name}` {why}")


def _why_deaf(run: Run, facts: Facts) -> str | None:
    if run.program.detaches:
        return None if run.script and not run.lingers else f"runs in the background of {run.container.name}: {_UNTOLD}"
    if run.container.init or not (run.lingers or _ignores_term(run, facts)):
        return None
    name = run.container.name
    how = f"runs behind a shell that is process 1 of {name}" if run.lingers else f"as process 1 of {name} ignores TERM"
    return (
        f"{how}: it goes on starting jobs, beside the copy that replaces it where that is already up, until it is "
        "killed together with them"
    )


def _ignores_term(run: Run, facts: Facts) -> bool:
    """Debian's and BusyBox's do (measured); cronie's does not, and of others we do not know."""
    image = run.container.image
    here = {one.engine for one in facts.of(Built) if image is not None and one.path == image.path} - {""}
    if run.program.name == "cron":
        return here == {"debian"} or (not here and run.container.sh == "dash")
    return here <= {"busybox"} and run.container.sh == "ash"


RULES: Final[tuple[Rule, ...]] = (_shell, _entrypoint, _kill, _cron)
