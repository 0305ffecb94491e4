"""What the readers of Java tell the rules."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, Literal

from cronce_audit.grammars import above, column, line, parse, text, within, words
from cronce_audit.model import LockCall, Place, Source, Unreadable, reader
from cronce_audit.yaml import YamlNode, documents

if TYPE_CHECKING:
    from tree_sitter import Node


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
    sends: tuple[str, int] | None = None
    """The call in its body that hands work to a broker, as written, and its line."""
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


QuartzAct = Literal["schedule", "local hour", "overlap"]


@dataclass(frozen=True, slots=True)
class QuartzUse:
    """Code that gives Quartz a job, a cron expression without a zone, or a job class whose runs may overlap."""

    act: QuartzAct
    place: Place


@dataclass(frozen=True, slots=True)
class QuartzSettings:
    """The settings of Quartz in one file, by their names without `org.quartz.`."""

    values: tuple[tuple[str, str, int], ...]
    """Name, value, line."""
    path: str


_IMPORT: Final = re.compile(r"^\s*import\s+(?:static\s+)?([\w.]+(?:\.\*)?)\s*;", re.MULTILINE)
TYPES: Final = ("class_declaration", "record_declaration", "enum_declaration", "interface_declaration")


class Imports:
    """What the simple names of a file mean."""

    def __init__(self, source: str) -> None:
        self.names: Final = frozenset(_IMPORT.findall(source))

    def means(self, name: str, *qualified: str) -> bool:
        """Whether a name is one of these classes: imported by itself or with its package, or written out."""
        return any(
            name == one
            or (name == one.rpartition(".")[2] and (one in self.names or f"{one.rpartition('.')[0]}.*" in self.names))
            for one in qualified
        )

    def any(self, *prefixes: str) -> bool:
        return any(name.startswith(prefixes) for name in self.names)


def annotations(node: "Node") -> "Iterator[Node]":
    """Those of a class or method, also the ones in a container like `@Schedules({…})`."""
    for child in node.named_children:
        if child.type == "modifiers":
            yield from within(child, "annotation", "marker_annotation")


def name_of(annotation: "Node") -> str:
    return text(annotation.child_by_field_name("name"))


def values(annotation: "Node") -> "dict[str, Node]":
    """What an annotation is given, by name; a single value is `value`."""
    told = annotation.child_by_field_name("arguments")
    found: dict[str, Node] = {}
    for child in told.named_children if told is not None else ():
        key, value = child.child_by_field_name("key"), child.child_by_field_name("value")
        if child.type == "element_value_pair" and value is not None:
            found[text(key)] = value
        else:
            found["value"] = child
    return found


def string(node: "Node | None") -> str | None:
    """A text that is spelled out; None for a constant, or for one with `${…}` or `#{…}` in it."""
    if node is None or node.type != "string_literal":
        return None
    found = text(node)[1:-1]
    return None if "${" in found or "#{" in found else found


_SPRING: Final = "org.springframework.scheduling.annotation"
_SWITCHES: Final[dict[str, Switch]] = {
    "EnableScheduling": "scheduling",
    "EnableSchedulerLock": "locks",
    "SpringBootApplication": "application",
}
_BEFORE: Final = r"^[ \t]*(?:@[\w.]+(?:\([^)\n]*\))?[ \t]+)*"
"""Other annotations on the same line."""
_CONDITION: Final = re.compile(_BEFORE + r"@(?:Conditional\w*|Profile\b(?!\(\s*\"!))", re.MULTILINE)
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


def _wants(path: PurePosixPath) -> bool:
    return path.suffix in (".java", ".kt")


@reader("java", _wants)
def _read(source: Source) -> Iterator[Enabled | LockCall | LockingClass | QuartzUse | Scheduled]:
    if _IF_ABSENT.search(source.text):
        yield from _lock_calls(source)
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
    if source.suffix == ".kt":
        yield from _of_kotlin(source)
    else:
        root = parse("java", source.text)
        imports = Imports(source.text)
        for method in within(root, "method_declaration"):
            yield from _method(source, method, imports)


_IF_ABSENT: Final = re.compile(r"\.(?:setIfAbsent|setnx)\((?P<told>(?:[^()]|\([^()]*\))*)\)")
_DELETES: Final = re.compile(r"\.(?:delete|unlink|del)\((?P<key>[\w.]+)\)")
_ATOMIC: Final = re.compile(r"\.(?:execute|eval)\(")


def _lock_calls(source: Source) -> Iterator[LockCall]:
    """By their text: keys of Redis that are set if they are not there, in a file or under a key that is called a
    lock."""
    plain = _JAVA_COMMENTS.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), source.text)
    for found in _IF_ABSENT.finditer(plain):
        given = [one.strip() for one in re.sub(r"\([^()]*\)", "", found["told"]).split(",")]
        if not _ANY_LOCK.search(f"{source.path} {given[0]}"):
            continue
        freed = next((one for one in _DELETES.finditer(plain) if one["key"] == given[0]), None)
        if freed and len(given) == 2 and ".expire" not in plain:
            place = source.place(plain.count("\n", 0, found.start()) + 1)
            yield LockCall("take for ever", f"`{given[0]}`", place)
        elif freed and len(given) > 2 and not _ATOMIC.search(plain):
            place = source.place(plain.count("\n", 0, freed.start()) + 1)
            asked = f".get({given[0]})" in plain
            yield LockCall("free after get" if asked else "free unasked", f"`{given[0]}`", place)


_JAVA_COMMENTS: Final = re.compile(r"/\*.*?\*/|(?<![:\w\"])//[^\n]*", re.DOTALL)
_ACTS: Final[dict[QuartzAct, re.Pattern[str]]] = {
    "schedule": re.compile(r"\.scheduleJob\("),
    "local hour": re.compile(r"\bcronSchedule\((?!\s*\"\S+ \S+ \*)"),
    "overlap": re.compile(r"(?<!abstract )\bclass \w+[^{]*\b(?:implements (?:\w+, )*Job\b|extends QuartzJobBean\b)"),
}
_CAREFUL: Final[dict[QuartzAct, tuple[str, ...]]] = {
    "schedule": ("sClustered",),
    "local hour": ("inTimeZone",),
    "overlap": ("DisallowConcurrentExecution", "StatefulJob"),
}
"""Words of a file that has seen to it."""


def _of_quartz(source: Source) -> Iterator[QuartzUse]:
    """By their text, and the first of each kind in a file."""
    plain = _JAVA_COMMENTS.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), source.text)
    for act, pattern in _ACTS.items():
        found = pattern.search(plain)
        if found and not any(word in plain for word in _CAREFUL[act]):
            yield QuartzUse(act, source.place(plain.count("\n", 0, found.start()) + 1))


def _switches(source: Source) -> Iterator[Enabled]:
    """By their text, for configuration may be in Kotlin too."""
    for name, what in _SWITCHES.items() if "@Enable" in source.text or "@SpringBoot" in source.text else ():
        found = re.search(rf"{_BEFORE}@{name}\b(?P<told>(?:\([^)]*\))?)", source.text, re.MULTILINE)
        if found:
            conditional = _CONDITION.search(source.text) and not _ON.search(source.text)
            place = source.place(source.text.count("\n", 0, found.start()) + 1)
            yield Enabled(what, place, bool(conditional), "AtLeast" in found["told"])


def _method(source: Source, method: "Node", imports: Imports) -> Iterator[Scheduled]:
    marks = list(annotations(method))
    lock = next((_shedlock(source, mark) for mark in marks if name_of(mark).endswith("SchedulerLock")), None)
    lock = lock or _unlocked_at_end(source, method)
    owner = next((outer for outer in above(method) if outer.type in TYPES), None)
    what = f"`{text(owner.child_by_field_name('name')) if owner else ''}.{text(method.child_by_field_name('name'))}`"
    for mark in marks:
        told = values(mark)
        if imports.means(name_of(mark), f"{_SPRING}.Scheduled") and not _is_off(told.get("cron")):
            yield Scheduled(
                what,
                string(told["cron"]) or "" if "cron" in told else None,
                source.place(line(mark), column(mark)),
                lock,
                owner is None or ":-}" in text(mark) or _is_guarded(method, owner, imports),
                owner is not None and _is_unclear(method, owner),
                tuple(sorted(set(_types(owner, method)))) if owner else (),
                "zone" in told,
                any(name_of(one) == "Async" for one in marks),
                _sent(text(method), line(method)),
            )
            return


_SENDS: Final = re.compile(
    r"\b\w*(?:[rR]abbit|[aA]mqp|[kK]afka|[jJ]ms|[sS]qs|[qQ]ueue|[rR]ocketMQ|[rR]ocketMq|[pP]roducer|[sS]treamBridge)\w*"
    r"\.(?:convertAndSend|send|syncSend|asyncSend|publish|enqueue)\w*(?=\()"
)


def _sent(body: str, first: int) -> tuple[str, int] | None:
    found = _SENDS.search(body)
    return (found[0], first + body.count("\n", 0, found.start())) if found else None


_KOTLIN: Final = re.compile(r"@Scheduled\((?P<told>(?:[^()]|\([^()]*\))*)\)(?P<marks>[^{}]*?)\bfun\s+(?P<name>\w+)")


def _of_kotlin(source: Source) -> Iterator[Scheduled]:
    """By their text: what is around the annotation up to the function, and the function up to the next one."""
    for found in _KOTLIN.finditer(source.text):
        before = source.text[: found.start()]
        marks = before[max(before.rfind("}"), before.rfind("{"), 0) :] + found["marks"]
        owner = before[max(before.rfind("class "), 0) :]
        bodies = _kotlin_bodies(source.text, found["name"])
        body = "\n".join(bodies)
        named = re.match(r"class (\w+)", owner)
        cron = re.search(r'cron\s*=\s*"(?P<cron>[^"]*)"', found["told"])
        place = source.place(before.count("\n") + 1)
        yield Scheduled(
            f"`{named[1] if named else ''}.{found['name']}`",
            cron["cron"] if cron and "$" not in cron["cron"] else "" if "cron" in found["told"] else None,
            place,
            ShedLock(place, "lockAtLeastFor" in marks) if "@SchedulerLock" in marks else None,
            ":-}" in found["told"] or bool(_ANY_LOCK.search(marks + body)) or _speaks_of_lock(body),
            bool(_SWITCH.search(body)),
            tuple(sorted({kind for name, kind in _KOTLIN_TYPED.findall(owner) if re.search(rf"\b{name}\b", body)})),
            "zone" in found["told"],
            "@Async" in marks,
            _sent(bodies[0], source.text.count("\n", 0, found.end()) + 1),
        )


_FUNCTION: Final = re.compile(r"^ {0,4}(?:\w+ )*fun (\w+)", re.MULTILINE)
_KOTLIN_TYPED: Final = re.compile(r"\b(\w+):\s*([A-Z]\w+)")


def _kotlin_bodies(code: str, name: str) -> list[str]:
    """A function, up to the next one or its annotations, and those of its file that it calls."""
    starts = [*_FUNCTION.finditer(code)]
    ends = [*(one.start() for one in starts[1:]), len(code)]
    bodies = {
        one[1]: re.split(r"\n {0,4}@", code[one.end() : end], maxsplit=1)[0]
        for one, end in zip(starts, ends, strict=True)
    }
    found = [name]
    for one in found:
        called = dict.fromkeys(re.findall(r"\w+(?=\()", bodies.get(one, "")))
        found += [word for word in called if word in bodies and word not in found]
    return [bodies.get(one, "") for one in found]


def _is_off(cron: "Node | None") -> bool:
    """Spring's word for never."""
    return string(cron) == "-" or text(cron).endswith("CRON_DISABLED")


