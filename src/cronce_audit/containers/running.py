"""What runs in containers: images and services combined, and the schedulers, workers and crons that they start."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import dropwhile
from pathlib import PurePosixPath
from typing import Final, Literal, NamedTuple

from cronce_audit.containers.facts import EntryScript, Image, Service, StartWords, joined
from cronce_audit.containers.shell import given, is_shell, line, stays
from cronce_audit.model import CommandLine, Facts, Place, Source, reader
from cronce_audit.scripts import WRAPPERS


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
_SCRIPT_NAME: Final = re.compile(r".*\.(py|js|mjs|cjs|ts|rb)")
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
        if _LANGUAGES.fullmatch(name) or _SCRIPT_NAME.fullmatch(name):
            return _by_name(words[start + (_LANGUAGES.fullmatch(name) is not None) :])
        if start == 0 and name not in _WRAPPERS and name not in ("php", "busybox", "service", "rc-service"):
            return None
    return None


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


def _cron_program(name: str, arguments: Sequence[str]) -> KnownProgram | None:
    """Debian's cron and BusyBox's crond stay in front with -f, cronie's with -n; `start` is for an init script."""
    if list(arguments) == ["start"]:
        return KnownProgram(name, "cron", detaches=True)
    options = "".join(word for word in arguments if re.fullmatch(r"-[A-Za-z]\w*", word))
    return KnownProgram(name, "cron", detaches=not set(options) & set("fnd"))


def _by_name(words: Sequence[str]) -> KnownProgram | None:
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


_NAMES: Final = frozenset({"entrypoint", "docker-entrypoint", "start", "run"})
_SHEBANG: Final = re.compile(r"#!.*\b(sh|bash|ash|dash)\b")
_TRAP: Final = re.compile(r"^[ \t]*trap[ \t]+(?!-)", re.MULTILINE)
_INIT: Final = re.compile(rf"\bexec\b[^\n]*[\s/]({'|'.join(INITS)})\s")
_GIVEN: Final = re.compile(r"[ \t]*((gosu|su-exec)\s+\S+\s+)?(\"\$@\"|\$@|\"\$\{@\}\")\s*")
_EXEC: Final = re.compile(r"^[ \t]*exec\b[^\n#]*\$(\{@\}|@)", re.MULTILINE)
_SERVICE: Final = re.compile(r"^[ \t]*(sudo )?((rc-)?service crond? start|/etc/init\.d/crond? start)\b", re.MULTILINE)
_CRON: Final = re.compile(r"^(exec |sudo )*(\S*/)?(crond?|supercronic|(rc-)?service crond?)\b", re.MULTILINE)


def _wants(path: PurePosixPath) -> bool:
    return path.suffix in (".sh", ".bash") or path.name in _NAMES


@reader("entry script", _wants)
def _read(source: Source) -> Iterator[EntryScript]:
    if not source.suffix and not _SHEBANG.match(source.text):
        return
    service = _SERVICE.search(source.text)
    yield EntryScript(
        source.path,
        passes_on=bool(_TRAP.search(source.text) or _INIT.search(source.text)),
        arguments=_last_line(source),
        gives_way=bool(_EXEC.search(source.text)),
        service=source.place(_number(source, service)) if service else None,
        always=frozenset(_number(source, found) for found in _CRON.finditer(source.text)),
    )


def _number(source: Source, found: re.Match[str]) -> int:
    return source.text.count("\n", 0, found.start()) + 1


def _last_line(source: Source) -> Place | None:
    """The place of the last command, if that is `"$@"` without `exec`."""
    lines = source.text.splitlines()
    for number in range(len(lines), 0, -1):
        text = lines[number - 1]
        if text.strip() and not text.lstrip().startswith("#"):
            return source.place(number) if _GIVEN.fullmatch(text) else None
    return None


class ProcessOne(NamedTuple):
    """Process 1 of an image or a service."""

    name: str
    start: StartWords
    init: bool
    service: Service | None
    image: Image | None
    inherits: bool
    """A service that starts its image's own command."""

    @property
    def is_alpine(self) -> bool:
        built = self.image or self.service
        return built is not None and built.is_alpine


class ContainerProgram(NamedTuple):
    """A scheduler, worker or cron in a container."""

    container: ProcessOne
    program: KnownProgram
    place: Place
    lingers: bool | None
    """Something else is process 1 while it runs, and passes no signals on; None if that depends on the shell."""
    script: str
    """The script of this tree that starts it; "" if none does."""
    certain: bool = True
    """It is started under no condition."""


def containers(facts: Facts) -> Sequence[ProcessOne]:
    images = {image.path: image for image in facts.of(Image)}
    whole = _completed([_with_image(service, images.get(service.dockerfile)) for service in facts.of(Service)])
    services = [one for service in whole if (one := _of_service(service, images.get(service.dockerfile)))]
    return [*_of_images(images.values(), services), *services]


def _with_image(service: Service, image: Image | None) -> Service:
    """A stage that is not the last is another image, of which nothing is known."""
    is_last = not service.target or (image is not None and service.target == image.stage)
    return service if is_last else service._replace(dockerfile="")


