"""What is read for this part alone: which module imports which, and the settings of gunicorn and uWSGI."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce_audit.model import Place, Reader, Source
from cronce_audit.python.read import module_name

_FROM: Final = re.compile(
    r"^(?P<indent>[ \t]*)from[ \t]+(?P<of>[.\w]+)[ \t]+import[ \t]+(?P<names>\([^)]*\)|[^\n\\#]*)", re.M
)
_IMPORT: Final = re.compile(
    r"^(?P<indent>[ \t]*)import[ \t]+(?P<names>[\w.]+(?:[ \t]+as[ \t]+\w+)?(?:[ \t]*,[^\n#]*)?)", re.M
)
_SETTINGS: Final = re.compile(r"^(?:workers|preload_app|worker_class|wsgi_app)\s*=", re.M)


class Imports(NamedTuple):
    """The modules that a module imports: by name, or as something of them, from the root that Python sees."""

    module: str
    place: Place
    always: tuple[str, ...]
    inside: tuple[str, ...]
    """In a function, a class, a condition: perhaps not, or later."""


class SettingsFile(NamedTuple):
    """A file of settings of gunicorn (Python, each value as it is written) or uWSGI (an ini section)."""

    server: str
    place: Place
    settings: tuple[tuple[str, str, int], ...]
    """Name, value and line."""


def _imports(source: Source) -> Iterator[Imports]:
    module = module_name(source.path)
    package = module if source.name == "__init__.py" else module.rpartition(".")[0]
    found: tuple[list[str], list[str]] = ([], [])
    for each in _FROM.finditer(source.text):
        of = _absolute(each["of"], package)
        if of.partition(".")[0] not in sys.stdlib_module_names:
            names = re.findall(r"(\w+|\*)(?:\s+as\s+\w+)?", each["names"])
            found[bool(each["indent"])].extend(
                [of, *(f"{of}.{name}".removeprefix(".") for name in names if name != "*")]
            )
    for each in _IMPORT.finditer(source.text):
        names = [name.split()[0] for name in each["names"].split(",") if name.strip()]
        found[bool(each["indent"])].extend(
            name for name in names if name.partition(".")[0] not in sys.stdlib_module_names
        )
    always = tuple(dict.fromkeys(found[0]))
    yield Imports(
        module, source.place(1), always, tuple(each for each in dict.fromkeys(found[1]) if each not in always)
    )


def _absolute(name: str, package: str) -> str:
    """`..jobs` in the package app.web is app.jobs."""
    dots = len(name) - len(name.lstrip("."))
    if not dots:
        return name
    above = package.split(".") if package else []
    return ".".join([*above[: len(above) - dots + 1], *([name[dots:]] if name[dots:] else [])])


def _gunicorn(source: Source) -> Iterator[SettingsFile]:
    """Settings at the top level; gunicorn reads nothing else of them but functions, which are read as Python."""
    if not _SETTINGS.search(source.text):
        return
    try:
        tree = ast.parse(source.text)
    except (SyntaxError, ValueError):
        return
    settings = [
        (target.id, ast.unparse(statement.value), statement.lineno)
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    ]
    yield SettingsFile("gunicorn", source.place(1), tuple(settings))


def _uwsgi(source: Source) -> Iterator[SettingsFile]:
    section = re.search(r"^\[uwsgi\]\s*$(?P<body>.*?)(?=^\[|\Z)", source.text, re.M | re.S)
    if section is None:
        return
    first = source.text.count("\n", 0, section.start("body")) + 1
    settings = [
        (found["name"], found["value"].strip(), first + number)
        for number, line in enumerate(section["body"].split("\n"))
        if (found := re.match(r"\s*(?P<name>[\w-]+)\s*=\s*(?P<value>[^#;]*)", line))
    ]
    yield SettingsFile("uwsgi", source.place(1), tuple(settings))


def _may_be_settings(path: PurePosixPath) -> bool:
    return path.suffix == ".py" and (
        "gunicorn" in path.name or path.name.endswith((".conf.py", "config.py", "conf.py"))
    )


READERS: Final = (
    Reader("imports", lambda path: path.suffix == ".py", _imports),
    Reader("gunicorn settings", _may_be_settings, _gunicorn),
    Reader("uwsgi settings", lambda path: path.suffix == ".ini" or "uwsgi" in path.name, _uwsgi),
)
