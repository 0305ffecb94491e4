"""Java and Kotlin: Spring's `@Scheduled` and Quartz, and where several instances of a program are started.

A tree with one Spring Boot application has one program to start. Where there are several, a command belongs to the
application in whose folder it stands, and says nothing of the others.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Literal, NamedTuple

from cronce_audit.model import (
    Confidence,
    Facts,
    Found,
    LockCall,
    Noticed,
    Place,
    Source,
    is_of_process,
    reader,
)
from cronce_audit.processes.commands import Started, started


@dataclass(frozen=True, slots=True)
class ShedLock:
    """`@SchedulerLock` on a method, or a lock that it takes and gives back itself."""

    place: Place
    has_least: bool
    """There is a time that it is held at least."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A method with Spring's `@Scheduled`."""

    what: str
    """For people: "`Billing.run`"."""
    pattern: str | None
    """The expression; "" where it is not spelled out; None where the method runs at a fixed rate or delay."""
    place: Place
    lock: ShedLock | None
    is_guarded: bool
    """A lock of another kind was seen in it, or it is off unless a setting says when it runs."""
    is_unclear: bool
    """A condition stands on it, or a switch in it, that may hold in one instance only."""
    leans_on: tuple[str, ...]
    """Classes that its class uses: a lock may be in them."""
    has_zone: bool = False
    overlaps: bool = False
    """`@Async` stands on it too: a run does not wait for the last one."""
    library: str = "`@Scheduled`"


Switch = Literal["scheduling", "locks", "application"]


@dataclass(frozen=True, slots=True)
class Enabled:
    """An annotation that switches something on for the whole application."""

    what: Switch
    place: Place
    is_conditional: bool
    has_least: bool
    """Of locks: there is a time that each is held at least."""


@dataclass(frozen=True, slots=True)
class LockingClass:
    """A class whose code speaks of locks that others see; ALL, where something is around every scheduled method."""

    name: str


class QuartzTrigger(NamedTuple):
    """A cron expression for an hour, which Quartz is given without a zone."""

    place: Place


_SPRING: Final = "org.springframework.scheduling.annotation"
_SWITCHES: Final[dict[str, Switch]] = {
    "EnableScheduling": "scheduling",
    "EnableSchedulerLock": "locks",
    "SpringBootApplication": "application",
}
_BEFORE: Final = r"^[ \t]*(?:@[\w.]+(?:\([^)\n]*\))?[ \t]+)*"
"""Other annotations on the same line."""
_CONDITION: Final = re.compile(
    _BEFORE + r"@(?:Conditional\w*|Profile\b(?!\(\s*\"!))(?:\((?:[^()]|\([^()]*\))*\))?", re.MULTILINE
)
"""`@Profile("!test")` is none: that is everywhere but in tests."""
_ON: Final = re.compile(r"matchIfMissing\s*=\s*true")
"""A condition that holds unless somebody says otherwise."""
_NO_BEAN: Final = re.compile(r"^\s*//\s*@(?:Component|Service|Configuration)\b", re.MULTILINE)
"""Somebody has taken the class out: Spring does not see its methods."""
_APART: Final = re.compile(r"@Profile\((?![^)]*\bprod)[^)]*(?:job|sched|worker|batch|cron)")
"""A profile of its own: that is how a program of its own is made out of an application."""
_LOCKS: Final = (
    "RLock", "SchedulerLock", "edisson", "LockRegistry", "InterProcessMutex", "LockProvider", "LockingTaskExecutor",
    "LeaderInitiator", "LeaderLatch", "LeaderSelector", "LeaderElection", "isLeader", "azelcast", "FencedLock",
    "PESSIMISTIC_", "setIfAbsent", "DistributedLock", "distributedLock", "LockTemplate", "cronce", "dempoten",
    "GET_LOCK", "ON CONFLICT", "on conflict", "SKIP LOCKED", "skip locked", "FOR UPDATE", "for update", "advisory_lock",
    "advisory_xact_lock"
)  # fmt: skip
"""What speaks of a lock that other processes see."""
_ANY_LOCK: Final = re.compile(r"(?<![bcBC])[lL]ock|[mM]utex|[lL]eader|[cC]laim[A-Z]|[mM]aster|[pP]rimaryNode")
_SWITCH: Final = re.compile(r"[eE]nabled|[dD]isabled|[lL]eader|[mM]aster|[pP]rimary|[iI]nstance(?:Id|Index)|[pP]rofile")
ALL: Final = "*"
"""The class of an aspect around every scheduled method."""


