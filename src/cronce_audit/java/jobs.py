"""Spring's `@Scheduled`, ShedLock's `@SchedulerLock`, and locks made by hand in the method."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from cronce_audit.grammars import above, column, line, parse, text, within, words
from cronce_audit.java.code import TYPES, Imports, annotations, name_of, number, string, values
from cronce_audit.java.facts import Enabled, LockingClass, Scheduled, ShedLock, Switch, WaitingLock
from cronce_audit.model import Reader, Source

if TYPE_CHECKING:
    from tree_sitter import Node

_SPRING: Final = "org.springframework.scheduling.annotation"
_SHEDLOCK: Final = "net.javacrumbs.shedlock.spring.annotation"
_SWITCHES: Final[dict[str, Switch]] = {
    "EnableScheduling": "scheduling",
    "EnableSchedulerLock": "locks",
    "SpringBootApplication": "application",
}
_BEFORE: Final = r"^[ \t]*(?:@[\w.]+(?:\([^)\n]*\))?[ \t]+)*"
"""Other annotations on the same line."""
_CONDITION: Final = re.compile(_BEFORE + r"@(?:Conditional\w*|Profile\b(?!\(\s*\"!))", re.MULTILINE)
"""`@Profile("!test")` is none: that is everywhere but in tests."""
_LOCKS: Final = (
    "RLock", "SchedulerLock", "edisson", "LockRegistry", "InterProcessMutex", "LockProvider", "LockingTaskExecutor",
    "LeaderInitiator", "LeaderLatch", "LeaderSelector", "LeaderElection", "isLeader", "azelcast", "FencedLock",
    "PESSIMISTIC_", "setIfAbsent", "DistributedLock", "distributedLock", "LockService", "lockService", "LockManager",
    "lockManager", "LockRepository", "lockRepository", "LockTemplate", "lockTemplate", "cronce", "dempoten", "GET_LOCK",
    "ON CONFLICT", "on conflict", "SKIP LOCKED", "skip locked", "FOR UPDATE", "for update", "advisory_lock",
    "advisory_xact_lock"
)  # fmt: skip
"""What speaks of a lock that other processes see."""
_ANY_LOCK: Final = re.compile(r"(?<![bcBC])[lL]ock|[mM]utex|[lL]eader|[cC]laim[A-Z]|[mM]aster|[pP]rimaryNode")
_SWITCH: Final = re.compile(r"[eE]nabled|[dD]isabled|[lL]eader|[mM]aster|[pP]rimary|[iI]nstance(?:Id|Index)|[pP]rofile")
ALL: Final = "*"
"""The class of an aspect around every scheduled method."""
_SECONDS: Final = {"SECONDS": 1, "MINUTES": 60, "HOURS": 3600, "DAYS": 86400}


def _wants(path: PurePosixPath) -> bool:
    return path.suffix in (".java", ".kt")


def _read(source: Source) -> Iterator[Enabled | LockingClass | Scheduled | WaitingLock]:
    if _speaks_of_lock(source.text):
        is_around_all = "@Aspect" in source.text and "Scheduled" in source.text
        yield LockingClass(ALL if is_around_all else PurePosixPath(source.path).stem)
    yield from _switches(source)
    if source.suffix == ".java" and "@Scheduled" in source.text and _SPRING in source.text:
        root = parse("java", source.text)
        imports = Imports(source.text)
        for method in within(root, "method_declaration"):
            yield from _method(source, method, imports)


def _switches(source: Source) -> Iterator[Enabled]:
    """By their text, for configuration may be in Kotlin too."""
    for name, what in _SWITCHES.items() if "@Enable" in source.text or "@SpringBoot" in source.text else ():
        found = re.search(rf"{_BEFORE}@{name}\b(?P<told>(?:\([^)]*\))?)", source.text, re.MULTILINE)
        if found:
            conditional = _CONDITION.search(source.text)
            place = source.place(source.text.count("\n", 0, found.start()) + 1)
            yield Enabled(what, place, bool(conditional), "AtLeast" in found["told"])


def _method(source: Source, method: "Node", imports: Imports) -> Iterator[Scheduled | WaitingLock]:
    marks = list(annotations(method))
    lock = next((_shedlock(source, mark) for mark in marks if name_of(mark).endswith("SchedulerLock")), None)
    owner = next((outer for outer in above(method) if outer.type in TYPES), None)
    name = f"{text(owner.child_by_field_name('name')) if owner else ''}.{text(method.child_by_field_name('name'))}"
    for mark in marks:
        told = values(mark)
        if imports.means(name_of(mark), f"{_SPRING}.Scheduled") and not _is_off(told.get("cron")):
            yield Scheduled(
                name,
                string(told["cron"]) or "" if "cron" in told else None,
                number(told.get("fixedRate") or told.get("fixedDelay")),
                source.place(line(mark), column(mark)),
                lock,
                owner is None or ":-}" in text(mark) or _is_guarded(method, owner, imports),
                tuple(sorted(set(_types(owner)))) if owner else (),
            )
            yield from _waits(source, method, name, imports)
            return


def _is_off(cron: "Node | None") -> bool:
    """Spring's word for never."""
    return string(cron) == "-" or text(cron).endswith("CRON_DISABLED")