def _completed(services: Sequence[Service]) -> Iterator[Service]:
    """Services combined with overrides in the same folder."""
    found: dict[tuple[str, str], list[Service]] = {}
    for service in services:
        found.setdefault((posixpath.dirname(service.place.path), service.name), []).append(service)
    for same in found.values():
        full = [service for service in same if not service.partial]
        init = any(service.init for service in same if service.partial)
        yield from (service._replace(init=service.init or init) for service in full)
        if len(full) == 1:
            yield from (_laid_over(full[0], service) for service in same if service.partial)


def _laid_over(base: Service, over: Service) -> Service:
    return over._replace(
        dockerfile=base.dockerfile,
        entrypoint=over.entrypoint or base.entrypoint,
        command=over.command or (None if over.entrypoint else base.command),
        init=base.init or over.init,
        environment=(*base.environment, *over.environment),
    )


def _of_service(service: Service, image: Image | None) -> ProcessOne | None:
    if service.entrypoint is not None:
        start = joined(service.entrypoint, service.command)
    elif image is not None:
        start = joined(image.entrypoint, service.command or image.cmd)
    else:
        start = service.command
    if start is None or not start.words:
        return None
    own = service.entrypoint is not None or service.command is not None
    return ProcessOne(f"the service `{service.name}`", start, service.init, service, image, not own)


def _of_images(images: Iterable[Image], services: Sequence[ProcessOne]) -> Iterator[ProcessOne]:
    for image in images:
        start = joined(image.entrypoint, image.cmd)
        if start is not None and start.words:
            users = [one for one in services if one.image is image and one.inherits]
            init = bool(users) and all(one.init for one in users)
            yield ProcessOne("the image", start, init, None, image, inherits=False)


def runs(facts: Facts) -> Sequence[ContainerProgram]:
    scripts = Scripts(facts)
    return [run for container in facts.conclude(containers) for run in _in(container, scripts)]


class Scripts:
    """The shell scripts of the tree."""

    def __init__(self, facts: Facts) -> None:
        self.entries = {script.path: script for script in facts.of(EntryScript)}
        self.lines: dict[str, list[CommandLine]] = {path: [] for path in self.entries}
        for command in facts.of(CommandLine):
            if command.origin == "script" and command.unit in self.entries:
                self.lines[command.unit].append(command)
        self._copied = {
            (image.path, copied.target): copied.source for image in facts.of(Image) for copied in image.copied
        }

    def find(self, word: str, dockerfile: str, started_at: Place) -> str | None:
        """The script that a word means: the one copied there, or the only one of this name; of several, the nearest."""
        source = self._copied.get((dockerfile, word))
        if source is None and "/" not in word and not word.endswith((".sh", ".bash")):
            return None
        source = source or PurePosixPath(word).name
        named = [path for path in self.entries if path == source or path.endswith(f"/{source}")]
        if len(named) > 1:
            near = (PurePosixPath(dockerfile).parent, PurePosixPath(started_at.path).parent)
            named = [path for path in named if PurePosixPath(path).parent in near]
        return named[0] if len(named) == 1 else None


def _in(container: ProcessOne, scripts: Scripts) -> Iterator[ContainerProgram]:
    words: Sequence[str] = container.start.words
    inner = behind_init(words)
    if inner is not None:
        container, words = container._replace(init=True), inner
    yield from _started(container, words, scripts, lingers=False)


def _started(
    container: ProcessOne, words: Sequence[str], scripts: Scripts, *, lingers: bool | None
) -> Iterator[ContainerProgram]:
    told = given(words)
    if told is not None:
        yield from _told(container, *told, scripts)
        return
    script, arguments = _script(words, container, scripts)
    if script is not None:
        yield from _inside(container, script, arguments, scripts)
    elif found := program(words):
        yield ContainerProgram(container, found, container.start.place, lingers, "")


def _told(container: ProcessOne, shell: str, text: str, scripts: Scripts) -> Iterator[ContainerProgram]:
    read = line(text)
    for command in read.commands if read.plain else ():
        lingers = stays(read, command)
        lingers = False if lingers is None and (shell == "bash" or container.is_alpine) else lingers
        yield from _started(container, command.words, scripts, lingers=lingers)


def _script(words: Sequence[str], container: ProcessOne, scripts: Scripts) -> tuple[str | None, Sequence[str]]:
    """The script of this tree that is started, and its arguments."""
    rest = list(words)
    if rest and is_shell(rest[0]):
        rest = list(dropwhile(lambda word: word.startswith(("-", "+")), rest[1:]))
    dockerfile = container.image.path if container.image else ""
    return (scripts.find(rest[0], dockerfile, container.start.place), rest[1:]) if rest else (None, ())


def _inside(container: ProcessOne, path: str, arguments: Sequence[str], scripts: Scripts) -> Iterator[ContainerProgram]:
    """What a script starts: its own commands, the system's cron, and its arguments."""
    entry = scripts.entries[path]
    for command in scripts.lines[path]:
        if found := program(command.words):
            lingers = command.shell and not entry.passes_on
            yield ContainerProgram(container, found, command.place, lingers, path, command.place.line in entry.always)
    if entry.service:
        cron = KnownProgram("cron", "cron", detaches=True)
        certain = entry.service.line in entry.always
        yield ContainerProgram(container, cron, entry.service, not entry.passes_on, path, certain)
    if entry.gives_way:
        inner = container._replace(init=container.init or entry.passes_on)
        yield from _started(inner, arguments, scripts, lingers=False)
    elif entry.arguments and (found := program(arguments)):
        yield ContainerProgram(container, found, entry.arguments, not entry.passes_on, path)
