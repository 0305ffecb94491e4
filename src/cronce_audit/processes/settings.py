"""The settings that a server finds in a file: gunicorn.conf.py, uwsgi.ini."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from cronce_audit.model import Facts
from cronce_audit.processes.counts import Count, count
from cronce_audit.processes.homes import Home
from cronce_audit.processes.options import Told
from cronce_audit.processes.reading import SettingsFile

_DEFAULT: Final = re.compile(
    r"""(?:int\()?(?:os\.)?(?:environ\.get|getenv)\(['"]\w+['"], ['"]?(?P<default>\d+)['"]?\)\)?"""
)
_TRUE: Final = frozenset({"true", "1", "yes", "on", ""})


class Settings(NamedTuple):
    """What a file of settings says of the app and of those who import it."""

    path: str = ""
    app: str = ""
    workers: Count | None = None
    preload: bool = False


def gunicorn_settings(facts: Facts, where: Home, told: Told) -> Settings:
    """Of the file after `-c`, else of gunicorn.conf.py in the folder it is started in."""
    named = told.value("-c", "--config") or "gunicorn.conf.py"
    if named.startswith("python:"):
        named = f"{named.removeprefix('python:').replace('.', '/')}.py"
    found = _file(facts, "gunicorn", named.removeprefix("file:"), where)
    if found is None:
        return Settings()
    known = {name: value for name, value, _ in found.settings}
    return Settings(
        found.place.path,
        known.get("wsgi_app", "").strip("'\""),
        count_in(known["workers"]) if "workers" in known else None,
        known.get("preload_app") == "True",
    )


def count_in(expression: str) -> Count:
    """A number in Python: `int(os.environ.get("WORKERS", 4))` is 4 where nothing sets WORKERS."""
    default = _DEFAULT.fullmatch(expression)
    return count(default["default"] if default else expression)


def uwsgi_settings(facts: Facts, where: Home, told: Told) -> Settings:
    """From the command line and the ini file that it names."""
    named = told.value("--ini", "--ini-paste") or next((word for word in told.words if word.endswith(".ini")), "")
    found = _file(facts, "uwsgi", named, where) if named else None
    known: dict[str, str] = {name: value for name, value, _ in found.settings} if found else {}
    known |= {_LONG.get(name, name.lstrip("-")): value for name, value in told.options}
    workers = next((known[name] for name in ("processes", "workers") if name in known), None)
    return Settings(
        found.place.path if found else "",
        _uwsgi_app(known),
        None if workers is None else count(workers),
        not any(known.get(name, "false").lower() in _TRUE for name in ("lazy-apps", "lazy")),
    )


_LONG: Final = {"-w": "module", "-p": "processes"}


def _uwsgi_app(known: Mapping[str, str]) -> str:
    if "wsgi-file" in known:
        return known["wsgi-file"].removesuffix(".py").replace("/", ".").lstrip(".")
    module = known.get("module") or known.get("wsgi") or ""
    return f"{module}:{known['callable']}" if module and ":" not in module and "callable" in known else module


def _file(facts: Facts, server: str, named: str, where: Home) -> SettingsFile | None:
    files = {each.place.path: each for each in facts.of(SettingsFile) if each.server == server}
    return files.get(where.find_end(named, files) or "")
