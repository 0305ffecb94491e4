"""Jobs of schedulers that live in a process of Go, Ruby or Rust, or that cron starts on every server, as Laravel's.

They are found by the words of their library, with comments taken out; what a job does is not followed. One table has
all that differs between the libraries.
"""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce_audit.model import Facts, Found, Noticed, Place, Source, is_of_process, reader


class JobLibrary(NamedTuple):
    """How a file shows that it uses a library, and adds a job."""

    name: str
    suffix: str
    used: re.Pattern[str]
    adds: re.Pattern[str]
    """The call that adds a job; its group is the job's name, if it has one."""
    fires: str
    """Where it runs, in words."""
    once: re.Pattern[str] | None = None
    """What makes one job run in one place, if the library has such a thing."""
    remedy: str | None = None
    often: re.Pattern[str] = re.compile("^$")
    """Of a job that comes every five minutes or more often."""
    apart: re.Pattern[str] = re.compile("^$")
    """What makes its next run wait."""
    wait: str = ""
    """The remedy where it does not."""


_JOB_LIBRARIES: Final = (
    JobLibrary(
        "robfig/cron",
        ".go",
        re.compile(r'"github\.com/robfig/cron(?:/v\d)?"'),
        re.compile(r"\.(?:AddFunc|AddJob)\("),
        "in every process of this program",
        often=re.compile(
            r'\.Add\w+\(\s*"(?:@every (?:\d+s|[1-5]m)|(?:\S+ )??\*(?:/[1-5])? \*)|\.Add\w+\(\s*(?!")[\w.]+\s*,'
        ),
        wait="make it with `cron.WithChain(cron.SkipIfStillRunning(cron.DefaultLogger))`",
    ),
    JobLibrary(
        "gocron",
        ".go",
        re.compile(r'"github\.com/(?:go-co-op|jasonlvhit)/gocron(?:/v\d)?"'),
        re.compile(r"\.NewJob\(|\)\.Do\("),
        "in every process of this program",
    ),
    JobLibrary(
        "tokio-cron-scheduler",
        ".rs",
        re.compile(r"\btokio_cron_scheduler\b|\bclokwerk\b"),
        re.compile(r"\bJob::new(?:_\w+)?\(|\.every\("),
        "in every process of this program",
    ),
    JobLibrary(
        "rufus-scheduler",
        ".rb",
        re.compile(r"Rufus::Scheduler"),
        re.compile(r"^[ \t]*\w+\.(?:every|cron|interval)[ (]", re.MULTILINE),
        "in every process that loads this file: each worker of the web server, each console",
        often=re.compile(r"every[ (]+['\"](?:\d+s|[1-5]m)['\"]|cron[ (]+['\"]\*(?:/[1-5])? \*"),
        apart=re.compile(r"overlap(?:: | ?=> ?)false|mutex|perform_(?:later|async)"),
        wait="give it `overlap: false`",
    ),
    JobLibrary(
        "whenever",
        ".rb",
        re.compile(r"^[ \t]*every\b[^\n]* do\s+(?:runner|rake|command|script) ", re.MULTILINE),
        re.compile(r"^[ \t]*every[ (]", re.MULTILINE),
        "on every server that it writes the crontab of",
        re.compile(""),  # one server, by its role
        often=re.compile(r"every[ (]+(?::minute|[1-5]\.minutes?|['\"]\*(?:/[1-5])? \*)"),
        apart=re.compile(r"flock|lockrun|perform_(?:later|async)"),
        wait="start it under `flock -n`, by `job_type`",
    ),
    JobLibrary(
        "Laravel's scheduler",
        ".php",
        re.compile(r"Console\\Scheduling\\Schedule\b|Facades\\Schedule\b"),
        re.compile(r"(?:\$schedule->|\bSchedule::)(?:command|job|call|exec)\((?:\s*['\"]([\w:.-]+))?"),
        "on every server whose cron calls `schedule:run`",
        re.compile(r"->\s*onOneServer\("),
        "add `->onOneServer()`, with a cache that all servers share, or let one server call `schedule:run`",
        often=re.compile(r"->\s*every(?:\w*Seconds?|Minute|(?:Two|Three|Four|Five)Minutes)\("),
        apart=re.compile(r"->\s*withoutOverlapping\("),
        wait="add `->withoutOverlapping()`",
    ),
)
_SUFFIXES: Final = {library.suffix for library in _JOB_LIBRARIES}
_SHARED_LOCKS: Final = re.compile(
    r"(?i)redsync|redislock|WithDistributed(?:Locker|Elector)|leader_?election|NewElection|advisory_(?:xact_)?lock|"
    r"(?:try|acquire|obtain)_?lock\w*\(|distributed_?lock|with_advisory_lock|lockfile"
)
"""Of a lock or a leader that other processes see."""
_WEB_SERVERS: Final = re.compile(
    r"ListenAndServe|gin\.(?:New|Default)\(|echo\.New\(|fiber\.New\(|grpc\.NewServer\(|chi\.New"
)
_CHAINED: Final = re.compile(r"(?:Skip|Delay)IfStillRunning")
"""In Go the chain of a scheduler may be made far from its jobs."""
_FLAG_OF_A_RUN: Final = re.compile(r"\.TryLock\(|(?i:\bis_?running\b)|CompareAndSwap")
_LONG_TICK: Final = re.compile(r"time\.(?:NewTicker|Tick)\(\s*(1[2-9]|[2-9]\d|\d{3,})\s*\*\s*time\.Hour\s*\)")


