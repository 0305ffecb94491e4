"""Every error a user can meet, in one tree.

    CronceError
    ├── BadInput (also a ValueError)          something the caller wrote
    │   ├── BadSchedule                       a schedule, points at the field
    │   ├── BadName                           a name that cannot be part of a key
    │   └── BadPolicy                         a policy value, names ours for a foreign word
    ├── StoreError                            the store, and what to do about it
    │   ├── StoreUnavailable                  no answer; a write may or may not have landed
    │   │   └── NotRecorded                   a job function ended, and that could not be recorded
    │   ├── StoreUnusable                     this store will not work until a person acts
    │   │   ├── StoreReadOnly
    │   │   ├── StoreFull
    │   │   ├── StoreCorrupt
    │   │   ├── StoreNewer                    written by a newer cronce
    │   │   ├── StoreCopied                   a copy of another store
    │   │   ├── StoreOnNetwork                an SQLite file on a network file system
    │   │   └── StorePrivate                  the default file, where each pod would have its own
    │   └── StoreForgot                       the store lost what it had promised to keep
    ├── BadRecord                             a value in the store that this version cannot read
    ├── NotOnRecord                           a job, a slot or an effect that the store knows nothing of
    ├── LockHeld                              another has the lock: who, and until when
    │   └── NotElected                        another leads
    ├── InProgress                            another is at this effect just now
    ├── InDoubt                               an effect that was begun, and may have happened
    ├── DatabaseUnavailable                   the database that a run's transactions are in: no answer
    ├── AlreadyDone                           a step that was committed before: its transaction is not begun
    ├── LeaseLost                             a run or a lock that is no longer ours: stop
    ├── TimedOut (also a TimeoutError)        a run that took longer than its job allows
    ├── CannotStart                           a command that cannot be started: missing, or not executable
    ├── BodyFailed                            an isolated body that raised, or whose process died
    ├── SlotFailed                            the slot did not succeed, though its job function returned (or, in a
    │                                         Kubernetes Job's pod: in another pod)
    ├── ClockOff                              this machine's clock is minutes off the store's
    └── ClockUnsupported                      no clock here that counts time in suspend

Losing a slot is not in this tree: it is a value (``Skipped``).
"""

import sys
from contextlib import suppress
from datetime import datetime


class CronceError(Exception):
    """The root: catch this to catch everything cronce raises on purpose."""


class BadInput(CronceError, ValueError):
    """The caller passed an invalid value."""


class BadSchedule(BadInput):
    """An invalid schedule; the message points at the field."""


class BadName(BadInput):
    """A name that cannot be part of a key."""


class BadPolicy(BadInput):
    """An invalid policy value; foreign words get the name of ours."""


class StoreError(CronceError):
    """The store, and what to do about it."""


class StoreUnavailable(StoreError):
    """No answer came. If it was a write, it may have landed: read back before deciding anything."""


class NotRecorded(StoreUnavailable):
    """A job function ended, but the store could not be reached; its record still says running."""


class StoreUnusable(StoreError):
    """The store answers, and will not work until a person acts."""


class StoreReadOnly(StoreUnusable):
    """The store cannot be written by this process."""


class StoreFull(StoreUnusable):
    """No room is left for a write."""


class StoreCorrupt(StoreUnusable):
    """The store's file is not what it should be."""


class StoreNewer(StoreUnusable):
    """The store was written by a newer cronce than this one."""


class StoreCopied(StoreUnusable):
    """The store is a copy: the original may still be in use, and both would run everything."""


class StoreOnNetwork(StoreUnusable):
    """An SQLite file on a network file system: its locks do not reach the other machines."""


class StorePrivate(StoreUnusable):
    """No store is named, and the default file would be private to this pod or container: each would run everything."""


class StoreForgot(StoreError):
    """The store lost what it had promised to keep; what was claimed from it is no longer trusted."""


class BadRecord(CronceError):
    """A value in the store that this version cannot read."""


