"""The settings that a server finds in a file: gunicorn.conf.py, uwsgi.ini."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from cronce_audit.model import Facts
from cronce_audit.processes.argv import ONE, SEVERAL, UNKNOWN, Argv, Count, Told, count, told_in
from cronce_audit.processes.commands import Serving, started
from cronce_audit.processes.reach import UwsgiSettings
from cronce_audit.processes.units import Home, home
from cronce_audit.python.facts import UNKNOWN as UNTOLD
from cronce_audit.python.facts import Call, Called, Const, Module, Name, Operation, Value
from cronce_audit.python.names import Names, names

_TRUE: Final = frozenset({"true", "1", "yes", "on", ""})


class Settings(NamedTuple):
    """What a file of settings says of the app and of those who import it."""

    path: str = ""
    app: str = ""
    workers: Count | None = None
    preload: bool = False


def gunicorn_settings(facts: Facts, where: Home, told: Told) -> Settings:
    """Of the file after `-c`, else of gunicorn.conf.py in the folder it is started in: what it binds at its top."""
    named = told.value("-c", "--config") or "gunicorn.conf.py"
    if named.startswith("python:"):
        named = f"{named.removeprefix('python:').replace('.', '/')}.py"
    files = {module.place.path: module.name for module in facts.of(Module)}
    path = where.find_end(named.removeprefix("file:"), files)
    if not path:
        return Settings()
    known, module = facts.conclude(names), files[path]
    app, workers, preload = (
        known.origin(Name(f"{module}.{name}"), module) for name in ("wsgi_app", "workers", "preload_app")
    )
    return Settings(
        path,
        str(app.value) if isinstance(app, Const) else "",
        None if isinstance(workers, Name) else count_of(workers, module, known),
        preload == Const(value=True),
    )


def count_of(value: Value, near: str, known: Names, steps: int = 6) -> Count:
    """A number in Python: `int(os.environ.get("WORKERS", 4))` is 4 where nothing sets WORKERS."""
    match known.origin(value, near) if steps else UNTOLD:
        case Const(int(number)):
            return Count(max(number, 1))
        case Const(str(text)):
            return count(text)
        case Called(function, parts):
            made = known.full_name(function, near)
            if made.endswith(".cpu_count"):
                return SEVERAL
            if made == "int" or made in ("os.getenv", "os.environ.get"):
                return (
                    count_of(parts[-1], near, known, steps - 1)
                    if len(parts) == (1 if made == "int" else 2)
                    else UNKNOWN
                )
        case Operation(_, parts):
            pass
        case _:
            return UNKNOWN
    return SEVERAL if any(count_of(each, near, known, steps - 1) == SEVERAL for each in parts) else UNKNOWN


def uwsgi_settings(facts: Facts, where: Home, told: Told) -> Settings:
    """From the command line and the ini file that it names."""
    named = told.value("--ini", "--ini-paste") or next((word for word in told.words if word.endswith(".ini")), "")
    files = {each.place.path: each for each in facts.of(UwsgiSettings)}
    found = files.get(where.find_end(named, files) or "") if named else None
    known: dict[str, str] = dict(found.settings) if found else {}
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


def servings_in_code(facts: Facts) -> Iterator[Serving]:
    known = facts.conclude(names)
    for call in known.calls("run"):
        if call.called.function == Name("uvicorn.run"):
            yield _uvicorn(call, known)


def _uvicorn(call: Call, known: Names) -> Serving:
    app = known.constant(next(iter(call.called.args), call.called.keyword("app")), call.scope.module)
    reload = call.called.keyword("reload") not in (None, Const(value=False))
    named = isinstance(app, str)
    given = call.called.keyword("workers")
    workers = count_of(given, call.scope.module, known) if given is not None and named and not reload else ONE
    told = given is not None and workers.exact
    return Serving("uvicorn.run", str(app) if named else call.scope.module, workers, call.place, decided=told)


_SERVERS: Final[Mapping[str, tuple[str, ...]]] = {
    "gunicorn": ("WEB_CONCURRENCY",), "uvicorn": ("WEB_CONCURRENCY", "UVICORN_WORKERS"),
    "granian": ("GRANIAN_WORKERS",), "hypercorn": (), "waitress-serve": (), "daphne": (), "fastapi": (),
}  # fmt: skip
"""With the variables that state the number of workers where no option does."""
_WORKERS: Final = ("-w", "--workers")


def servings(facts: Facts) -> Sequence[Serving]:
    """The web servers that commands, and Python code, start."""
    by_commands = [
        serving
        for one in facts.conclude(started)
        if (serving := _serving(one.argv, partial(Serving, place=one.place, by=one.by), facts))
    ]
    return [*by_commands, *servings_in_code(facts)]


def _serving(argv: Argv, made: partial[Serving], facts: Facts) -> Serving | None:
    if argv.program == "uwsgi":
        return _uwsgi(argv, made, facts)
    if argv.program == "flask":
        return _flask(argv, made)
    if argv.program == "django-admin" or argv.program.endswith("manage.py"):
        return _django(argv, made)
    return _plain(argv, made, facts) if argv.program in _SERVERS else None


def _plain(argv: Argv, made: partial[Serving], facts: Facts) -> Serving | None:
    """A server that takes the app as a word, and the workers as an option, a variable or a setting."""
    told = told_in(_with_variables(argv))
    words = told.words
    if argv.program == "fastapi":
        if words[:1] not in (["run"], ["dev"]):
            return None
        words = words[1:]
    if told.has("--version", "--help", "--check-config", "--print-config"):
        return None
    settings = gunicorn_settings(facts, home(**made.keywords), told) if argv.program == "gunicorn" else Settings()
    reload = told.has("--reload") or (argv.program == "fastapi" and told.words[:1] == ["dev"])
    return made(
        server=argv.program,
        app=_app(words[0]) if words else settings.app,
        workers=_workers(argv, told, settings, reload),
        preload=told.has("--preload") or settings.preload,
        config=settings.path,
        counted=settings.path if settings.workers and told.value(*_WORKERS) is None else "",
        decided=told.value(*_WORKERS) is not None or settings.workers is not None,
        watches=reload,
    )


def _app(word: str) -> str:
    """`main.py`, as `fastapi run` has it, is the module main."""
    return word.removesuffix(".py").replace("/", ".").lstrip(".") if word.endswith(".py") else word


def _workers(argv: Argv, told: Told, settings: Settings, reload: bool) -> Count:
    """The option, else the setting, else the variable. Those that watch files have one worker (not so gunicorn)."""
    if reload and argv.program != "gunicorn":
        return ONE
    option = told.value(*_WORKERS)
    if option is not None:
        return count(option)
    if settings.workers is not None:
        return settings.workers
    variable = next((argv.environment[name] for name in _SERVERS[argv.program] if name in argv.environment), None)
    return ONE if variable is None else count(variable)


def _with_variables(argv: Argv) -> Sequence[str]:
    """GUNICORN_CMD_ARGS stands before what the command line says, which wins."""
    text = argv.environment.get("GUNICORN_CMD_ARGS", "") if argv.program == "gunicorn" else ""
    try:
        return [*shlex.split(text), *argv.arguments]
    except ValueError:
        return argv.arguments


def _flask(argv: Argv, made: partial[Serving]) -> Serving | None:
    told = told_in(argv.arguments)
    if told.words[:1] != ["run"]:
        return None
    debug = told.has("--debug") or (_is_set(argv.environment, "FLASK_DEBUG") and not told.has("--no-debug"))
    app = told.value("-A", "--app") or argv.environment.get("FLASK_APP", "")
    reload = (debug or told.has("--reload")) and not told.has("--no-reload")
    return made(server="flask run", app=_app(app), workers=ONE, watches=reload)


def _is_set(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "0").lower() not in ("0", "false", "no", "")


def _django(argv: Argv, made: partial[Serving]) -> Serving | None:
    if argv.arguments[:1] != ("runserver",):
        return None
    reload = "--noreload" not in argv.arguments
    return made(server="manage.py runserver", app="", workers=ONE, watches=reload)


def _uwsgi(argv: Argv, made: partial[Serving], facts: Facts) -> Serving | None:
    """uWSGI imports the app before it forks, unless it is told to be lazy: what threads do then is not our guess."""
    told = told_in(argv.arguments)
    settings = uwsgi_settings(facts, home(**made.keywords), told)
    return made(
        server="uwsgi",
        app=settings.app,
        workers=settings.workers or ONE,
        preload=settings.preload,
        config=settings.path,
        decided=settings.workers is not None,
    )
