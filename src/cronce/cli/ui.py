"""cronce ui: show the page, and what token opens it; and the process beside those of `cronce run` that shows it."""

import argparse
import logging
import os
import stat
import sys
import threading
import time
from collections.abc import Sequence
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from cronce.cli import Arguments, let_go, say
from cronce.cli.listening import HttpProcess, is_loopback, listening, read_address, url_of
from cronce.cli.session import missing
from cronce.cli.watch import ALERT_ARGUMENTS, monitored, told
from cronce.errors import BadInput, StoreUnavailable
from cronce.monitor.settings import Settings
from cronce.runtime.app import Cronce
from cronce.runtime.app_loading import load
from cronce.stores import mask
from cronce.stores.default import Chosen, choose
from cronce.stores.memory import MemoryStore
from cronce.value import NamedTuple

if TYPE_CHECKING:
    from starlette.applications import Starlette

ACT_VARIABLE: Final = "CRONCE_UI_TOKEN"
LOOK_VARIABLE: Final = "CRONCE_UI_LOOK_TOKEN"
_TAKEN: Final[dict[str, str]] = {}
"""The tokens that were in the environment."""

FILE_POLL: Final = 0.5
"""Seconds between two looks for a file that is not there yet."""

UI_DESCRIPTION: Final = f"""\
Show the page: what runs, what ran, what needs attention, and why. It reads the store, and needs no application.

Without a token the page is read-only. With one (--token-file, or ${ACT_VARIABLE}) people who log in may pause, resume,
trigger, rerun, cancel and resolve; cronce records who did what. By default only this machine can reach the page. With
--listen or a --name that other machines use, the page needs the token even for reading, and HTTPS in front of it.

TERM or Ctrl-C ends it."""

UI_EPILOG: Final = """
examples:
  cronce ui
  cronce ui --listen 8081 --token-file ~/.cronce-token
  cronce ui --listen 0.0.0.0:8080 --token-file /run/secrets/token --name cron.example.org
  cronce audit . --json > audit.json; cronce ui --report audit.json
"""


UI_ARGUMENTS: Final[Arguments] = {
    "--listen ADDR": ("8080", "8080 (loopback only, the default), 0.0.0.0:8080, [::]:8080"),
    "--token-file FILE": f"a file with the token for acting (or ${ACT_VARIABLE})",
    "--look-token-file FILE": f"a file with a token for reading only (or ${LOOK_VARIABLE})",
    "--name HOST": ([], "a host name the page is reached by; repeatable"),
    "--trusted-proxy ADDR": ([], "trust X-Forwarded-For from this proxy, an address or a network; repeatable"),
    "--report FILE": "a file with the output of `cronce audit --json`, to show too",
    "--store URL": "where slots are kept (default: $CRONCE_URL, then the config)",
    **ALERT_ARGUMENTS,
}


def run_ui(options: argparse.Namespace) -> int:
    require()
    host, port = read_address(options.listen, "--listen")
    given, alerted = terms(host, options.token_file, options.report, options.name, "--listen"), told(options)
    look = _token(options.look_token_file, "--look-token-file", LOOK_VARIABLE)
    given = given._replace(look_token=look, trusted_proxies=tuple(options.trusted_proxy))
    with listening(host, port, "--listen") as listener:
        is_missing = missing(choose(options.store))
        cron = Cronce(store=NoStoreYet(mask(choose(options.store).url))) if is_missing else Cronce(options.store)
        app = given.application(cron)
        from cronce.web.server import serve  # noqa: PLC0415  what it needs is known to be there by now

        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
        with monitored(cron, alerted._replace(settings=_linking(alerted.settings, url_of(listener)))):
            if not is_missing:
                _reach(cron)
            may = "read-only" if given.token is None else "the token allows acting"
            print(f"cronce ui: {url_of(listener)} shows {cron.place}; {may}", flush=True)
            if is_missing:
                say(
                    "ui",
                    f"there is no file {is_missing} yet; the page explains how to begin, and then shows what runs",
                )
                threading.Thread(target=_begin_again, args=[choose(options.store)], daemon=True).start()
            serve(app, listener)
        let_go()
        os._exit(0)  # do not wait for threads that wait for the store


