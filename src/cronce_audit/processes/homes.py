"""Where a command looks for the files that it names, and which of several it means.

`gunicorn app:app` in svc2/Procfile means svc2/app.py, whatever else is called so. Where two fit equally, or the only
one is in a folder that the command has nothing to do with, it is none: no service is charged with another's workers.
"""

from collections.abc import Collection
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce_audit.model import Place
from cronce_audit.processes.units import Unit

_ASIDE: Final = frozenset({"docker", ".docker", "deploy", "deployment", "build", "compose", "infra", "ops"})
"""Folders for what belongs to the folder above them."""


class Home(NamedTuple):
    """The folders in which a command may be started, the likeliest first; "" is the root of the tree."""

    folders: tuple[str, ...]
    alone: bool = False
    """Only what is in the folder itself, and not what is further down."""

    def find(self, wanted: str, files: Collection[str], packages: Collection[str] = ()) -> str | None:
        """The file, by its path from the root on; "" where several fit, None where none does. What is in a package is
        not found by the end of its name."""
        for folder in self.folders:
            prefix = f"{folder}/" if folder else ""
            if prefix + wanted in files:
                return prefix + wanted
            below = [path for path in files if path.startswith(prefix) and path.endswith(f"/{wanted}")]
            below = [path for path in below if not _is_in(packages, path.removesuffix(f"/{wanted}"), folder)]
            if below and not self.alone:
                return below[0] if len(below) == 1 else ""
        return None

    def find_end(self, path: str, files: Collection[str]) -> str | None:
        """As `find`, of the longest end of a path that is there: `/app/src/jobs.py` in a container is src/jobs.py."""
        parts = [part for part in PurePosixPath(path).parts if part != "/"]
        ends = (self.find("/".join(parts[start:]), files) for start in range(len(parts)))
        return next((found for found in ends if found is not None), None)


def home(place: Place, by: Unit | None) -> Home:
    """Of a command at a place. An image has its own folder, and what a compose file says of somebody else's image may
    mean any file; scripts, units of systemd, manifests and Python code stand somewhere in what they start."""
    if by and by.dockerfile:
        return Home(_with_aside(by.dockerfile))
    if by and by.command.origin in ("procfile", "compose"):
        return Home(_with_aside(place.path), alone=by.command.origin == "compose")
    return Home(tuple(_text(folder) for folder in PurePosixPath(place.path).parents))


def _with_aside(path: str) -> tuple[str, ...]:
    """`svc/docker/Dockerfile` belongs to svc/docker, and to svc."""
    folder = PurePosixPath(path).parent
    aside = next((number for number, part in enumerate(folder.parts) if part in _ASIDE), None)
    return (_text(folder),) if aside is None else (_text(folder), "/".join(folder.parts[:aside]))


def _is_in(packages: Collection[str], start: str, folder: str) -> bool:
    """Whether a path starts in a package below the folder."""
    inner = [_text(each) for each in (PurePosixPath(start), *PurePosixPath(start).parents)]
    return any(each in packages for each in inner if len(each) > len(folder))


def _text(folder: PurePosixPath) -> str:
    return "" if folder == PurePosixPath() else str(folder)
