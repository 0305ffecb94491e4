"""Workflows of GitHub, hosts that stop an app; and the jobs of a tree, of whatever kind: whether two start the same."""

import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce_audit import java
from cronce_audit.containers.facts import ScheduledJob
from cronce_audit.crontab.read import CronLine, shown
from cronce_audit.guards import guards
from cronce_audit.javascript import code as javascript
from cronce_audit.kubernetes.facts import running
from cronce_audit.model import Confidence, Facts, Found, Place, Severity, Source, reader, rule
from cronce_audit.processes.argv import ONE
from cronce_audit.processes.commands import SCHEDULE, Serving, Started, agrees, celeries, settings_called
from cronce_audit.processes.rules import every_launch
from cronce_audit.python.jobs import expression, jobs
from cronce_audit.python.schedulers import Scheduler
from cronce_audit.systemd import Timer, service_of
from cronce_audit.yaml import YamlNode, documents

_COMMON: Final = frozenset(
    {"python", "python3", "node", "npm", "npx", "php", "bash", "sh", "curl", "run", "true", "cd"}
)


@reader("schedules of containers", lambda path: path.suffix in (".yml", ".yaml"))
def _read(source: Source) -> Iterator[ScheduledJob]:
    if "/.github/workflows/" in f"/{source.path}":
        yield from _workflow(source)


def _workflow(source: Source) -> Iterator[ScheduledJob]:
    if "schedule" not in source.text or "cron" not in source.text:
        return
    for document in documents(source.text):
        runs = "\n".join(_texts(document.get("jobs"), "run"))
        on = document.get("on", "schedule") or document.get("true", "schedule")
        for item in on.items if on else ():
            cron = item.get("cron")
            if cron and cron.text:
                what = f"the workflow {source.name}"
                yield ScheduledJob(what, "GitHub Actions", source.place(cron.line), cron.text, runs, single=True)


def _texts(node: YamlNode | None, key: str) -> Iterator[str]:
    for name, value in node.pairs if node else ():
        if name.text == key and value.text:
            yield value.text
        yield from _texts(value, key)
    for item in node.items if node else ():
        yield from _texts(item, key)


class SleepingHost(NamedTuple):
    """A host that is told to stop an app while no request comes in."""

    name: str
    place: Place
    folder: str
    """Of the app; "" where any of the tree may be meant."""


_SLEEPING_HOSTS: Final = {
    "fly.toml": ("Fly.io", re.compile(r"^\s*(?P<at>auto_stop_machines)\s*=\s*(?:true|[\"'](?:stop|suspend))", re.M)),
    "render.yaml": (
        "Render's free plan",
        re.compile(r"type:\s*web\b(?:(?!\n\s*-\s*type:|\ndatabases:).)*?\n\s*(?P<at>plan:\s*free)\b", re.S),
    ),
    "railway.json": ("Railway", re.compile(r"(?P<at>\"sleepApplication\")\s*:\s*true")),
    "railway.toml": ("Railway", re.compile(r"(?P<at>sleepApplication)\s*=\s*true")),
}
_STAYS: Final = re.compile(r"min_machines_running\s*=\s*[1-9]|--min-instances(?:=|\s+|[\"']?\s*,?\s*-?\s*[\"']?)[1-9$]")
_CLOUD_RUN: Final = re.compile(
    r"gcloud (?:beta |alpha )?run deploy(?:[^\n]*\\\n)*[^\n]*"
    r"|(?:-\s*|[\"'])run[\"']?,?\s*(?:-\s*deploy|(?:-\s*)?[\"']deploy[\"'])(?:(?!\n\s*- (?:name|id):).)*",
    re.S,
)
"""On a command line, up to the line without a backslash; in a list of arguments, up to the next step."""


def _may_sleep(path: PurePosixPath) -> bool:
    return path.name in _SLEEPING_HOSTS or path.suffix in (".yml", ".yaml", ".sh")


@reader("hosts", _may_sleep)
def _read_hosts(source: Source) -> Iterator[SleepingHost]:
    if source.name in _SLEEPING_HOSTS:
        name, pattern = _SLEEPING_HOSTS[source.name]
        found = pattern.search(source.text)
        if found and not _STAYS.search(source.text):
            folder = posixpath.dirname(source.path)
            yield SleepingHost(name, source.at(found.start("at")), folder)
    told = list(_CLOUD_RUN.finditer(source.text) if "run" in source.text and "deploy" in source.text else ())
    if told and not any(_STAYS.search(one[0]) for one in told):
        at = told[0].start() + max(told[0][0].find("--min-instances"), 0)
        yield SleepingHost("Cloud Run", source.at(at), "")


def scheduled(facts: Facts) -> Sequence[ScheduledJob]:
    """For `facts.conclude(scheduled)`: the jobs in files of any kind, the likeliest to be deployed first."""
    return list(_scheduled(facts))


