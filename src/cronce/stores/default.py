"""Which store is used when none is named.

The argument, `$CRONCE_URL`, the user's config, `/etc/cronce.toml` (cron gives its jobs no environment), and else one
SQLite file in the user's state directory: enough for all processes of one machine, with nothing to set up.

Where every process has a file system of its own, that default is dangerous: three pods with three private files would
each run everything. So it is refused there. What counts is the mount that the file would be on, not a `/.dockerenv`
that something once left on a machine's real disk.
"""

# Paths are plain text here: pathlib is slow to import, and every start of `cronce exec` runs this.
# ruff: noqa: PTH102, PTH110, PTH112, PTH118, PTH120, PTH123

import os
import stat
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, BinaryIO, Final
from zlib import crc32

from cronce import mounts
from cronce.errors import StorePrivate, StoreReadOnly, StoreUnusable
from cronce.stores import mask, open_store, scheme_of, url_of
from cronce.value import NamedTuple

if TYPE_CHECKING:
    from cronce.stores.base import Store

URL_VARIABLE: Final = "CRONCE_URL"
GIVEN: Final = "given"
DEFAULT: Final = "default"
ALERTS_SECTION: Final = "alerts"
LINE: Final = f"{URL_VARIABLE}=postgresql://USER:PASSWORD@HOST/DATABASE"

_REMEDY: Final = f"use another store: {URL_VARIABLE}=sqlite:////PATH/cronce.db"

_LAYERS: Final = frozenset(("overlay", "aufs", "fuse-overlayfs", "fuse.fuse-overlayfs", "btrfs", "zfs"))
"""File systems of a container's own root. Mounted elsewhere than at / they are a volume."""


class Chosen(NamedTuple):
    """A store, and who named it: GIVEN, `$CRONCE_URL`, the path of a config file, or DEFAULT."""

    url: str
    source: str
    file: str = ""
    """Of the default: where it is, or will be made."""

    @property
    def is_default(self) -> bool:
        return self.source == DEFAULT


def choose(
    url: str | None = None,
    environ: Mapping[str, str] = os.environ,
    *,
    root: str | os.PathLike[str] = "/",
    mount_table: str | None = None,
) -> Chosen:
    """The store to use; nothing is made or opened. `root` and `mount_table` replace this machine's, for tests."""
    if url is not None:
        return Chosen(url, GIVEN)
    if URL_VARIABLE in environ:
        return Chosen(_set(environ[URL_VARIABLE]), f"${URL_VARIABLE}")
    home = _home(environ)
    for path, config in _configured(environ, home, os.fspath(root)):
        named = _url_in(path, config)
        if named is not None:
            return Chosen(named, path)
    path = _default(environ, home)
    _refuse_private(path, environ, os.fspath(root), mount_table)
    return Chosen(url_of(path), DEFAULT, path)


def alerts_table(
    environ: Mapping[str, str] = os.environ, *, root: str | os.PathLike[str] = "/"
) -> tuple[str, dict[str, object]]:
    """The [alerts] table of the first config file that has one, and that file's path; empty if none has."""
    for path, config in _configured(environ, _home(environ), os.fspath(root)):
        if ALERTS_SECTION in config:
            table = config[ALERTS_SECTION]
            if not isinstance(table, dict):
                raise StoreUnusable(f"{path}: alerts is a table; write [alerts], and what belongs to it below")
            return path, table
    return "", {}


def pinned(chosen: Chosen) -> Chosen:
    """The same store, also after the process has changed its directory."""
    if scheme_of(chosen.url) != "sqlite":
        return chosen
    from cronce.stores.sqlite import absolute  # noqa: PLC0415

    return chosen._replace(url=absolute(chosen.url))


def open_chosen(chosen: Chosen) -> "Store":
    """Open the store."""
    make_default_directory(chosen)
    return open_store(chosen.url)


def make_default_directory(chosen: Chosen) -> None:
    """The directory of the default file is made. One that a user named is not: the path may be mistyped."""
    if chosen.is_default:
        make_way(os.path.dirname(chosen.file))


def journal_directory(url: str) -> str:
    """Where this machine keeps what it could not write to that store; "" if it has no place for it, or needs none."""
    home = _home(os.environ)
    if scheme_of(url) == "memory" or not (home or _absolute(os.environ.get("XDG_STATE_HOME"))):
        return ""
    shown = mask(url)
    plain = "".join(letter if letter.isalnum() else "-" for letter in shown.partition("://")[2])[:80].strip("-")
    state = os.path.dirname(_default(os.environ, home))
    return os.path.join(state, "journal", f"{plain}-{crc32(shown.encode()):08x}")


def make_way(directory: str | os.PathLike[str]) -> None:
    """Make a directory and all that are missing above it, each private to this user."""
    try:
        _make(os.fspath(directory))
    except PermissionError as error:
        raise StoreReadOnly(f"this user may not create {error.filename}; give them permission, or {_REMEDY}") from None
    except OSError as error:
        raise StoreUnusable(
            f"{error.filename} cannot be created ({error.strerror}); create it first, or {_REMEDY}"
        ) from None


def _make(directory: str) -> None:
    if os.path.isdir(directory):
        return
    _make(os.path.dirname(directory))
    try:
        os.mkdir(directory, mode=0o700)
    except FileExistsError:
        if not os.path.isdir(directory):  # else another process was faster
            raise


