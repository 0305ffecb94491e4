"""Schedules outside of code and crontabs (workflows of GitHub, lines that a Dockerfile writes); and
whether they start a job that something else in the tree starts too."""

import posixpath
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce_audit.containers.facts import Planned
from cronce_audit.crontab.read import CronLine
from cronce_audit.javascript import code as javascript
from cronce_audit.kubernetes.facts import running
from cronce_audit.model import Confidence, Facts, Found, Place, Severity, Source, reader, rule
from cronce_audit.systemd import Timer, service_of
from cronce_audit.yaml import YamlNode, documents

_COMMON: Final = frozenset(
    {"python", "python3", "node", "npm", "npx", "php", "bash", "sh", "curl", "run", "true", "cd"}
)


@reader("schedules of containers", lambda path: path.suffix in (".yml", ".yaml"))
def _read(source: Source) -> Iterator[Planned]:
    if "/.github/workflows/" in f"/{source.path}":
        yield from _workflow(source)


def _workflow(source: Source) -> Iterator[Planned]:
    if "schedule" not in source.text or "cron" not in source.text:
        return
    for document in documents(source.text):
        runs = "\n".join(_texts(document.get("jobs"), "run"))
        on = document.get("on", "schedule") or document.get("true", "schedule")
        for item in on.items if on else ():
            cron = item.get("cron")
            if cron and cron.text:
                yield Planned("GitHub Actions", cron.text, runs, source.place(cron.line))


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


def planned(facts: Facts) -> list[Planned]:
    """All schedules in files of any kind, the likeliest to be deployed first."""
    return [
        *(
            Planned(
                "Kubernetes", schedule.text, " ".join(word for one in job.containers for word in one.words), job.place
            )
            for job in running(facts)
            if (schedule := job["schedule"]) and not job.is_guarded
        ),
        *(Planned("cron", one.schedule, one.command, one.place) for one in facts.of(CronLine) if one.guard != "cronce"),
        *facts.of(Planned),
        *(
            Planned("systemd", one.calendar, " ".join(service.execs), one.place)
            for one in facts.of(Timer)
            if (service := service_of(one, facts))
        ),
        *(
            Planned(one.library, one.pattern, "", one.place)
            for one in facts.of(javascript.Job)
            if one.pattern and " " in one.pattern
        ),
    ]


@rule(
    "CR414 job-in-two-schedulers",
    Severity.INFO,
    "keep one of them, and write in the other's place where the job is now; or claim each run with `cronce exec`",
    confidence=Confidence.MEDIUM,
)
def _twice(facts: Facts) -> Iterator[Found]:
    every = facts.conclude(planned)
    seen: list[Planned] = []
    for one in every:
        first = next((other for other in seen if other.by != one.by and _is_same(one, other)), None)
        if first is not None:
            yield Found(
                one.place,
                f"{one.by} starts at `{one.schedule}` the same job as {first.by} ({first.place}): where both are"
                " deployed, it runs twice",
            )
        seen.append(one)


def _is_same(one: Planned, other: Planned) -> bool:
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
