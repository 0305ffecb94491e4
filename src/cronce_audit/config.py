"""A project's configuration: `[tool.cronce.audit]` in pyproject.toml, or `[audit]` in cronce.toml.

The nearest one counts, from the first path upwards to the folder with .git. That folder is the root of all reported
paths, so an audit that starts in a subfolder finds the same baseline.
"""

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from cronce.errors import BadInput
from cronce_audit.clocks import is_zone
from cronce_audit.model import GONE, Confidence, Rule, Severity, rules

NEVER: Final = "never"
"""As a threshold: no finding is a failure."""


class AuditSettings(NamedTuple):
    """The options of an audit."""

    exclude: Sequence[str] = ()
    ignore: Mapping[str, str] = MappingProxyType({})
    """Rules to leave out, each with the reason."""
    fail_on: Severity | None = Severity.WARNING
    """The lowest severity that fails the audit; None: none does."""
    min_confidence: Confidence = Confidence.LOW
    baseline: Path | None = None
    zone: str | None = None
    """The time zone of the machines, where no file sets one."""
    tests: bool = False
    select: Sequence[str] = ()
    """The ids of the rules to apply; empty means all."""
    per_file_ignores: Sequence[tuple[str, Mapping[str, str]]] = ()
    """Patterns as in .gitignore, and the rules to leave out for such files, each with the reason."""
    locks: Sequence[str] = ()
    """Functions, classes and decorators that are locks across machines: `shop.locking.only_here`."""
    pages: str | None = None
    """The URL at which the rules' pages are published; `CR101.md` is added to it."""
    notes: Sequence[str] = ()
    """Notes about removed rules that the config names."""


class Project(NamedTuple):
    """The root of all reported paths, and the settings found there."""

    root: Path
    settings: AuditSettings
    said_in: str | None
    """The file with the settings, from the root."""


def find_project(paths: Sequence[Path]) -> Project:
    """The project of the first path. With paths of several projects the root is the folder that holds them all."""
    whole = [path.resolve() for path in paths]
    folders = [path if _is_folder(path) else path.parent for path in whole]
    first = folders[0]
    for folder in (first, *first.parents):
        told = _told_in(folder)
        if told or os.access(folder / ".git", os.F_OK):
            name, said = told or (None, {})
            settings = _settings(said, folder, f"{folder / name}" if name else "")
            return Project(_root(folder, folders), settings, name)
    return Project(_root(Path.cwd(), folders), AuditSettings(), None)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None


def _root(wanted: Path, folders: Sequence[Path]) -> Path:
    if all(folder.is_relative_to(wanted) for folder in folders):
        return wanted
    return Path(os.path.commonpath(folders))


def _told_in(folder: Path) -> tuple[str, Mapping[str, Any]] | None:
    for name, way in (("cronce.toml", ("audit",)), ("pyproject.toml", ("tool", "cronce", "audit"))):
        found: Any = _loaded(folder / name)
        for key in way:
            beside, found = found, found.get(key) if isinstance(found, dict) else None
        _refuse_misspelt(beside, way, folder / name)
        if found is not None:
            if not isinstance(found, dict):
                raise BadInput(f"{folder / name}: [{'.'.join(way)}] is a table")
            return name, found
    return None


def _refuse_misspelt(beside: Any, way: Sequence[str], path: Path) -> None:
    """A table with nearly our name was meant for us."""
    *above, own = way
    if isinstance(beside, dict) and own not in beside:
        for odd in get_close_matches(own, beside, n=1, cutoff=0.75):
            raise BadInput(f"{path}: there is no table [{'.'.join([*above, odd])}]; did you mean [{'.'.join(way)}]?")


def _loaded(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, PermissionError):  # /etc/cronce.toml holds the store's URL and may be private
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from None