def _wants(path: PurePosixPath) -> bool:
    return path.suffix in (".java", ".kt")


@reader("java", _wants)
def _read(source: Source) -> Iterator[Enabled | LockCall | LockingClass | Noticed | QuartzTrigger | Scheduled]:
    if _speaks_of_lock(source.text):
        is_around_all = "@Aspect" in source.text and "Scheduled" in source.text
        yield LockingClass(ALL if is_around_all else PurePosixPath(source.path).stem)
    if "@EnableScheduling" in source.text and _APART.search(source.text):
        yield LockingClass(ALL)
    yield from _switches(source)
    if "org.quartz" in source.text:
        yield from _of_quartz(source)
    if "@Scheduled" not in source.text or _SPRING not in source.text or _NO_BEAN.search(source.text):
        return
    yield from _methods(source)


_HOUR: Final = re.compile(r"\bcronSchedule\((?!\s*\"\S+ \S+ \*)")
_JOB_CLASS: Final = re.compile(
    r"(?<!abstract )\bclass \w+[^{]*\b(?:implements (?:\w+, )*Job\b|extends QuartzJobBean\b)"
)


def _of_quartz(source: Source) -> Iterator[Noticed | QuartzTrigger]:
    """By their text, and the first of each kind in a file."""
    plain = source.bare
    hour, job = _HOUR.search(plain), _JOB_CLASS.search(plain)
    if hour and "inTimeZone" not in plain:
        yield QuartzTrigger(source.at(hour.start()))
    if job and "DisallowConcurrentExecution" not in plain and "StatefulJob" not in plain:
        message = (
            "Quartz starts this job again while its last run still works: the class has no"
            " `@DisallowConcurrentExecution`"
        )
        remedy = "put `@DisallowConcurrentExecution` on the class"
        yield Noticed("CR321", Found(source.at(job.start()), message, remedy=remedy))


def _switches(source: Source) -> Iterator[Enabled]:
    """By their text, for configuration may be in Kotlin too."""
    for name, what in _SWITCHES.items() if "@Enable" in source.text or "@SpringBoot" in source.text else ():
        found = re.search(rf"{_BEFORE}@{name}\b(?P<told>(?:\([^)]*\))?)", source.text, re.MULTILINE)
        if found:
            place = source.at(found.start())
            yield Enabled(what, place, _is_conditional(source.text), "AtLeast" in found["told"])


_MARK: Final = re.compile(r"@Scheduled\s*\((?P<told>(?:[^()]|\([^()]*\))*)\)")
_FUNCTION: Final = re.compile(
    r"(?P<fun>\bfun|[\w>\]])\s+(?P<name>\w+)\s*\((?:[^()]|\([^()]*\))*\)[^{};=()]*(?P<opens>[{=])"
)
_NO_FUNCTIONS: Final = frozenset({"if", "for", "while", "switch", "catch", "synchronized", "when"})
_BRACES: Final = re.compile(r"[{}]")
_NEXT: Final = re.compile(r"\n\s*\n|\n {0,4}[@}]")
_CRON_TEXT: Final = re.compile(r"\bcron\s*=\s*\"(?P<cron>[^\"]*)\"\s*(?:,|$)")
_OFF: Final = re.compile(r"\bcron\s*=\s*(?:\"-\"|[\w.]*CRON_DISABLED\b)")
_CLASS: Final = re.compile(r"\b(?:class|record|interface|object)\s+(?P<name>\w+)")
_IF_CONDITION: Final = re.compile(r"\bif\s*\((?P<asked>(?:[^()]|\([^()]*\))*)\)")
_DECLARED: Final = re.compile(
    r"\b(?P<name>\w+):\s*(?P<kind>[A-Z]\w+)|\b(?P<type>[A-Z]\w*)(?:<[^<>;()]*>)?\s+(?P<called>\w+)\s*(?=[;=,)])"
)
"""A field or parameter, in Kotlin or in Java."""