def _shedlock(source: Source, mark: "Node") -> ShedLock:
    least = {"lockAtLeastFor", "lockAtLeastForString"} & set(values(mark))
    return ShedLock(source.place(line(mark), column(mark)), bool(least))


def _unlocked_at_end(source: Source, method: "Node") -> ShedLock | None:
    """`lock.tryLock(…)` of Redisson and the like, with an `unlock()` in the same method."""
    body = text(method)
    taken = re.search(r"\.(?:tryLock|lock)\(", body)
    if taken is None or ".unlock(" not in body or not _speaks_of_lock(source.text):
        return None
    return ShedLock(source.place(line(method) + body.count("\n", 0, taken.start())), has_least=False)


def _is_guarded(method: "Node", owner: "Node", imports: Imports) -> bool:
    """A lock in the method or in what it calls in its class; or a program of its own."""
    if any(_APART.match(text(mark)) for mark in annotations(owner)):
        return True
    in_process = imports.any("java.util.concurrent.locks")
    others = [name_of(mark) for mark in annotations(method) if not name_of(mark).endswith("Scheduled")]
    named = (word for body in _bodies(method, owner) for word in words(body))
    spoken = "\n".join([*others, *_types(owner, method), *named])
    return _speaks_of_lock(spoken) or bool(_ANY_LOCK.search(spoken) and not in_process)