def _settings(said: Mapping[str, Any], folder: Path, where: str) -> AuditSettings:
    known: dict[str, Callable[[Any], Any]] = {
        "exclude": _patterns,
        "ignore": _ignored,
        "fail-on": threshold,
        "min-confidence": confidence,
        "baseline": lambda value: folder / _text(value),
        "zone": zone,
        "tests": _flag,
        "locks": _patterns,
        "select": lambda value: tuple(rule.id for rule in rules_named(_patterns(value))),
        "per-file-ignores": _per_file,
        "pages": _text,
    }
    read = {}
    for key, value in said.items():
        if key not in known:
            raise BadInput(f"{where}: there is no key {key!r}; {one_of(key, known)}")
        try:
            read[key.replace("-", "_")] = known[key](value)
        except BadInput as error:
            raise BadInput(f"{where}: {key}: {error}") from None
    per_file = [rule for each in said.get("per-file-ignores", {}).values() for rule in each]
    return AuditSettings(**read, notes=gone([*said.get("select", ()), *said.get("ignore", ()), *per_file]))


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise BadInput("this must be a text")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadInput("this must be true or false")
    return value


def _patterns(value: Any) -> Sequence[str]:
    if not isinstance(value, list):
        raise BadInput('this must be a list of patterns, such as ["legacy/"]')
    return tuple(map(_text, value))


def _ignored(value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise BadInput('each rule has a reason, so write { CR105 = "why this is all right here" }')
    for named, reason in value.items():
        if not isinstance(reason, str) or not reason.strip():
            raise BadInput(f"{named} has no reason; add one, so that a later reader knows why")
    return {rule.id: reason.strip() for named, reason in value.items() for rule in rules_named([named])}


def _per_file(value: Any) -> Sequence[tuple[str, Mapping[str, str]]]:
    if not isinstance(value, dict):
        raise BadInput('write { "scripts/" = { CR404 = "they are run by hand" } }')
    return tuple((_text(pattern), _ignored(rules)) for pattern, rules in value.items())


def threshold(value: Any) -> Severity | None:
    return None if value == NEVER else _choice(Severity, value, NEVER)


def confidence(value: Any) -> Confidence:
    return _choice(Confidence, value)


E = TypeVar("E", Severity, Confidence)


def _choice(kind: type[E], value: Any, *more: str) -> E:
    words: dict[str, E] = {one.word: one for one in kind}
    if not isinstance(value, str) or value not in words:
        raise BadInput(f"{value!r} is not one of {', '.join([*words, *more])}")
    return words[value]


def zone(value: Any) -> str:
    if not is_zone(_text(value)):
        raise BadInput(f"there is no time zone {value!r}")
    return str(value)


def rule_named(word: str) -> Rule:
    """A rule by its id or name, in any case."""
    by_name = {rule.name: rule for rule in rules().values()}
    found = rules().get(GONE.get(word.upper()) or word.upper()) or by_name.get(word.lower())
    if found is None:
        for note in gone([word]):
            raise BadInput(note)
        raise BadInput(f"there is no rule {word!r}; {one_of(word, list(by_name))}")
    return found


def gone(words: Iterable[str]) -> Sequence[str]:
    """A note about each removed rule among these."""
    parts = [part.strip().upper() for word in words for part in word.split(",")]
    return tuple(
        f"{one} is now part of {GONE[one]}" if GONE[one] else f"{one} was removed: cronce no longer checks this"
        for one in dict.fromkeys(parts)
        if one in GONE
    )


def rules_named(words: Iterable[str]) -> Sequence[Rule]:
    """Each word may hold several, separated by commas. A prefix of ids means all rules that have it: CR1, CR50."""
    parts = [part.strip() for word in words for part in word.split(",") if part.strip()]
    return list(dict.fromkeys(rule for part in parts for rule in _meant(part)))


def _meant(word: str) -> Sequence[Rule]:
    if GONE.get(word.upper()) == "":
        return []
    begins = word.upper() if re.fullmatch(r"(?i)cr\d{1,2}", word) else ""
    return [rule for rule in rules().values() if begins and rule.id.startswith(begins)] or [rule_named(word)]


def one_of(word: str, known: Sequence[str] | Mapping[str, object]) -> str:
    """A hint: the closest known word; else all words, if they are few; else the command that lists them."""
    close = get_close_matches(word, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there are {', '.join(known)}" if len(known) < 12 else "`cronce audit rules` lists them"