def _shedlock(source: Source, mark: "Node") -> ShedLock:
    told = values(mark)
    least = next((told[key] for key in ("lockAtLeastFor", "lockAtLeastForString") if key in told), None)
    is_spring = bool(re.search(rf"import\s+{re.escape(_SHEDLOCK)}\.(?:SchedulerLock|\*)", source.text))
    return ShedLock(source.place(line(mark), column(mark)), is_spring, (string(least) or "") if least else None)


def _is_guarded(method: "Node", owner: "Node", imports: Imports) -> bool:
    """A lock, or a switch, in the method or in what it calls in its class; a condition on the class."""
    if any(_CONDITION.match(text(mark)) for mark in annotations(owner)):
        return True
    in_process = imports.any("java.util.concurrent.locks")
    others = [name_of(mark) for mark in annotations(method) if not name_of(mark).endswith("Scheduled")]
    spoken = "\n".join([*others, *(word for body in _bodies(method, owner) for word in words(body))])
    if _speaks_of_lock(spoken) or (_ANY_LOCK.search(spoken) and not in_process):
        return True
    conditions = (one for body in _bodies(method, owner) for one in within(body, "if_statement"))
    return any(_SWITCH.search(text(one.child_by_field_name("condition"))) for one in conditions)


def _speaks_of_lock(code: str) -> bool:
    return any(word in code for word in _LOCKS)


def _bodies(method: "Node", owner: "Node") -> "list[Node]":
    """The method, and those of its class that it names."""
    known = {text(one.child_by_field_name("name")): one for one in within(owner, "method_declaration")}
    found = [method]
    for one in found:
        body = one.child_by_field_name("body")
        for word in words(body) if body is not None else ():
            if word in known and known[word] not in found:
                found.append(known[word])
    return [body for one in found if (body := one.child_by_field_name("body")) is not None]


def _types(owner: "Node") -> Iterator[str]:
    """The classes that a class has fields or parameters of, or inherits from."""
    for node in within(owner, "field_declaration", "formal_parameter", "superclass"):
        yield from map(text, within(node, "type_identifier"))


def _waits(source: Source, method: "Node", name: str, imports: Imports) -> Iterator[WaitingLock]:
    """`lock.tryLock(1, 10, TimeUnit.MINUTES)` waits for a minute; `lock.lock()` for as long as it takes."""
    if not imports.any("org.redisson", "org.springframework.integration.support.locks", "com.hazelcast"):
        return
    for call in within(method, "method_invocation"):
        told = call.child_by_field_name("arguments")
        given = told.named_children if told is not None else []
        called = text(call.child_by_field_name("name"))
        wait = number(given[0]) if given else None
        if called == "tryLock" and len(given) > 1 and wait:
            unit = _SECONDS.get(text(given[-1]).rpartition(".")[2])
            if unit:
                yield WaitingLock(name, text(call), source.place(line(call), column(call)), wait * unit)
        elif called == "lock" and _is_lock(call):
            yield WaitingLock(name, text(call), source.place(line(call), column(call)), None)


def _is_lock(call: "Node") -> bool:
    owner = call.child_by_field_name("object")
    return owner is not None and "ock" in text(owner)


READER: Final = Reader("java", _wants, _read)
