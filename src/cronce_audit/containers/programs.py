"""Which scheduler, worker or cron a command starts. Other programs are ignored."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final, Literal, NamedTuple

from cronce_audit.containers.shell import WRAPPERS


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


INITS: Final = frozenset({"tini", "tini-static", "dumb-init", "catatonit", "docker-init", "init", "my_init"})
"""They are process 1 above the program, and pass signals on."""
_WRAPPERS: Final = WRAPPERS | INITS | {
    "bundle", "npx", "yarn", "pnpm", "npm", "wait-for-it.sh", "wait-for.sh", "run", "rails", "rake"
}  # fmt: skip
_LANGUAGES: Final = re.compile(r"(python|pypy|node|nodejs|ruby|tsx|ts-node|bun|deno)[\d.]*")
_SCRIPT: Final = re.compile(r".*\.(py|js|mjs|cjs|ts|rb)")
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


def behind_init(words: Sequence[str]) -> Sequence[str] | None:
    """The words that an init starts; None if there is no init."""
    if not words or PurePosixPath(words[0]).name not in INITS:
        return None
    rest = list(words[1:])
    if "--" in rest:
        return rest[rest.index("--") + 1 :]
    while rest and rest[0].startswith("-"):
        rest.pop(0)
    return rest


def agrees(name: str, words: Sequence[str]) -> bool:
    """Whether several copies agree on which one starts a job: by default, or by these words."""
    return name in _AGREE or any(told in word.lower() for word in words for told in _TOLD_TO_AGREE)


def program(words: Sequence[str]) -> KnownProgram | None:
    """The program that these words start, also behind `poetry run`, `gosu app` or `python -m`."""
    found = _program(words)
    return found and found._replace(agrees=agrees(found.name, words))


def _program(words: Sequence[str]) -> KnownProgram | None:
    if list(words[:2]) == ["command", "-v"]:
        return None
    for start, word in enumerate(words):
        name = PurePosixPath(word).name
        if found := _known(name, words[start + 1 :]):
            return found
        if _LANGUAGES.fullmatch(name) or _SCRIPT.fullmatch(name):
            return _script(words[start + (_LANGUAGES.fullmatch(name) is not None) :])
        if start == 0 and name not in _WRAPPERS and name not in ("php", "busybox", "service", "rc-service"):
            return None
    return None


def _known(name: str, arguments: Sequence[str]) -> KnownProgram | None:
    if name in ("cron", "crond"):
        return _cron(name, arguments)
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


def _cron(name: str, arguments: Sequence[str]) -> KnownProgram | None:
    """Debian's cron and BusyBox's crond stay in front with -f, cronie's with -n; `start` is for an init script."""
    if list(arguments) == ["start"]:
        return KnownProgram(name, "cron", detaches=True)
    options = "".join(word for word in arguments if re.fullmatch(r"-[A-Za-z]\w*", word))
    return KnownProgram(name, "cron", detaches=not set(options) & set("fnd"))


def _script(words: Sequence[str]) -> KnownProgram | None:
    """A script or module, by its name: `python -m app.scheduler`, `node worker.js`."""
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c"):
        if rest.pop(0) in ("-W", "-X", "-r", "--require", "--import") and rest:
            rest.pop(0)
    module = rest[:1] == ["-m"]
    rest = rest[module:]
    if not rest or rest[0] == "-c" or "$" in rest[0]:
        return None
    if found := _known(PurePosixPath(rest[0]).name, rest[1:]):
        return found
    stem = rest[0].rpartition(".")[2] if module else PurePosixPath(rest[0]).stem
    called = _SCRIPT_WORDS & set(re.split(r"[^a-z]+", stem.lower()))
    return KnownProgram(rest[0], "worker" if called == {"worker"} else "scheduler", sure=False) if called else None