class NoStoreYet(MemoryStore):
    """Takes the place of a file that does not exist yet: reading must not create it."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self._place = place

    def __repr__(self) -> str:
        return self._place


def _begin_again(chosen: Chosen) -> NoReturn:
    """Start again with the same arguments as soon as there is a store."""
    while missing(chosen):
        time.sleep(FILE_POLL)
    os.execve(sys.executable, sys.orig_argv, {**os.environ, **_TAKEN})  # noqa: S606  ourselves


def _linking(settings: Settings, url: str) -> Settings:
    """Alerts link to this page, unless it goes by another address."""
    return settings if settings.page else settings._replace(page=url)


def _reach(cron: Cronce) -> None:
    """A store that cannot be used is refused; one that is away may come back."""
    try:
        store = cron.at_work().node.store
    except StoreUnavailable as error:
        say("ui", f"{error}; the page shows this until the store answers")
        return
    if not store.traits.shared:
        raise BadInput(f"{cron.place} exists only in this process, so it is empty; name another store")


# --- on which terms ---------------------------------------------------------------------------------------------------


class PageAccess(NamedTuple):
    """On which terms the page is shown: who may act, and by which names it goes."""

    token: str | None = None
    report: Path | None = None
    names: tuple[str, ...] | None = None
    private: bool = False
    look_token: str | None = None
    trusted_proxies: tuple[str, ...] = ()

    def application(self, cron: Cronce) -> "Starlette":
        from cronce.web.app import application  # noqa: PLC0415  only who shows the page loads its packages

        return application(cron, **self._asdict())


def require() -> None:
    """Without loading them: a process that forks should stay small."""
    if not all(map(find_spec, ("starlette", "uvicorn", "jinja2"))):
        raise BadInput("the page needs starlette, uvicorn and jinja2: pip install 'cronce[ui]'")


def terms(host: str, token_file: str | None, report: str | None, names: Sequence[str], option: str) -> PageAccess:
    """A page that other machines can reach needs a token, even for reading. Other machines can reach it by its address,
    or by a name: a proxy on this machine makes all requests look local."""
    under = "--ui-" if option == "--ui" else "--"
    token = _token(token_file, f"{under}token-file")
    wanted = f"give a file with a token by {under}token-file, or set ${ACT_VARIABLE}"
    local, foreign = is_loopback(host), [name for name in names if not _is_ours(name)]
    if not local and token is None:
        raise BadInput(
            f"{option} {host} can be reached from other machines, and there is no token: {wanted}, or listen on this"
            f" machine alone ({option} 8080)"
        )
    if foreign and token is None:
        raise BadInput(
            f"{under}name {foreign[0]} is a name for other machines, and there is no token: {wanted}, or leave the name"
            " out"
        )
    known = (*names, host) if local or names else None
    return PageAccess(token, None if report is None else Path(report), known, private=bool(foreign) or not local)


def _is_ours(name: str) -> bool:
    """Whether the name means this machine on every machine; a resolver is not asked."""
    bare = name.strip("[]").rstrip(".").lower()
    try:
        return bare == "localhost" or ip_address(bare).is_loopback
    except ValueError:
        return False


def _token(file: str | None, option: str, variable: str = ACT_VARIABLE) -> str | None:
    """Never an argument itself: every user of the machine could read it there."""
    if file is None:
        token = os.environ.pop(variable, None) or None  # child processes must not see it
        if token is not None:
            _TAKEN[variable] = token
        return token if token is None else _checked(token, f"${variable}")
    path = Path(file)
    try:
        if path.stat().st_mode & stat.S_IROTH:
            raise BadInput(f"every user of this machine can read the token in {path}: chmod 600 {path}")
        token = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise BadInput(f"{option} {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{option} {path} is not a text file") from None
    return _checked(token, f"{option} {path}")


def _checked(token: str, where: str) -> str:
    from cronce.web.security import check_token  # noqa: PLC0415  only who has a token

    return check_token(token, where)


class PageProcess(HttpProcess):
    """The page of `cronce run --ui`, in a process of its own."""

    def __init__(self, options: argparse.Namespace) -> None:
        host, port = read_address(options.ui, "--ui")
        self._terms = terms(host, options.ui_token_file, None, options.ui_name, "--ui")
        require()
        self._options = options
        super().__init__(listening(host, port, "--ui"), " is the page")

    def answer(self) -> None:
        from cronce.web.server import serve  # noqa: PLC0415

        cron = load(self._options.app)
        if self._options.store is not None:
            cron.use(self._options.store)
        serve(self._terms.application(cron), self._socket, until_told=False)
