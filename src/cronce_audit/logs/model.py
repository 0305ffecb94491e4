"""The nouns: what a line says (a mark), and what came of it (a finding)."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from cronce.model import Instant
from cronce.value import NamedTuple


class Form(StrEnum):
    """By whom a line was written."""

    WORDS = "words"
    CRON = "cron"
    SUPERCRONIC = "supercronic"
    APSCHEDULER = "APScheduler"
    BEAT = "Celery beat"
    CELERY = "Celery"
    CRONCE = "cronce"


class Said(NamedTuple):
    """What the words of a line come to. `run` and `slot` are empty where the line names none."""

    starts: bool
    job: str
    form: Form = Form.WORDS
    run: str = ""
    slot: str = ""
    failed: bool = False
    again: bool = False  # a start that says itself that it takes over from another
    word: str = ""  # in which it was said, where that was anybody's word
    about: Mapping[str, int] = MappingProxyType({})  # what else a start names, each as a hash
    by: str = ""  # who says so, where several processes write one log


class Place(NamedTuple):
    """Who wrote a line: the host that it names, else the log that it stands in; and the process, where it is named."""

    host: str
    pid: str = ""

    def __str__(self) -> str:
        return f"{self.host} pid {self.pid}" if self.pid else self.host


class Mark(NamedTuple):
    """A start or an end: when, by whom, and where that is written."""

    at: Instant
    said: Said
    place: Place
    log: str
    file: str
    line: int
    text: int  # a hash of the line, to tell a line that stands there twice
    slot: Instant | None = None
    twofold: bool = False  # the clocks that it is by may have shown this hour twice

    @property
    def by(self) -> Place:
        """Whose starts and ends belong together. Cron's are told by several processes: any of the host's."""
        return Place(self.place.host) if self.said.form is Form.CRON else self.place

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"


class Kind(StrEnum):
    TWICE = "twice-started"
    OVERLAPPING = "overlapping"
    NEVER_ENDED = "never-ended"
    OVERDUE = "overdue"


class Sure(StrEnum):
    CERTAIN = "certain"
    POSSIBLE = "possible"


CERTAIN: Final = Sure.CERTAIN
POSSIBLE: Final = Sure.POSSIBLE


class Finding(NamedTuple):
    """`mark` is the start that should not have been, or has no end; `first` the one that was there before."""

    kind: Kind
    sure: Sure
    mark: Mark
    first: Mark | None
    says: str
