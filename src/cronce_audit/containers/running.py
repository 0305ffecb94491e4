"""What starts containers: images and services combined; and the shell scripts that may be their process 1."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce_audit.containers.facts import EntryScript, Image, Service, StartWords, joined
from cronce_audit.model import CommandLine, Facts, Place, Source, reader
from cronce_audit.scripts import INITS

_NAMES: Final = frozenset({"entrypoint", "docker-entrypoint", "start", "run"})
_SHEBANG: Final = re.compile(r"#!.*\b(sh|bash|ash|dash)\b")
_TRAP: Final = re.compile(r"^[ \t]*trap[ \t]+(?!-)", re.MULTILINE)
_INIT: Final = re.compile(rf"\bexec\b[^\n]*[\s/]({'|'.join(INITS)})\s")
_GIVEN: Final = re.compile(r"[ \t]*((gosu|su-exec)\s+\S+\s+)?(\"\$@\"|\$@|\"\$\{@\}\")\s*")
_EXEC: Final = re.compile(r"^[ \t]*exec\b[^\n#]*\$(\{@\}|@)", re.MULTILINE)


def _wants(path: PurePosixPath) -> bool:
    return path.suffix in (".sh", ".bash") or path.name in _NAMES


@reader("entry script", _wants)
def _read(source: Source) -> Iterator[EntryScript]:
    if not source.suffix and not _SHEBANG.match(source.text):
        return
    yield EntryScript(
        source.path,
        passes_on=bool(_TRAP.search(source.text) or _INIT.search(source.text)),
        arguments=_last_line(source),
        gives_way=bool(_EXEC.search(source.text)),
    )


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
    """But for those of which no service starts what they say."""
    for image in images:
        start = joined(image.entrypoint, image.cmd)
        built = [one for one in services if one.image is image]
        users = [one for one in built if one.inherits]
        if start is not None and start.words and (users or not built):
            init = bool(users) and all(one.init for one in users)
            yield ProcessOne("the image", start, init, None, image, inherits=False)


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
