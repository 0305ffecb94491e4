"""From the words that a container is started with to a Command that the rules of all parts understand."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from cronce_audit.common import Command, Origin
from cronce_audit.containers.facts import Start
from cronce_audit.containers.shell import ASSIGNMENT, Kind, given, line, stays


def joined(entrypoint: Start | None, cmd: Start | None) -> Start | None:
    """What process 1 gets: the entrypoint, with the command as its arguments. A text for a shell takes none."""
    if entrypoint is None or not entrypoint.words:
        return cmd
    if cmd is None or given(entrypoint.words):
        return entrypoint
    return Start(entrypoint.words + cmd.words, cmd.place)


def kind_of(name: str, sh: Kind | None) -> Kind | None:
    """Which shell a name means, where `sh` is that of the image."""
    return "bash" if name == "bash" else "dash" if name == "dash" else "ash" if name == "ash" else sh


def commands(
    start: Start | None,
    origin: Origin,
    unit: str,
    *,
    sh: Kind | None = None,
    copies: int | None = 1,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Command]:
    if start is None or not start.words:
        return
    words, shell = _without_shell(_without_entry_script(start.words), sh)
    known = tuple(sorted((environment or {}).items()))
    yield Command(words, start.place, origin, unit, copies, known, shell)


def _without_entry_script(words: tuple[str, ...]) -> tuple[str, ...]:
    """`docker-entrypoint cron -f` comes to `cron -f`: such programs do what is to be done before, and run the rest."""
    first = PurePosixPath(words[0]).name
    return words[1:] if len(words) > 1 and "entrypoint" in first and not first.endswith(".sh") else words


def _without_shell(words: tuple[str, ...], sh: Kind | None) -> tuple[tuple[str, ...], bool]:
    told = given(words)
    if told is None:
        return words, False
    name, text = told
    read = line(text)
    if not read.commands:
        return words, True
    lingers = stays(read, read.commands[-1], kind_of(name, sh)) is not False
    alone = len(read.commands) == 1 and read.plain and not ASSIGNMENT.match(text)  # `X=1 program` is more
    return (read.commands[0].words if alone else words), lingers