def _is_unclear(method: "Node", owner: "Node") -> bool:
    """A switch in the method or in what it calls in its class; a condition on the class."""
    marks = [text(mark) for mark in annotations(owner)]
    if any(_CONDITION.match(mark) and not _ON.search(mark) for mark in marks):
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


def _types(owner: "Node", method: "Node") -> Iterator[str]:
    """The classes of the fields and parameters that a method uses, or those it calls in its class; and what the class
    inherits from."""
    used = {word for body in _bodies(method, owner) for word in words(body)}
    for node in within(owner, "field_declaration", "formal_parameter", "superclass"):
        if node.type == "superclass" or used & {*map(text, within(node, "identifier"))}:
            yield from map(text, within(node, "type_identifier"))


_LINE: Final = re.compile(r"^[ \t]*(?P<key>[\w.-]+)[ \t]*[=:](?P<value>[^\n]*)$", re.MULTILINE)
_FILE: Final = re.compile(r"(?:(?:application|bootstrap)|[\w.-]*quartz)[\w.-]*\.(?:properties|ya?ml)")
_PREFIX: Final = re.compile(r"^(?:spring\.quartz\.properties\.)?org\.quartz\.")
_SPRING_QUARTZ: Final = "spring.quartz."


def _is_settings(path: PurePosixPath) -> bool:
    return bool(_FILE.fullmatch(path.name))


