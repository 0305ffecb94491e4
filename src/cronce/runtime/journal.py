"""What this process could not write to its store, kept on this machine's own disk until a process can.

Two things are written down: how a run ended, where the store did not take that; and for which slot a guard was called
that could not ask the store, or not start its command. Each write is one new file of JSON lines, which is never
changed, and removed once all of it is on record. Any process of the machine that reaches the store writes what it
finds. An end goes by the fence of its run, so it does no harm to write it twice, or too late.

The files are below the user's state directory, in a directory for each store. On a disk that goes with its container
they go with it, and then only what a process still has in memory is written.
"""

# Paths are plain text here: pathlib is slow to import, and every start of `cronce exec` comes by.
# ruff: noqa: PTH104, PTH108, PTH118, PTH123

import json
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import count
from typing import Any, Final

from cronce.errors import StoreError
from cronce.model import Fence, Instant, from_us, read_fence, to_us
from cronce.protocol.codec import spelled
from cronce.protocol.commands import Finish, Release
from cronce.protocol.record import Outcome
from cronce.runtime.log import LOGGER
from cronce.stores.default import Chosen, journal_directory, make_way, pinned
from cronce.value import NamedTuple

JOURNAL_VERSION: Final = 1
MAX_FILES: Final = 1000
"""So many files are kept for a store: of calls that come while there are more, nothing is written down."""


class PendingEnd(NamedTuple):
    """How a run ended, and when that was by this machine's clock."""

    run: str
    """Its cell."""
    word: Finish | Release
    holder: str
    at: Instant

    @property
    def what(self) -> str:
        """In a word, for people."""
        return str(self.word.outcome) if isinstance(self.word, Finish) else "given back, never started"


class UnaskedCall(NamedTuple):
    """A guard was called for a slot, and did not ask the store: it could not, or had no command to start. From
    `start_by` on it is too late to start; `wanted`: each slot of the job is to run, however late."""

    slot: str
    why: str
    holder: str
    at: Instant
    start_by: Instant | None = None
    wanted: bool = False


Entry = PendingEnd | UnaskedCall