class _Body(NamedTuple):
    """A function: where its braces begin, and what stands in them."""

    start: int
    text: str


def _methods(source: Source) -> Iterator[Scheduled]:
    """By their text, in Java and in Kotlin: what is around the annotation up to the function, and the function."""
    code = source.bare
    functions = {found["name"]: _body(code, found) for found in _functions(code, 0)}
    for mark in _MARK.finditer(code):
        method = next(_functions(code, mark.end()), None)
        if method is None or _OFF.search(mark["told"]):
            continue
        before = code[: mark.start()]
        first = max(before.rfind(one) for one in "{};") + 1
        marks = code[first : method.start()]
        own = _body(code, method)
        body = "\n".join(_called(own.text, functions))
        owner = next(reversed([*_CLASS.finditer(before)]), None)
        head, inside = (before[: owner.start()], code[owner.start() :]) if owner else ("", "")
        head = head[max(head.rfind(";"), head.rfind("\n}"), 0) :]
        types = sorted({*_types(inside, body), *re.findall(r"\bextends\s+(\w+)", inside)})
        spoken = "\n".join([marks.replace(mark[0], ""), *types, body])
        may_lock = bool(_ANY_LOCK.search(spoken)) and "java.util.concurrent.locks" not in source.text
        told, cron = mark["told"], _CRON_TEXT.search(mark["told"].strip())
        yield Scheduled(
            f"`{owner['name'] if owner else ''}.{method['name']}`",
            (cron["cron"] if cron and "$" not in cron["cron"] else "") if re.search(r"\bcron\s*=", told) else None,
            source.at(mark.start()),
            _lock(source, code, code.find("@SchedulerLock", first, method.start()), own),
            ":-}" in told
            or bool(_APART.search(head))
            or _speaks_of_lock(spoken)
            or (may_lock and _speaks_of_lock(source.text)),
            _is_conditional(head)
            or any(_SWITCH.search(one["asked"]) for one in _IF_CONDITION.finditer(body))
            or may_lock,
            tuple(types),
            bool(re.search(r"\bzone\s*=", told)),
            bool(re.search(r"@Async\b", marks)),
        )


def _is_conditional(marks: str) -> bool:
    return any(not _ON.search(one[0]) for one in _CONDITION.finditer(marks))


def _functions(code: str, start: int) -> Iterator[re.Match[str]]:
    for found in _FUNCTION.finditer(code, start):
        if found["name"] not in _NO_FUNCTIONS and (found["opens"] == "{" or found["fun"] == "fun"):
            yield found


def _body(code: str, function: re.Match[str]) -> _Body:
    """Up to the brace that closes it; of `fun name() = …` up to the next empty line, brace or annotation."""
    start, depth = function.end(), 1
    if function["opens"] == "=":
        end = _NEXT.search(code, start)
        return _Body(start, code[start : end.start() if end else len(code)])
    for brace in _BRACES.finditer(code, start):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return _Body(start, code[start : brace.start()])
    return _Body(start, code[start:])


def _called(body: str, functions: Mapping[str, _Body]) -> list[str]:
    """The functions of its file that a body calls, and those that they call."""
    names: list[str] = []
    bodies = [body]
    for one in bodies:
        for name in dict.fromkeys(re.findall(r"\w+(?=\()|(?<=::)\w+", one)):
            if name in functions and name not in names:
                names.append(name)
                bodies.append(functions[name].text)
    return bodies


def _types(inside: str, body: str) -> Iterator[str]:
    """The classes of the fields and parameters that a body uses."""
    used = {*re.findall(r"\w+", body)}
    for found in _DECLARED.finditer(inside):
        if (found["name"] or found["called"]) in used:
            yield found["kind"] or found["type"]


