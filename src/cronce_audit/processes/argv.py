"""Which programs a command comes to, and what they are: a server, a scheduler, a worker, a cron; and how many: known,
known to be several, or not known."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Literal, NamedTuple

from cronce_audit.containers.shell import filled, given, line, stays
from cronce_audit.scripts import INITS, WRAPPERS


class Count(NamedTuple):
    """At least so many; exactly so many where that is known."""

    least: int
    exact: bool = True

    def times(self, other: "Count") -> "Count":
        return Count(self.least * other.least, self.exact and other.exact)

    @property
    def is_several(self) -> bool:
        return self.least > 1

    def __str__(self) -> str:
        return str(self.least) if self.exact else "several" if self.is_several else "an unknown number of"


ONE: Final = Count(1)
SEVERAL: Final = Count(2, exact=False)
"""One for each processor, whatever is added to it or multiplied: servers have more than one."""
UNKNOWN: Final = Count(1, exact=False)


def count(word: str | None) -> Count:
    """What a word, or an expression, says; None is a number that is not told."""
    if word is not None and re.fullmatch(r"\d{1,4}", word.strip()):
        return Count(max(int(word), 1))
    return SEVERAL if word and re.search(r"nproc|cpu_count|\bauto\b", word) else UNKNOWN


@dataclass(frozen=True, slots=True)
class Told:
    """What stands on a command line."""

    options: Sequence[tuple[str, str]]
    """In order, each with its value; "" for a flag."""
    words: Sequence[str]
    """What is no option and no value of one."""

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)

    def value(self, *names: str) -> str | None:
        """The last one given counts."""
        return next((value for name, value in reversed(self.options) if name in names), None)


FLAGS: Final = frozenset({
    "-B", "-E", "-C", "-D", "-M", "-R", "-q", "--beat", "--detach", "--daemon", "--no-daemon", "--preload", "--reload",
    "--no-reload", "--debug", "--no-debug", "--debugger", "--with-threads", "--factory", "--proxy-headers",
    "--access-log", "--no-access-log", "--no-server-header", "--capture-output", "--reuse-port", "--master",
    "--enable-threads", "--lazy-apps", "--lazy", "--die-on-term", "--vacuum", "--purge", "--task-events", "--quiet",
    "--without-gossip", "--without-mingle", "--without-heartbeat", "--enable-source-maps", "--inspect",
    "--no-warnings", "--transpile-only", "--silent", "--watch", "--prod", "--production", "--json", "--force",
    "--no-autorestart", "--update-env", "--attach"
})  # fmt: skip
"""Options of all programs that take no value; of any other one the word behind it is taken for its value."""


def told_in(arguments: Sequence[str]) -> Told:
    options: list[tuple[str, str]] = []
    words: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            words += rest
            break
        if not word.startswith("-") or word == "-":
            words.append(word)
        elif word.startswith("--"):
            name, equals, value = word.partition("=")
            takes = not equals and name not in FLAGS and bool(rest) and not rest[0].startswith("--")
            options.append((name, rest.pop(0) if takes else value))
        else:
            options += _short(word, rest)
    return Told(options, words)


def _short(word: str, rest: list[str]) -> list[tuple[str, str]]:
    """`-w4`, `-w 4`, and `-BE` for two flags."""
    found: list[tuple[str, str]] = []
    for position in range(1, len(word)):
        name, value = f"-{word[position]}", word[position + 1 :]
        if name not in FLAGS:
            takes = not value and bool(rest) and not rest[0].startswith("--")
            return [*found, (name, rest.pop(0) if takes else value.removeprefix("="))]
        found.append((name, ""))
    return found


SHELLS: Final = frozenset({"sh", "bash", "ash", "dash", "zsh"})
SERVERS: Final = frozenset({
    "gunicorn", "uvicorn", "hypercorn", "granian", "waitress-serve", "uwsgi", "flask", "daphne", "fastapi"
})  # fmt: skip
RUNTIMES: Final = frozenset({
    "node", "nodejs", "pm2", "pm2-runtime", "npm", "yarn", "pnpm", "bun", "tsx", "ts-node", "java"
})  # fmt: skip


class KnownProgram(NamedTuple):
    """A scheduler, worker or cron."""

    name: str
    """As people call it: `celery beat`."""
    kind: Literal["cron", "scheduler", "worker"]
    sure: bool = True
    """It is a known program, not just a script with such a name."""
    detaches: bool = False
    """It goes to the background."""
    agrees: bool = False
    """Several copies agree on which one starts a job."""


_LANGUAGES: Final = frozenset({"node", "nodejs", "ruby", "tsx", "ts-node", "bun", "deno", "php"})
"""They run a script that comes after their own options; so does Python."""
_CRONS: Final = frozenset({"supercronic", "yacron", "ofelia", "go-crond"})
_ALONE: Final = {
    "rqworker": "worker", "rqscheduler": "scheduler", "huey_consumer": "worker", "huey_consumer.py": "worker",
    "dramatiq": "worker", "arq": "worker", "dagster-daemon": "scheduler", "sidekiq": "worker", "clockwork": "scheduler",
    "qcluster": "worker"
}  # fmt: skip
"""Programs with one role."""
_BY_WORD: Final[dict[str, dict[str, str]]] = {
    "celery": {"beat": "scheduler", "worker": "worker"},
    "rq": {"worker": "worker", "worker-pool": "worker", "cron": "scheduler"},
    "taskiq": {"scheduler": "scheduler", "worker": "worker"},
    "procrastinate": {"worker": "worker"},
    "airflow": {"scheduler": "scheduler", "worker": "worker"},
    "prefect": {"worker": "worker", "agent": "worker"},
    "cronce": {"run": "scheduler", "agent": "scheduler"},
    "artisan": {"schedule:work": "scheduler", "queue:work": "worker", "queue:listen": "worker", "horizon": "worker"},
    "console": {"messenger:consume": "worker"},
    "rails": {"resque:work": "worker", "resque:scheduler": "scheduler", "jobs:work": "worker"},
    "rake": {"resque:work": "worker", "resque:scheduler": "scheduler", "jobs:work": "worker"},
    "good_job": {"start": "worker"},
    "manage.py": {
        "runapscheduler": "scheduler", "qcluster": "worker", "rqworker": "worker", "rqworker-pool": "worker",
        "rqscheduler": "scheduler", "run_huey": "worker", "rundramatiq": "worker", "process_tasks": "worker",
        "db_worker": "worker"
    },
}  # fmt: skip
"""Programs whose role depends on a word after them; options may come between."""
_VALUED: Final = frozenset({"-A", "--app", "-b", "--broker", "--workdir", "--config", "--result-backend", "--loader"})
"""Options of celery that take a value: `celery -A worker beat` is no worker."""
_SCRIPT_WORDS: Final = frozenset({"scheduler", "beat", "worker", "cron", "clock"})
_AGREE: Final = frozenset({"airflow scheduler", "cronce run", "cronce agent", "rqscheduler", "manage.py rqscheduler"})
_TOLD_TO_AGREE: Final = ("redbeat", "cronce")
"""In `celery beat -S redbeat.RedBeatScheduler`, `cronce exec … -- program`."""


_NAMES: Final = (SERVERS, SHELLS, RUNTIMES, _LANGUAGES, _CRONS, _ALONE, _BY_WORD, ("django-admin", "cron", "crond"))
_PROGRAMS: Final = frozenset(name for names in _NAMES for name in names if not name.endswith(".py"))
"""Known wherever they are; a script of Python belongs to its folder."""
_WRAPPERS: Final = WRAPPERS | INITS | {"bundle", "npx", "busybox"}
_ASSIGNMENT: Final = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL)
_DEEPEST: Final = 4
"""Shells in shells that are followed."""


class Argv(NamedTuple):
    """One program, what it is told, and the environment that is set for it."""

    program: str
    """Its name without folders, if it is a known one; of `python -m gunicorn`, gunicorn."""
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    lingers: bool | None = False
    """A shell stays above it, and passes no signals on; None if that depends on the shell."""
    has_init: bool = False
    """An init is above it, which passes them on."""


def programs(words: Sequence[str], environment: Mapping[str, str], depth: int = 0) -> Iterator[Argv]:
    """The programs that these words come to, also behind a shell, `poetry run` or `gosu app`."""
    words, environment = _without_assignments(tuple(filled(word, environment) for word in words), environment)
    if not words or depth > _DEEPEST or words[:2] == ("command", "-v"):
        return
    name = _name(words[0])
    if told := given(words):
        yield from _of_shell(*told, environment, depth)
    elif _is_python(name):
        yield from _of_python(words[1:], environment)
    elif name in _WRAPPERS:
        for argv in behind(words[1:], environment, depth):
            yield argv._replace(has_init=argv.has_init or name in INITS)
    else:
        yield Argv(name if name in _PROGRAMS else words[0], words[1:], environment)


def _of_shell(shell: str, text: str, environment: Mapping[str, str], depth: int) -> Iterator[Argv]:
    read = line(text)
    for command in read.commands:
        lingers = stays(read, command) if read.plain else not command.exec
        lingers = False if lingers is None and shell == "bash" else lingers
        for argv in programs((*command.assigned, *command.words), environment, depth + 1):
            yield argv if given(command.words) else argv._replace(lingers=lingers)


def behind(words: Sequence[str], environment: Mapping[str, str], depth: int = 0) -> Iterator[Argv]:
    """What a wrapper starts: its own options and their values are no programs that we know."""
    for start, word in enumerate(words):
        if _ASSIGNMENT.fullmatch(word) or _is_program(_name(word)):
            yield from programs(words[start:], environment, depth + 1)
            return


def _of_python(words: Sequence[str], environment: Mapping[str, str]) -> Iterator[Argv]:
    rest = _after_options(words)
    if rest[:1] == ["-m"] and len(rest) > 1:
        yield Argv(_MODULES.get(rest[1], f"-m {rest[1]}"), tuple(rest[2:]), environment)
    elif rest and rest[0] not in ("-m", "-c"):
        yield Argv(_name(rest[0]) if _name(rest[0]) in _PROGRAMS else rest[0], tuple(rest[1:]), environment)


def _after_options(words: Sequence[str]) -> list[str]:
    """The script of an interpreter and what it is told; or `-m` and a module, `-c` and a text."""
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c"):
        if rest.pop(0) in ("-W", "-X", "-r", "--require", "--import") and rest:
            rest.pop(0)
    return rest


_MODULES: Final = {name: name for name in _PROGRAMS} | {"waitress": "waitress-serve", "django": "django-admin"}


def _is_program(name: str) -> bool:
    return name in _PROGRAMS or name in _WRAPPERS or _is_python(name) or name.endswith((".py", ".sh"))


def _is_python(name: str) -> bool:
    return re.fullmatch(r"(python|pypy)[\d.]*", name) is not None


def _name(word: str) -> str:
    return PurePosixPath(word).name


def _without_assignments(
    words: tuple[str, ...], environment: Mapping[str, str]
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """`X=1 exec gunicorn`: the words from `exec` on, and the environment with X."""
    start = 0
    known = dict(environment)
    while start < len(words) and (found := _ASSIGNMENT.fullmatch(words[start])):
        known[found["name"]] = found["value"]
        start += 1
    return words[start:], known


def role(argv: Argv) -> KnownProgram | None:
    """What it is for schedules; None if it is nothing of the kind, as far as its words show."""
    words = [argv.program, *argv.arguments]
    if argv.program in _LANGUAGES:
        words = _after_options(argv.arguments)
    if not words:
        return None
    found = _known(_name(words[0]), words[1:]) or _by_name(words[0])
    return found and found._replace(agrees=agrees(found.name, words))


def known_program(words: Sequence[str]) -> KnownProgram | None:
    """The first scheduler, worker or cron that these words start."""
    return next(filter(None, map(role, programs(words, {}))), None)


def agrees(name: str, words: Sequence[str]) -> bool:
    """Whether several copies agree on which one starts a job: by default, or by these words."""
    return name in _AGREE or any(told in word.lower() for word in words for told in _TOLD_TO_AGREE)


def _known(name: str, arguments: Sequence[str]) -> KnownProgram | None:
    if name in ("cron", "crond"):
        return _cron_program(name, arguments)
    if name in ("service", "rc-service") and list(arguments[:2]) in (["cron", "start"], ["crond", "start"]):
        return KnownProgram(arguments[0], "cron", detaches=True)
    if name in _CRONS:
        return KnownProgram(name, "cron")
    if name in _ALONE:
        return KnownProgram(name, _ALONE[name])  # type: ignore[arg-type]
    known = _BY_WORD.get(name, {})
    told = zip(arguments, ("", *arguments), strict=False)
    word = next((word for word, before in told if word in known and before not in _VALUED), None)
    return KnownProgram(f"{name} {word}", _BY_WORD[name][word]) if word else None  # type: ignore[arg-type]


def _cron_program(name: str, arguments: Sequence[str]) -> KnownProgram:
    """Debian's cron and BusyBox's crond stay in front with -f, cronie's with -n; `start` is for an init script."""
    if list(arguments) == ["start"]:
        return KnownProgram(name, "cron", detaches=True)
    options = "".join(word for word in arguments if re.fullmatch(r"-[A-Za-z]\w*", word))
    return KnownProgram(name, "cron", detaches=not set(options) & set("fnd"))


_SCRIPT: Final = re.compile(r"-m (?:.*\.)?(?P<module>\w+)|(?:.*/)?(?P<stem>[^/$]+)\.(?:py|js|mjs|cjs|ts|rb)")


def _by_name(script: str) -> KnownProgram | None:
    """A script or module, by its name: `python -m app.scheduler`, `node worker.js`."""
    found = _SCRIPT.fullmatch(script)
    called = _SCRIPT_WORDS & set(re.split(r"[^a-z]+", (found["module"] or found["stem"]).lower())) if found else set()
    kind: Literal["worker", "scheduler"] = "worker" if called == {"worker"} else "scheduler"
    return KnownProgram(script.removeprefix("-m "), kind, sure=False) if called else None