@reader("quartz", _is_settings)
def _read_settings(source: Source) -> Iterator[QuartzSettings]:
    if "quartz" not in source.text:
        return
    said = list(_of_yaml(source.text) if source.suffix in (".yml", ".yaml") else ()) or _of_properties(source.text)
    known = tuple((name, value, line) for key, value, line in said if (name := _name(key)))
    if known:
        yield QuartzSettings(known, source.path)


def _name(key: str) -> str:
    """`jobStore.isClustered`; of Spring Boot's own settings `spring.job-store-type`; "" for anything else."""
    if _PREFIX.match(key):
        return _PREFIX.sub("", key)
    return f"spring.{key.removeprefix(_SPRING_QUARTZ)}" if key.startswith(_SPRING_QUARTZ) else ""


def _of_properties(text: str) -> Iterator[tuple[str, str, int]]:
    for found in _LINE.finditer(text):
        yield found["key"], found["value"].strip(), text.count("\n", 0, found.start("key")) + 1


def _of_yaml(text: str) -> Iterator[tuple[str, str, int]]:
    try:
        for document in documents(text):
            yield from _flat(document, "", set())
    except Unreadable:
        return  # a template: nothing is known of it


def _flat(node: YamlNode, prefix: str, seen: set[int]) -> Iterator[tuple[str, str, int]]:
    """The settings as Spring names them. A part that aliases repeat is looked at once: they may unfold to billions."""
    if id(node) in seen:
        return
    seen.add(id(node))
    for key, value in node.pairs:
        name = f"{prefix}{key.text}"
        if value.kind == "scalar":
            yield name, value.text or "", key.line
        else:
            yield from _flat(value, f"{name}.", seen)
