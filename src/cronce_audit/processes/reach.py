"""What is read for this part alone: which module imports which, and the settings of uWSGI."""

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce_audit.model import Facts, Place, Source, reader
from cronce_audit.processes.commands import Serving, Started
from cronce_audit.processes.units import Home, home
from cronce_audit.python.facts import Package
from cronce_audit.python.names import Places
from cronce_audit.python.read import module_name
from cronce_audit.systemd import settings

_FROM: Final = re.compile(
    r"^(?P<indent>[ \t]*)from[ \t]+(?P<of>[.\w]+)[ \t]+import[ \t]+(?P<names>\([^)]*\)|[^\n\\#]*)", re.M
)
_IMPORT: Final = re.compile(
    r"^(?P<indent>[ \t]*)import[ \t]+(?P<names>[\w.]+(?:[ \t]+as[ \t]+\w+)?(?:[ \t]*,[^\n#]*)?)", re.M
)


class Imports(NamedTuple):
    """The modules that a module imports: by name, or as something of them, from the root that Python sees."""

    module: str
    place: Place
    always: tuple[str, ...]
    inside: tuple[str, ...]
    """In a function, a class, a condition: perhaps not, or later."""


class UwsgiSettings(NamedTuple):
    """The section of an ini file that is uWSGI's."""

    place: Place
    settings: tuple[tuple[str, str], ...]


@reader("imports", lambda path: path.suffix == ".py")
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


@reader("uwsgi settings", lambda path: path.suffix == ".ini" or "uwsgi" in path.name)
def _uwsgi(source: Source) -> Iterator[UwsgiSettings]:
    found = [one for one in settings(source.text) if one.section == "uwsgi"] if "[uwsgi]" in source.text else []
    if found:
        given = tuple((one.key, re.split(r"[#;]", one.value)[0].strip()) for one in found)
        yield UwsgiSettings(source.place(1), given)


def reach(facts: Facts) -> "Reach":
    """For `facts.conclude(reach)`."""
    return Reach(facts)


class Reach:
    def __init__(self, facts: Facts) -> None:
        self._imports: Final = {each.module: each for each in facts.of(Imports)}
        self._places: Final = Places(self._imports, {package.name for package in facts.of(Package)})
        self._files: Final = {_file(each): each.module for each in self._imports.values()}
        """Modules by their paths without the ending, and packages by their folders."""
        self._packages: Final = {_file(each) for each in self._imports.values() if _is_package(each)}
        self.served: Final = cache(self._served_by)
        self._run: Final = cache(self._run_by)
        self.imported_from: Final = cache(self._imported_from)
        self._next: Final = cache(self._next_of)

    def module(self, dotted: str, near: str = "") -> str:
        """Its name from the root of the tree on; "" where it is not of this tree."""
        found = self._places.find(dotted, near) if dotted else ""
        return found if found in self._imports else ""

    def full(self, dotted: str, near: str) -> str:
        """A name in full, from the root of the tree on."""
        return self._places.find(dotted, near)

    def path(self, module: str) -> str:
        return self._imports[module].place.path if module in self._imports else ""

    def _served_by(self, serving: Serving) -> str:
        """The module of a server's app; Flask looks for wsgi.py and app.py where it is not told."""
        told = [serving.module] if serving.app or serving.server != "flask run" else ["wsgi", "app"]
        where = home(serving.place, serving.by)
        return next(filter(None, (self._named(module, where) for module in told)), "")

    def run(self, running: Started) -> str:
        """The module that a program is."""
        return self._run(running.what, home(running.place, running.by))

    def _run_by(self, what: str, where: Home) -> str:
        if what.endswith(".py"):
            found = where.find_end(what.removesuffix(".py"), self._files)
            return self._files[found] if found else ""
        return self._named(f"{what}.__main__", where) or self._named(what, where)

    def _named(self, module: str, where: Home) -> str:
        """The module of this name where a command is started."""
        found = where.find(module.replace(".", "/"), self._files, self._packages) if module else ""
        return self._files[found] if found else ""

    def imports(self, module: str, library: str) -> bool:
        """Whether a module itself imports something of a library."""
        known = self._imports.get(module)
        named = (*known.always, *known.inside) if known else ()
        return any(name == library or name.startswith(f"{library}.") for name in named)

    def importers(self, module: str) -> list[str]:
        """The other modules that import it, in order."""
        return self._importers.get(module, [])

    @cached_property
    def _importers(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for other in self._imports:
            for module in self._next(other):
                if module != other:
                    found[module].append(other)
        return found

    def _imported_from(self, module: str) -> Mapping[str, bool]:
        """All modules of the tree that importing this one imports; True for those that are surely imported, False for
        those behind an import in a function or a condition."""
        found = {module: True}
        for surely in (True, False):
            todo = list(found)
            while todo:
                for other, always in self._next(todo.pop()).items():
                    if other not in found and (always or not surely):
                        found[other] = surely
                        todo.append(other)
        return found

    def _next_of(self, module: str) -> Mapping[str, bool]:
        """What a module imports itself, with the packages around it."""
        known = self._imports.get(module)
        found: dict[str, bool] = {}
        for always in (True, False):
            for name in (known.always if always else known.inside) if known else ():
                self._add(found, name, module, always)
        return found

    def _add(self, found: dict[str, bool], name: str, near: str, always: bool) -> None:
        while name:
            place = self.module(name, near)
            if place:
                found.setdefault(place, always)
            name = name.rpartition(".")[0]


def _is_package(imports: Imports) -> bool:
    return PurePosixPath(imports.place.path).name == "__init__.py"


def _file(imports: Imports) -> str:
    path = PurePosixPath(imports.place.path)
    return str(path.parent if _is_package(imports) else path.with_suffix(""))