# --- where it may stand ---------------------------------------------------------------------------------------------


def _set(url: str) -> str:
    """An empty variable is refused: it was probably meant to name a store, and with the default each machine would run
    everything."""
    if not url:
        raise StoreUnusable(f"${URL_VARIABLE} is set but empty; set it to the URL of a store, or unset it")
    return url


def _home(environ: Mapping[str, str]) -> str | None:
    """The user's home, by the environment or the password database; None if neither has it."""
    home = _absolute(environ.get("HOME"))
    if home is not None:
        return home
    import pwd  # noqa: PLC0415  there is a HOME, nearly always

    try:
        return _absolute(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:  # a user id without a name, as container platforms assign
        return None


def _absolute(path: str | None) -> str | None:
    """By the XDG specification an empty or relative path counts as unset."""
    return path if path and path.startswith("/") else None


def _below_home(environ: Mapping[str, str], variable: str, home: str | None, path: str) -> str | None:
    """The directory that a variable names, or else one below the home."""
    return _absolute(environ.get(variable)) or (os.path.join(home, path) if home else None)


def _configs(environ: Mapping[str, str], home: str | None, root: str) -> list[str]:
    user = _below_home(environ, "XDG_CONFIG_HOME", home, ".config")
    return [os.path.join(directory, "cronce.toml") for directory in (user, os.path.join(root, "etc")) if directory]


def _default(environ: Mapping[str, str], home: str | None) -> str:
    state = _below_home(environ, "XDG_STATE_HOME", home, ".local/state")
    if state is None:
        raise StoreUnusable(f"this user has no home directory for a store; {_REMEDY}")
    return os.path.join(state, "cronce/cronce.db")


# --- config files ---------------------------------------------------------------------------------------------------


def _configured(environ: Mapping[str, str], home: str | None, root: str) -> Iterator[tuple[str, dict[str, object]]]:
    """The config files that exist, in their order, each with its content."""
    for path in _configs(environ, home, root):
        config = _read(path)
        if config is not None:
            yield path, config


def _read(path: str) -> dict[str, object] | None:
    """The content of a config file; None if there is no such file. One that cannot be read is an error: the next
    place may name another store."""
    try:
        with open(path, "rb") as file:
            _refuse_public(path, os.fstat(file.fileno()).st_mode)
            return _parse(path, file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreUnusable(
            f"{path} names the store, but this user cannot read it ({error.strerror}); give them permission,"
            f" or {_REMEDY}"
        ) from None


def _refuse_public(path: str, mode: int) -> None:
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise StoreUnusable(
            f"{path} is open to every user of this machine, and a store's URL often holds a password;"
            f" run `chmod o-rwx {path}`"
        )


def _parse(path: str, file: BinaryIO) -> dict[str, object]:
    import tomllib  # noqa: PLC0415  most have no config

    try:
        return tomllib.load(file)
    except ValueError as error:
        raise StoreUnusable(f'{path} is not TOML: {error}; write it like url = "postgresql://…"') from None


def _url_in(path: str, config: dict[str, object]) -> str | None:
    """The store that it names; None if it has only alerts."""
    unknown = sorted(config.keys() - {"url", ALERTS_SECTION})
    if unknown:
        raise StoreUnusable(
            f"{path} has {', '.join(map(repr, unknown))}, and cronce knows only url and [alerts];"
            f" {'correct or remove it' if 'url' in config else 'did you mean url?'}"
        )
    if config.keys() == {ALERTS_SECTION}:
        return None
    url = config.get("url")
    if not isinstance(url, str) or not url:
        raise StoreUnusable(f'{path} names no store; write url = "postgresql://…" into it, or remove it')
    if scheme_of(url) == "sqlite" and not url.partition(":")[2].startswith("////"):
        raise StoreUnusable(
            f"{path} names a file without its directory, which would be another file in each directory; write"
            " sqlite:////PATH/cronce.db"
        )
    return url


# --- where the default would be private -----------------------------------------------------------------------------


def _refuse_private(path: str, environ: Mapping[str, str], root: str, mount_table: str | None) -> None:
    if "KUBERNETES_SERVICE_HOST" in environ or os.path.exists(os.path.join(root, "var/run/secrets/kubernetes.io")):
        raise StorePrivate(
            f"inside Kubernetes there is no default store: {path} would be this pod's own, and three pods with"
            f" three private files would each run everything. Name one that all of them reach: {LINE}. A file on a"
            " volume that all share is not enough: its locks do not reach other machines"
        )
    if not in_container(environ, root):
        return
    table = mounts.current_table() if mount_table is None else mount_table
    mount = mounts.mount_of(os.path.realpath(path), table)
    if mount is None or mount.kind in mounts.FLEETING or (mount.point == "/" and mount.kind in _LAYERS):
        raise StorePrivate(
            f"the default store of this container, {path}, would not be on a volume"
            f" ({mount.kind if mount else 'no mount is known'}), and would be deleted with the container; three"
            " containers with three private files would each run everything. Use a store that all of them reach:"
            f" {LINE}. A file on a volume that all share, {URL_VARIABLE}=sqlite:////VOLUME/cronce.db, is enough for"
            " one machine, but not for several"
        )


def in_container(environ: Mapping[str, str], root: str) -> bool:
    marks = (".dockerenv", "run/.containerenv")
    return bool(environ.get("container")) or any(os.path.exists(os.path.join(root, mark)) for mark in marks)
