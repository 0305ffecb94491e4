"""The page, from the command line: where it listens, what token opens it, and the process beside `cronce run`."""

import os
import stat
from collections.abc import Sequence
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cronce.cli.address import is_loopback, listening, read_address
from cronce.cli.attendant import Attendant
from cronce.errors import BadInput
from cronce.runtime.application import load
from cronce.value import NamedTuple

if TYPE_CHECKING:
    import argparse

    from starlette.applications import Starlette

    from cronce.runtime.app import Cronce

VARIABLE: Final = "CRONCE_UI_TOKEN"


class Terms(NamedTuple):
    """On which terms the page is shown: who may act, and by which names it goes."""

    token: str | None = None
    report: Path | None = None
    names: tuple[str, ...] | None = None
    private: bool = False

    def application(self, cron: "Cronce") -> "Starlette":
        from cronce.web.app import application  # noqa: PLC0415  only who shows the page loads its packages

        return application(cron, token=self.token, report=self.report, names=self.names, private=self.private)


def require() -> None:
    """Without loading them: whoever forks should stay small."""
    if not all(map(find_spec, ("starlette", "uvicorn", "jinja2"))):
        raise BadInput("the page needs starlette, uvicorn and jinja2: pip install 'cronce[ui]'")


def terms(host: str, token_file: str | None, report: str | None, names: Sequence[str], option: str) -> Terms:
    """Whoever is there for other machines has a token, and needs it even to be looked at: who listens for them, and
    who goes by a name of theirs, since a proxy on this machine makes all of them come from here."""
    under = "--ui-" if option == "--ui" else "--"
    token = _token(token_file, f"{under}token-file")
    wanted = f"give {under}token-file a file with one, or set ${VARIABLE}"
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
    return Terms(token, None if report is None else Path(report), known, private=bool(foreign) or not local)


def _is_ours(name: str) -> bool:
    """Whether this machine alone goes by it, wherever it is said; what a resolver thinks is no matter."""
    bare = name.strip("[]").rstrip(".").lower()
    try:
        return bare == "localhost" or ip_address(bare).is_loopback
    except ValueError:
        return False


def _token(file: str | None, option: str) -> str | None:
    """Never an argument itself: every user of the machine could read it there."""
    if file is None:
        token = os.environ.get(VARIABLE) or None
        return token if token is None else _checked(token, f"${VARIABLE}")
    path = Path(file)
    try:
        if path.stat().st_mode & stat.S_IROTH:
            raise BadInput(f"every user of this machine can read the token in {path}: chmod 600 {path}")
        token = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise BadInput(f"{option} {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{option} {path} is no text") from None
    return _checked(token, f"{option} {path}")


def _checked(token: str, where: str) -> str:
    from cronce.web.security import check_token  # noqa: PLC0415  only who has a token

    return check_token(token, where)


class Usher(Attendant):
    """The page of `cronce run --ui`, in a process of its own."""

    def __init__(self, options: "argparse.Namespace") -> None:
        host, port = read_address(options.ui, "--ui")
        self._terms = terms(host, options.ui_token_file, None, options.ui_name, "--ui")
        require()
        self._options = options
        super().__init__(listening(host, port, "--ui"))

    def answer(self) -> None:
        from cronce.web.server import serve  # noqa: PLC0415

        cron = load(self._options.app)
        if self._options.store is not None:
            cron.use(self._options.store)
        serve(self._terms.application(cron), self._socket, until_told=False)