def _lock(source: Source, code: str, mark: int, own: _Body) -> ShedLock | None:
    """`@SchedulerLock`, if its mark is there; or `lock.tryLock(…)` of Redisson, with an `unlock()` in the method."""
    if mark >= 0:
        return ShedLock(source.at(mark), "lockAtLeastFor" in code[mark : own.start])
    taken = re.search(r"\.(?:tryLock|lock)\(", own.text)
    if taken is None or ".unlock(" not in own.text or not _speaks_of_lock(source.text):
        return None
    return ShedLock(source.at(own.start + taken.start()), has_least=False)


def _speaks_of_lock(code: str) -> bool:
    return any(word in code for word in _LOCKS)


def module_of(path: str) -> str:
    """The folder of a build: what is above `src/main`."""
    parts = PurePosixPath(path).parts
    return "/".join(parts[: parts.index("src")]) if "src" in parts else str(PurePosixPath(path).parent)


def several(facts: Facts, path: str) -> Started | None:
    """What starts several instances of the program that this file is part of."""
    found = _starts(facts, path) if facts.conclude(_applications) else ()
    return next((one for one in found if one.copies.is_several), None)


def _copies(one: Started) -> str:
    return f"`{one.by.name}` has {one.copies} copies ({one.by.copies_at})"


def _starts(facts: Facts, path: str) -> Sequence[Started]:
    applications, found = facts.conclude(_applications), facts.conclude(_javas)
    if len(applications) <= 1:
        return found
    home = module_of(path)
    return [one for one in found if home in applications and f"{one.folder}/".startswith(f"{home}/")]


def _applications(facts: Facts) -> set[str]:
    return {module_of(one.place.path) for one in facts.of(Enabled) if one.what == "application"}


def _javas(facts: Facts) -> Sequence[Started]:
    return [one for one in facts.conclude(started) if one.argv.program == "java"]


def unlocked(facts: Facts) -> Sequence[Scheduled]:
    """Methods that nothing keeps from running in each instance, as far as their code is seen."""
    locking = {one.name for one in facts.of(LockingClass)}
    return [
        job
        for job in facts.of(Scheduled)
        if not job.lock and not job.is_guarded and ALL not in locking and not is_of_process(job.place.path, job.what)
    ]


def _is_unclear(job: Scheduled, facts: Facts) -> bool:
    """A condition, on it or on the whole of scheduling, may hold in one instance only; or a class that it uses speaks
    of locks, which may be about something else."""
    locking = {one.name for one in facts.of(LockingClass)}
    return (
        bool(locking & {*job.leans_on})
        or job.is_unclear
        or any(one.what == "scheduling" and one.is_conditional for one in facts.of(Enabled))
    )


_SHEDLOCK: Final = (
    "let one instance win each slot: `@SchedulerLock` with lockAtLeastFor (ShedLock), or move the job into a "
    "program of its own that one CronJob, or `cronce exec`, starts"
)


def in_every_instance(facts: Facts) -> Iterator[Found]:
    for job in facts.conclude(unlocked):
        evidence = several(facts, job.place.path)
        if job.pattern is not None and evidence and not _is_unclear(job, facts):
            message = f"{job.what} runs in every instance, and {_copies(evidence)}"
            sure = evidence.by.confidence if job.pattern else Confidence.MEDIUM
            yield Found(job.place, message, sure, remedy=_SHEDLOCK)


def without_lock(facts: Facts) -> Iterator[Found]:
    locked = [job for job in facts.of(Scheduled) if job.lock]
    for job in facts.conclude(unlocked):
        if _is_unclear(job, facts):
            said = f"{job.what} runs in every instance for which its condition holds; the files do not say in how many"
            yield Found(job.place, said, Confidence.LOW, remedy=_LOOK)
            continue
        if job.pattern is not None and several(facts, job.place.path):
            continue  # told by CR701
        said = f"{job.what} runs once only as long as there is one instance: no lock is seen"
        if locked and job.pattern is not None:
            said = f"{said}, and {len(locked)} of the scheduled methods here have one ({locked[0].what})"
        remedy = "keep this application at one instance, or put `@SchedulerLock` on the method before it is scaled"
        yield Found(job.place, said, remedy=remedy)


_LOOK: Final = (
    "check whether it runs in one instance at most; if so, write `// cronce: ignore[CR702] …`; or put"
    " `@SchedulerLock` on the method"
)
