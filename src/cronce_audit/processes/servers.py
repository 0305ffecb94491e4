"""What each web server makes of its command line: how many workers, and who imports the app.

Measured with the real ones: gunicorn and uvicorn with four workers import the app four times; with `--preload` gunicorn
imports it once, in the master, and threads that the import starts stay there. `flask run --debug` and `manage.py
runserver` import it in the parent that watches the files, and again in the process that serves.
"""

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from cronce_audit.model import Facts
from cronce_audit.processes.argv import Argv
from cronce_audit.processes.commands import Serving, started
from cronce_audit.processes.counts import ONE, Count, count
from cronce_audit.processes.homes import home
from cronce_audit.processes.in_code import servings_in_code
from cronce_audit.processes.options import Options, Told
from cronce_audit.processes.settings import Settings, gunicorn_settings, uwsgi_settings


class Server(NamedTuple):
    """The options of a server that matter here."""

    flags: frozenset[str]
    workers: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    """Of the environment, that state the number of workers where no option does."""
    skip: int = 0
    """Words before the app: `run` of `fastapi run`."""


_GUNICORN: Final = Server(
    frozenset({
        "--reload", "--spew", "--check-config", "--print-config", "--preload", "--reuse-port", "-D", "--daemon",
        "--initgroups", "--disable-redirect-access-to-syslog", "--capture-output", "--log-syslog", "-R",
        "--enable-stdio-inheritance", "--suppress-ragged-eofs", "--do-handshake-on-connect", "--strip-header-spaces",
        "--permit-obsolete-folding", "--no-sendfile", "--proxy-protocol", "--no-control-socket"
    }),
    ("-w", "--workers"),
    ("WEB_CONCURRENCY",),
)  # fmt: skip
_SERVERS: Final = {
    "gunicorn": _GUNICORN,
    "uvicorn": Server(
        frozenset({
            "--reload", "--access-log", "--no-access-log", "--use-colors", "--no-use-colors", "--proxy-headers",
            "--no-proxy-headers", "--server-header", "--no-server-header", "--date-header", "--no-date-header",
            "--factory", "--reset-contextvars"
        }),
        ("--workers",),
        ("WEB_CONCURRENCY", "UVICORN_WORKERS"),
    ),
    "hypercorn": Server(frozenset({"--reload", "--debug"}), ("-w", "--workers")),
    "granian": Server(
        frozenset({
            "--reload", "--no-reload", "--access-log", "--no-access-log", "--ws", "--no-ws", "--log", "--no-log",
            "--respawn-failed-workers", "--factory", "--no-factory"
        }),
        ("--workers",),
        ("GRANIAN_WORKERS",),
    ),
    "waitress-serve": Server(frozenset({"--call", "--expose-tracebacks", "--no-expose-tracebacks"})),
    "daphne": Server(frozenset({"--proxy-headers", "--no-server-name"})),
    "fastapi": Server(
        frozenset({"--reload", "--no-reload", "--proxy-headers", "--no-proxy-headers"}), ("--workers",), (), skip=1
    ),
}  # fmt: skip
"""gunicorn's other options all take a value, and so on: what is missing here would hide the app behind it."""


def servings(facts: Facts) -> Sequence[Serving]:
    """The web servers that commands, and Python code, start."""
    by_commands = [
        serving
        for argv, _, place, by in facts.conclude(started)
        if (serving := _serving(argv, partial(Serving, place=place, by=by), facts))
    ]
    return [*by_commands, *servings_in_code(facts)]


def _serving(argv: Argv, made: partial[Serving], facts: Facts) -> Serving | None:
    if argv.program == "uwsgi":
        return _uwsgi(argv, made, facts)
    if argv.program == "flask":
        return _flask(argv, made)
    if argv.program == "django-admin" or argv.program.endswith("manage.py"):
        return _django(argv, made)
    server = _SERVERS.get(argv.program)
    return _plain(argv, server, made, facts) if server else None