def _scheduled(facts: Facts) -> Iterator[ScheduledJob]:
    for cronjob in running(facts):
        when, held = cronjob["schedule"], cronjob.is_guarded
        told = " ".join(word for one in cronjob.containers for word in one.words)
        if not cronjob.partial:
            schedule = when.text if when else ""
            yield ScheduledJob(cronjob.called, "Kubernetes", cronjob.place, schedule, told, held, held, single=True)
    for line in facts.of(CronLine):
        held = line.guard == "cronce"
        yield ScheduledJob(f"`{shown(line.command)}`", "cron", line.place, line.schedule, line.command, held, held)
    yield from facts.of(ScheduledJob)
    for timer in facts.of(Timer):
        service = service_of(timer, facts)
        told = " ".join(service.execs) if service else ""
        held = "cronce exec" in told
        yield ScheduledJob(f"`{timer.unit}`", "systemd", timer.place, timer.calendar, told, held, held)
    yield from _beats(facts)
    guarded = {name: one for name, one in facts.conclude(guards).items() if one.across_hosts}
    alone = facts.conclude(_started_once)
    for job in facts.conclude(jobs):
        by = guarded.get(job.full_name)
        known = by is not None if job.full_name else None
        kept, single = by is not None and by.keeps, job.scheduler in alone
        schedule = expression(job) or ""
        yield ScheduledJob(job.function, "APScheduler", job.place, schedule, "", known, kept, single)
    for one in facts.of(javascript.Job):
        guard = None if one.is_guarded else False
        yield ScheduledJob(one.what, one.library, one.place, one.pattern or "", guard=guard)
    for method in facts.of(java.Scheduled):
        held = method.lock is not None
        guard = held or (None if method.is_guarded else False)
        yield ScheduledJob(method.what, method.library, method.place, method.pattern or "", "", guard, held)


def _beats(facts: Facts) -> Iterator[ScheduledJob]:
    for beat in facts.conclude(celeries):
        if beat.kind != "worker":
            agreed = agrees(beat, facts)
            single = beat.kind == "beat" and beat.copies == ONE and beat.by.command.origin != "script"
            yield ScheduledJob(
                "the schedule", "celery beat", beat.place, guard=agreed or None, kept=agreed, single=single
            )
    if not any(beat.kind != "worker" for beat in facts.conclude(celeries)):
        for _, _, place, _ in settings_called(facts, SCHEDULE):
            yield ScheduledJob("a schedule", "celery beat, which nothing here starts", place, guard=None)


def _started_once(facts: Facts) -> frozenset[Scheduler]:
    """Schedulers in Python of which the files show without doubt that one process starts them."""
    found = [launch for launch in facts.conclude(every_launch) if launch.start.scheduler]
    once = {one.start.scheduler for one in found if one.by and one.total == ONE and not one.doubts and _is_told(one.by)}
    more = {one.start.scheduler for one in found if one.doubts or one.total != ONE}
    return frozenset(one for one in once - more if one)


def _is_told(by: Serving | Started) -> bool:
    """A script does not show who runs it, and where."""
    return by.by is None or by.by.command.origin != "script"


@rule(
    "CR414 job-in-two-schedulers",
    Severity.INFO,
    "keep one of them, and write in the other's place where the job is now; or claim each run with `cronce exec`",
    confidence=Confidence.MEDIUM,
)
def _twice(facts: Facts) -> Iterator[Found]:
    seen: list[ScheduledJob] = []
    for one in facts.conclude(scheduled):
        if not one.schedule or one.guard is True:
            continue
        first = next((other for other in seen if other.by != one.by and _is_same(one, other)), None)
        if first is not None:
            yield Found(
                one.place,
                f"{one.by} starts at `{one.schedule}` the same job as {first.by} ({first.place}): where both are"
                " deployed, it runs twice",
            )
        seen.append(one)


def _is_same(one: ScheduledJob, other: ScheduledJob) -> bool:
    """Whether they run the same script or subcommand, or have the same unusual schedule."""
    shared = _names(one.command) & _names(other.command)
    return bool(shared) or (one.schedule == other.schedule and _is_unusual(one.schedule))


def _names(command: str) -> set[str]:
    """The scripts and subcommands in a command, without the programs that run them."""
    found = set()
    for word in re.findall(r"[\w./:-]+", command):
        name = posixpath.basename(word)
        if name.endswith((".py", ".sh", ".js", ".ts", ".rb", ".php")) and name not in ("manage.py", "index.js"):
            found.add(name)
    for runner, what in re.findall(r"\b(manage\.py|artisan|rake|rails runner)\s+([\w:.-]+)", command):
        found.add(f"{runner} {what}")
    return found - _COMMON


def _is_unusual(schedule: str) -> bool:
    minute, _, rest = schedule.partition(" ")
    hour = rest.partition(" ")[0]
    return "," in f"{minute} {hour}" or (minute.isdecimal() and int(minute) % 15 != 0 and hour.isdecimal())
