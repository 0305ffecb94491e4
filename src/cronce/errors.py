"""Every error a user can meet, in one tree.

    CronceError
    ├── BadInput (also a ValueError)          something the caller wrote
    │   ├── BadSchedule                       a schedule, points at the field
    │   ├── BadName                           a name that cannot be part of a key
    │   └── BadPolicy                         a policy value, names ours for a foreign word
    ├── StoreError                            the store, and what to do about it
    │   ├── StoreUnavailable                  no answer; a write may or may not have landed
    │   ├── StoreUnusable                     this store will not work until a person acts
    │   │   ├── StoreReadOnly
    │   │   ├── StoreFull
    │   │   ├── StoreCorrupt
    │   │   ├── StoreNewer                    written by a newer cronce
    │   │   ├── StoreCopied                   a copy of another store
    │   │   └── StoreOnNetwork                an SQLite file on a network file system
    │   └── StoreForgot                       the store lost what it had promised to keep
    ├── BadRecord                             a value in the store that this version cannot read
    └── ClockUnsupported                      no clock here that counts time in suspend

Losing a claim is not in this tree: it is a value (``protocol.decide``).
"""


class CronceError(Exception):
    """The root: catch this to catch everything cronce raises on purpose."""


class BadInput(CronceError, ValueError):
    """Something the caller wrote that cannot be meant."""


class BadSchedule(BadInput):
    """A schedule that cannot be meant; the message points at the field."""


class BadName(BadInput):
    """A name that cannot be part of a key."""


class BadPolicy(BadInput):
    """A policy value that cannot be meant; foreign words get the name of ours."""


class StoreError(CronceError):
    """The store, and what to do about it."""


class StoreUnavailable(StoreError):
    """No answer came. If it was a write, it may have landed: read back before deciding anything."""


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


class StoreForgot(StoreError):
    """The store lost what it had promised to keep; what was claimed from it is no longer trusted."""


class BadRecord(CronceError):
    """A value in the store that this version cannot read."""


class ClockUnsupported(CronceError):
    """This platform has no clock that goes on counting in suspend."""