def _plain(argv: Argv, server: Server, made: partial[Serving], facts: Facts) -> Serving | None:
    """A server that takes the app as a word, and the workers as an option, a variable or a setting."""
    told = Options(server.flags).read(_with_variables(argv))
    words = told.words[server.skip :]
    if argv.program == "fastapi" and told.words[:1] not in (["run"], ["dev"]):
        return None
    if told.has("--version", "--help", "--check-config", "--print-config"):
        return None
    settings = gunicorn_settings(facts, home(**made.keywords), told) if argv.program == "gunicorn" else Settings()
    reload = told.has("--reload") or (argv.program == "fastapi" and told.words[:1] == ["dev"])
    return made(
        server=argv.program,
        app=_app(words[0]) if words else settings.app,
        workers=_workers(argv, server, told, settings, reload),
        preload=told.has("--preload") or settings.preload,
        config=settings.path,
        counted=settings.path if settings.workers and told.value(*server.workers) is None else "",
        decided=told.value(*server.workers) is not None or settings.workers is not None,
    )


def _app(word: str) -> str:
    """`main.py`, as `fastapi run` has it, is the module main."""
    return word.removesuffix(".py").replace("/", ".").lstrip(".") if word.endswith(".py") else word


def _workers(argv: Argv, server: Server, told: Told, settings: Settings, reload: bool) -> Count:
    """The option, else the setting, else the variable. Those that watch files have one worker (not so gunicorn)."""
    if reload and argv.program != "gunicorn":
        return ONE
    option = told.value(*server.workers)
    if option is not None:
        return count(option)
    if settings.workers is not None:
        return settings.workers
    variable = next((argv.environment[name] for name in server.variables if name in argv.environment), None)
    return ONE if variable is None else count(variable)


def _with_variables(argv: Argv) -> Sequence[str]:
    """GUNICORN_CMD_ARGS stands before what the command line says, which wins."""
    text = argv.environment.get("GUNICORN_CMD_ARGS", "") if argv.program == "gunicorn" else ""
    try:
        return [*shlex.split(text), *argv.arguments]
    except ValueError:
        return argv.arguments


def _flask(argv: Argv, made: partial[Serving]) -> Serving | None:
    told = Options(
        frozenset({"--debug", "--no-debug", "--reload", "--no-reload", "--debugger", "--no-debugger", "--with-threads"})
    ).read(argv.arguments)
    if told.words[:1] != ["run"]:
        return None
    debug = told.has("--debug") or (_is_set(argv.environment, "FLASK_DEBUG") and not told.has("--no-debug"))
    app = told.value("-A", "--app") or argv.environment.get("FLASK_APP", "")
    reload = (debug or told.has("--reload")) and not told.has("--no-reload")
    return made(server="flask run", app=_app(app), workers=ONE, reload=reload)


def _is_set(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "0").lower() not in ("0", "false", "no", "")


def _django(argv: Argv, made: partial[Serving]) -> Serving | None:
    if argv.arguments[:1] != ("runserver",):
        return None
    reload = "--noreload" not in argv.arguments
    return made(server="manage.py runserver", app="", workers=ONE, reload=reload)


def _uwsgi(argv: Argv, made: partial[Serving], facts: Facts) -> Serving | None:
    """uWSGI imports the app before it forks, unless it is told to be lazy: what threads do then is not our guess."""
    told = Options(_UWSGI_FLAGS).read(argv.arguments)
    settings = uwsgi_settings(facts, home(**made.keywords), told)
    return made(
        server="uwsgi",
        app=settings.app,
        workers=settings.workers or ONE,
        preload=settings.preload,
        config=settings.path,
        decided=settings.workers is not None,
    )


_UWSGI_FLAGS: Final = frozenset({
    "-M", "--master", "--lazy-apps", "--lazy", "--enable-threads", "-T", "--vacuum", "--die-on-term", "--need-app",
    "--single-interpreter", "-i", "--thunder-lock", "--disable-logging", "-L", "--memory-report", "-m"
})  # fmt: skip