class NotOnRecord(CronceError):
    """A job, a slot or an effect was named that the store knows nothing of."""


class LockHeld(CronceError):
    """Another has the lock. `by` is the holder, `until` when its lease ends: unless it is renewed, or `final`."""

    held, rests = "the lock {name} is held by {by}", "the lock {name} cannot be taken"

    def __init__(self, name: str, by: str, until: datetime | None, final: bool = False) -> None:
        goes_on = " unless it is renewed" if by and not final else ""
        when = f" until {until:%Y-%m-%d %H:%M:%S} UTC{goes_on}" if until else ""
        super().__init__((self.held if by else self.rests).format(name=name, by=by) + when)
        self.name, self.by, self.until, self._final = name, by, until, final

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.name, self.by, self.until, self._final)


class NotElected(LockHeld):
    """Another leads the group `name`: `by` is who, if anybody, `until` when its lease ends unless it is renewed."""

    held, rests = "{by} leads {name}", "{name} has no leader"


class InProgress(CronceError):
    """Another is at the effect `name` just now: `by` whom, and until when at least. Ask again later; a consumer does
    not acknowledge its message."""

    def __init__(self, name: str, by: str = "", until: datetime | None = None) -> None:
        when = f", until {until:%Y-%m-%d %H:%M:%S} UTC unless it is renewed" if until else ""
        super().__init__(f"{name} is in progress{f' at {by}' if by else ''}{when}")
        self.name, self.by, self.until = name, by, until

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.name, self.by, self.until)


NOBODY_KNOWS = "nobody knows whether "
"""How a record begins that tells of a doubt: a format that other versions read, so its words stay."""


class InDoubt(CronceError):
    """An effect was begun, and cronce does not know whether it happened. It is not done again before a person has
    checked."""

    def __init__(self, name: str, why: str) -> None:
        from shlex import quote  # noqa: PLC0415  a key may be anything, and the line is there to be pasted

        self.brief = f"{NOBODY_KNOWS}{name} happened: {why}"
        super().__init__(f"{self.brief}. Find out, then run `cronce resolve {quote(name)} done` or `retry`")
        self.name, self.why = name, why

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.name, self.why)


class DatabaseUnavailable(CronceError):
    """The database that a job names by `transaction=` gave no answer: what depends on it is not done."""


class AlreadyDone(CronceError):
    """A step, or a whole run, that was committed before: its transaction is not begun."""


class LeaseLost(CronceError):
    """A run or a lock that is no longer ours, or cannot be shown to be. The run must stop. `name` is what was held,
    `fence` under which fence, `why` how it ended; each may be empty."""

    def __init__(self, message: str, *, name: str = "", fence: object = None, why: str = "") -> None:
        super().__init__(message)
        self.name, self.fence, self.why = name, fence, why


class TimedOut(CronceError, TimeoutError):
    """A run that took longer than its job allows."""


class CannotStart(CronceError):
    """A command could not be started, and nothing was; `code` is what a shell would exit with."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class BodyFailed(CronceError):
    """An isolated body failed: the exception it raised, in words, or how its process ended."""


class SlotFailed(CronceError):
    """The slot did not succeed, though the job function returned: an effect that it asked for is not done, or in doubt,
    and it caught the error. Or, inside a pod of a Kubernetes Job, the slot is closed as failed, lost or unknown, by
    another pod or before. A caller that went on as if nothing were wrong would take it for done."""


class ClockOff(CronceError):
    """This machine's clock is minutes off the store's: what it takes for a slot is none."""


class ClockUnsupported(CronceError):
    """This platform has no clock that goes on counting in suspend."""


def tell(text: str) -> None:
    """On standard error. A full disk, or a reader that has gone, is no reason to leave a run undone."""
    if sys.stderr is not None:  # a caller may have closed it
        with suppress(OSError):
            print(text, file=sys.stderr, flush=True)