class Journal:
    """For any number of threads. Without a directory nothing outlives the process."""

    _numbers = count(1)

    def __init__(self, directory: str = "", unwritten: Callable[[str], object] | None = None) -> None:
        """`unwritten` is called once, with a sentence, where the disk fails; without it, that is logged."""
        self._directory, self._unwritten = directory, unwritten
        self._lock = threading.Lock()
        self._mine: dict[str, set[Fence]] = {}  # this process's files, and which ends in each are not recorded yet
        self._warned = False

    def write(self, entries: Sequence[Entry]) -> None:
        """On disk when this returns, an end once. If the disk fails, that is logged, and the run goes on."""
        if not self._directory or not entries:
            return
        name = f"{os.getpid()}-{to_us(entries[0].at)}-{next(self._numbers)}.jsonl"
        with self._lock:
            mine = set[Fence]().union(*self._mine.values())
            entries = [entry for entry in entries if not (isinstance(entry, PendingEnd) and entry.word.fence in mine)]
            ends = {entry.word.fence for entry in entries if isinstance(entry, PendingEnd)}
            if not entries or (not ends and len(self._names()) >= MAX_FILES):
                return
            if ends:
                self._mine[name] = ends
        try:
            make_way(self._directory)
            self._write(name, "".join(f"{json.dumps(_spelled(entry))}\n" for entry in entries))
        except (OSError, StoreError) as error:
            with self._lock:
                self._mine.pop(name, None)  # to be written again, if it is still to be recorded then
            why = str(error).partition(";")[0]  # the rest of the message is about the store's own file
            remedy = "set XDG_STATE_HOME to a folder that this user may write to"
            if self._unwritten is None:
                self._warn(f"cannot be written ({why}); {remedy}")
            elif not self._warned:
                self._warned = True
                what = "how the run ended" if ends else "this failure"
                self._unwritten(f"{what} was not noted on this machine either: {why}; {remedy}")

    def recorded(self, fences: Collection[Fence]) -> None:
        """They are on record, or never will be."""
        if not self._mine:
            return
        with self._lock:
            for ends in self._mine.values():
                ends.difference_update(fences)
            over = [name for name, ends in self._mine.items() if not ends]
        self.remove(over)

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            with self._lock:
                self._mine.pop(name, None)
            try:
                os.unlink(os.path.join(self._directory, name))
            except FileNotFoundError:  # another process was faster
                pass
            except OSError as error:
                self._warn(f"cannot be cleared: {error}")

    def left(self) -> Mapping[str, tuple[Entry, ...]]:
        """What other processes, or this one before it closed its store, have left: by file."""
        with self._lock:
            mine = set(self._mine)
        return self._read([name for name in self._names() if name not in mine])

    def all(self) -> list[Entry]:
        """Whatever is written down, in the order of its files."""
        return [entry for entries in self._read(self._names()).values() for entry in entries]

    def _names(self) -> list[str]:
        if not self._directory:
            return []
        try:
            with os.scandir(self._directory) as found:
                return sorted(one.name for one in found if one.name.endswith(".jsonl") and one.is_file())
        except OSError:  # nothing was ever written
            return []

    def _read(self, names: Iterable[str]) -> dict[str, tuple[Entry, ...]]:
        found = {}
        for name in names:
            try:
                with open(os.path.join(self._directory, name), encoding="utf-8") as file:
                    found[name] = tuple(_entry(json.loads(line)) for line in file)
            except FileNotFoundError:  # recorded meanwhile
                pass
            except Exception as error:  # whatever the file holds, it must not keep a job from running
                self._warn(f"has {name}, which cannot be read: {error!r}")
        return found

    def _write(self, name: str, text: str) -> None:
        """Whole or not at all: a reader of the directory never sees a part of it."""
        path = os.path.join(self._directory, name)
        file = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            text_left = text.encode()
            while text_left:  # a full disk takes a part of it, and refuses the rest
                text_left = text_left[os.write(file, text_left) :]
            os.fsync(file)
        except OSError:
            os.unlink(f"{path}.new")
            raise
        finally:
            os.close(file)
        os.rename(f"{path}.new", path)
        directory = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _warn(self, what: str) -> None:
        """Once: it is the same with every file."""
        if not self._warned:
            self._warned = True
            LOGGER.warning("the journal in %s %s", self._directory, what)


def own_journal(chosen: Chosen, unwritten: Callable[[str], object] | None = None) -> Journal:
    """This machine's journal of what could not be written to that store."""
    return Journal(journal_directory(pinned(chosen).url), unwritten)


# --- spelling ---------------------------------------------------------------------------------------------------------


def _spelled(entry: Entry) -> dict[str, Any]:
    word = {"word": entry.word._asdict()} if isinstance(entry, PendingEnd) else {}
    return {"v": JOURNAL_VERSION, **spelled(entry._asdict() | word)}


def _entry(fields: dict[str, Any]) -> Entry:
    if fields.pop("v") != JOURNAL_VERSION:
        raise ValueError("another version of cronce wrote it")
    if not all(isinstance(fields.get(name, ""), str) for name in ("slot", "why", "holder", "run")):
        raise ValueError("its texts cannot be read")
    fields["at"] = from_us(fields["at"])
    if "slot" in fields:
        start_by = fields.get("start_by")
        return UnaskedCall(**fields | {"start_by": from_us(start_by) if start_by else None})
    word = fields["word"]
    word["fence"] = read_fence(word["fence"])
    if "rest" in word:
        fields["word"] = Release(word["fence"], timedelta(microseconds=word["rest"]))
    else:
        read = {"backoff": timedelta(microseconds=word["backoff"]), "outcome": Outcome(word["outcome"])}
        ended = word.get("ended")  # earlier ones did not write it
        fields["word"] = Finish(**{**word, **read, "ended": from_us(ended) if ended else None})
    return PendingEnd(**fields)