class AddedJob(NamedTuple):
    """A job that a file adds."""

    library: str
    what: str
    place: Place
    is_once: bool
    overlaps: str
    """What to do about it; "" where its runs do not overlap."""


class LanguageSeen(NamedTuple):
    """What a file of a language has, for the jobs of all its files."""

    path: PurePosixPath
    locks: bool
    """For those of its folder."""
    serves: bool
    waits: bool


@reader("other languages", lambda path: path.suffix in _SUFFIXES)
def read(source: Source) -> Iterator[AddedJob | LanguageSeen | Noticed]:
    seen = [bool(words.search(source.text)) for words in (_SHARED_LOCKS, _WEB_SERVERS, _CHAINED)]
    if any(seen):
        yield LanguageSeen(PurePosixPath(source.path), *seen)
    for tick in _LONG_TICK.finditer(source.text) if source.suffix == ".go" else ():
        message = f"these {tick[1]} h count from the start of the process: started more often, it never gets there"
        yield Noticed("CR323", Found(source.at(tick.start()), message))
    for library in _JOB_LIBRARIES:
        if library.suffix == source.suffix and library.used.search(source.text):
            yield from _added(source, library)


def _added(source: Source, library: JobLibrary) -> Iterator[AddedJob]:
    plain = source.bare
    waits = source.suffix == ".go" and bool(_FLAG_OF_A_RUN.search(plain))
    for found in library.adds.finditer(plain):
        is_block = source.suffix == ".rb"
        told = plain[found.start() :].partition("\nend")[0] if is_block else _statement(plain, found.start())
        name = next((group for group in found.groups() if group), None)
        yield AddedJob(
            library.name,
            f"`{name}`" if name else f"this job of {library.name}",
            source.at(found.start()),
            library.once is not None and bool(library.once.search(told)),
            library.wait if library.often.search(told) and not waits and not library.apart.search(told) else "",
        )


def _statement(text: str, start: int) -> str:
    """Up to the semicolon that ends it, past those of the functions in it."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in "({[") - (text[at] in ")}]")
        if depth < 0 or (text[at] == ";" and not depth):
            return text[start:at]
    return text[start:]


def several(facts: Facts) -> Iterator[Found]:
    """The first job of each file that runs wherever its file does, and what is to say of it."""
    locked = {(one.path.parent, one.path.suffix) for one in facts.of(LanguageSeen) if one.locks}
    serving = any(one.serves for one in facts.of(LanguageSeen))
    found: dict[str, list[AddedJob]] = {}
    for one in facts.of(AddedJob):
        path = PurePosixPath(one.place.path)
        is_locked = (path.parent, path.suffix) in locked
        is_bare = not one.is_once and not is_locked and not is_of_process(one.place.path, one.what)
        if is_bare and (serving or path.suffix != ".go"):
            found.setdefault(one.place.path, []).append(one)
    for first, *others in found.values():
        library = next(one for one in _JOB_LIBRARIES if one.name == first.library)
        rest = f" and {len(others)} more in this file" if others else ""
        message = f"{first.what}{rest} fires {library.fires}, and no lock is seen"
        yield Found(first.place, message, remedy=library.remedy)


def joined(facts: Facts) -> Iterator[Found]:
    """Frequent jobs whose next run does not wait."""
    go_waits = any(one.waits and one.path.suffix == ".go" for one in facts.of(LanguageSeen))
    for one in facts.of(AddedJob):
        waits = go_waits and one.place.path.endswith(".go")
        if one.overlaps and not waits and not is_of_process(one.place.path, one.what):
            message = f"{one.what} starts again while the last run still works: {one.library} does not check that"
            yield Found(one.place, message, remedy=one.overlaps)
