"""Jobs that a process of Node runs on a cron schedule: node-cron, node-schedule, cron, croner, Nest's `@Cron`; and by
a timer of `setInterval`, where its names say that it is a job.

A call counts only where its receiver comes from one of these packages: `cron.schedule(` in a text for PostgreSQL, or
`.schedule(` of anything else, is none. What Bull and Agenda keep in Redis or MongoDB is no job either: all share it.
"""

import re
from collections.abc import Callable, Iterator
from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

from cronce_audit.grammars import above, column, line, text, within, words
from cronce_audit.javascript.code import (
    FUNCTIONS,
    MADE,
    Code,
    Job,
    Origin,
    Volatile,
    arguments,
    entries,
    is_own,
    is_plain,
)
from cronce_audit.javascript.guards import (
    asks_environment,
    closure,
    enclosing,
    is_conditional,
    may_be_locked,
    name_of,
    starters,
    takes_lock,
)
from cronce_audit.model import Place, Source

if TYPE_CHECKING:
    from tree_sitter import Node

MENTIONS: Final = re.compile(r"['\"](?:node-cron|node-schedule|cron|croner|@nestjs/schedule)['\"]|\bsetInterval\(")
TIMER: Final = "setInterval"
_TIMED: Final = re.compile(
    r"(?i)cron|sched|jobs?\b|remind|sweep|digest|recurr|overdue|invoice|newsletter|backup|cycle\b|sync|"
    r"scrap|crawl|notif|send\w+|payout|subscription|process(?:pending|due|queue|all)|report|weekly|daily|"
    r"nightly|poll\w+"
)
_OF_PROCESS: Final = re.compile(
    r"(?i)heartbeat|keep_?alive|rate_?limit|cache|buffer|flush|metric|socket|\bmap\b|memory|lock"
)
"""What each process does for itself."""
_BROWSER: Final = re.compile(r"\b(?:document|window|localStorage)\.|\buse(?:Effect|State)\(")
_SHORT: Final = 30_000
"""Milliseconds. What comes more often polls, or keeps something alive; such a timer belongs to its process."""


class Draft(NamedTuple):
    """What a library is told."""

    when: "Node | None"
    body: "Node | None"
    options: "Node | None" = None
    is_started: bool = True
    every: "Node | None" = None


def jobs(code: Code) -> Iterator[Job | Volatile]:
    for call in within(code.root, "call_expression", "new_expression"):
        origin = code.origin(call.child_by_field_name("function") or call.child_by_field_name("constructor"))
        if origin and _is_volatile(code, call, origin):
            yield Volatile(origin.module, _place(code.source, call))
        draft = _draft(code, call, origin) if origin else None
        if origin and draft and draft.body is not None:
            library = TIMER if origin == _INTERVAL else origin.module
            yield from _job(code, call, draft, draft.body, library)
    if TIMER in code.source.text and not _BROWSER.search(code.source.text):
        for call in code.calls.get(TIMER, ()):
            told = arguments(call)
            if len(told) == 2 and _is_job(code, call, told) and _reaches_out(code, told[0]):
                yield from _job(code, call, Draft(None, told[0], every=told[1]), told[0], TIMER)


_ONCE: Final = Origin("node-schedule", ("scheduleJob",))
_REGISTRY: Final = frozenset(
    Origin("@nestjs/schedule", ("SchedulerRegistry", MADE, name))
    for name in ("addCronJob", "addTimeout", "addInterval")
)
_PATTERN_NAMES: Final = re.compile(r"(?i)cron|rule|every|interval|sched|expr|pattern|minut|hour|daily|weekly")
_DATE: Final = re.compile(r"(?i)date|time\b|when|\bat\b|moment")


def _is_volatile(code: Code, call: "Node", origin: Origin) -> bool:
    """In a function that is given something to plan; not when the file is loaded."""
    given = _is_given(call)
    if origin in _REGISTRY:
        return given
    if origin in _BY_PATTERN:
        return _is_asked_for(code, call)
    told = [one for one in arguments(call) if one.type not in FUNCTIONS]
    once = origin == _ONCE and _node_schedule(code, arguments(call)) is None
    return once and given and any(_DATE.search(text(one)) for one in told)


_BY_PATTERN: Final = frozenset({Origin("node-cron", ("schedule",)), Origin("cron", ("CronJob",))})


def _is_asked_for(code: Code, call: "Node") -> bool:
    """The pattern is a parameter of a function that other files call, and this one never."""
    function, told = enclosing(call), arguments(call)
    name = name_of(function)
    given = function.child_by_field_name("parameters") if function is not None else None
    if given is None or not told or not name or code.calls.get(name) or not _is_planning(name):
        return False
    return told[0].type == "identifier" and text(told[0]) in set(words(given))


def _is_planning(name: str) -> bool:
    """`scheduleJob`, `addReminder`: one plan for each call."""
    return bool(re.match(r"(?i)(?:schedule|add|create|plan|register|new)\w+", name))


def _is_given(node: "Node") -> bool:
    """Whether a function around it is given something."""
    return any(
        text(outer.child_by_field_name("parameters") or outer.child_by_field_name("parameter")).strip("()")
        for outer in above(node)
        if outer.type in FUNCTIONS and text(outer.child_by_field_name("name")) != "constructor"
    )


def _is_job(code: Code, call: "Node", told: "list[Node]") -> bool:
    """By its names: those of the file, of what it runs and of what starts it."""
    span = _milliseconds(text(told[1]))
    named = "/".join([*code.source.path.split("/")[-2:], *starters(code, call)])
    around = "/".join([named, *words(told[0])])
    waits = any(True for _ in within(told[0], "await_expression"))
    own = _OF_PROCESS.search(named if waits else around)
    return (span is None or span >= _SHORT) and bool(_TIMED.search(around)) and own is None


def _reaches_out(code: Code, body: "Node") -> bool:
    """It waits for something, or uses another file: what does neither cleans up after its own process."""
    bodies = [body, *(code.functions[word] for word in words(body) if word in code.functions)]
    named = {word for one in bodies for word in words(one) if "log" not in word.lower()}
    waits = any(True for one in bodies for _ in within(one, "await_expression")) or "then" in named
    return waits or any(True for _ in code.modules(named)) or len(bodies) == 1


def _milliseconds(told: str) -> int | None:
    """`30 * 60 * 1000`; None where it is not spelled out."""
    factors = [factor.strip().replace("_", "") for factor in told.strip("()").split("*")]
    return prod(map(int, factors)) if all(map(str.isdigit, factors)) else None


def _draft(code: Code, call: "Node", origin: Origin) -> Draft | None:
    if call.parent is not None and call.parent.type == "decorator":
        return _decorated(call) if origin == _DECORATOR or (origin == _INTERVAL and _is_long(call)) else None
    told = _CALLS.get(origin)
    return told(code, arguments(call)) if told else None


def _node_cron(_: Code, told: "list[Node]") -> Draft | None:
    options = told[2] if len(told) > 2 else None
    scheduled = text(entries(options).get("scheduled"))
    return Draft(told[0], told[1], options, is_started=scheduled != "false") if len(told) > 1 else None


def _node_schedule(code: Code, told: "list[Node]") -> Draft | None:
    """`scheduleJob([name], when, body)`; a when that may be a date fires once, and is none of ours."""
    told = told[1:] if len(told) > 2 and told[1].type not in FUNCTIONS else told
    if len(told) < 2:
        return None
    when = told[0]
    spelled = code.literal(entries(when).get("rule", when))
    is_cron = len((spelled or "").split()) in (5, 6) or text(when).startswith("CronExpression.")
    is_set_up = spelled is None and bool(_PATTERN_NAMES.search(text(when))) and not _is_given(when)
    options = when if when.type == "object" else None
    return Draft(when, told[1], options) if is_cron or is_set_up or _is_rule(code, when) else None


def _is_rule(code: Code, when: "Node | None") -> bool:
    """A RecurrenceRule of node-schedule, or the object that becomes one."""
    return when is not None and (
        code.origin(when) == _RULE or ("hour" in entries(when) and "rule" not in entries(when))
    )


def _cron_job(_: Code, told: "list[Node]") -> Draft | None:
    """`new CronJob(when, body, done, start, zone)`, or the same by name in an object."""
    if told and told[0].type == "object":
        named = entries(told[0])
        return Draft(named.get("cronTime"), named.get("onTick"), told[0], is_started=text(named.get("start")) == "true")
    if len(told) < 2 or told[0].type == "new_expression":
        return None
    return Draft(told[0], told[1], is_started=len(told) > 3 and text(told[3]) == "true")


def _croner(_: Code, told: "list[Node]") -> Draft | None:
    bodies = [node for node in told[1:] if node.type != "object"]
    options = [node for node in told[1:] if node.type == "object"]
    if not bodies or told[0].type == "new_expression":
        return None
    paused = text(entries(next(iter(options), None)).get("paused")) == "true"
    return Draft(told[0], bodies[0], next(iter(options), None), is_started=not paused)


_RULE: Final = Origin("node-schedule", ("RecurrenceRule", MADE))
_CALLS: Final[dict[Origin, Callable[[Code, "list[Node]"], Draft | None]]] = {
    Origin("node-cron", ("schedule",)): _node_cron,
    Origin("node-schedule", ("scheduleJob",)): _node_schedule,
    Origin("cron", ("CronJob",)): _cron_job,
    Origin("cron", ("CronJob", "from")): _cron_job,
    Origin("croner"): _croner,
    Origin("croner", ("Cron",)): _croner,
}
_DECORATOR: Final = Origin("@nestjs/schedule", ("Cron",))
_INTERVAL: Final = Origin("@nestjs/schedule", ("Interval",))


def _is_long(call: "Node") -> bool:
    """`@Interval([name], milliseconds)`."""
    span = _milliseconds(text(next(reversed(arguments(call)), None)))
    return span is not None and span >= _SHORT


def _decorated(call: "Node") -> Draft:
    """Its body is the class member that the decorator stands on."""
    told = arguments(call)
    member = next(
        (node for node in _after(call.parent) if node.type in ("method_definition", "public_field_definition")), None
    )
    return Draft(next(iter(told), None), member, told[1] if len(told) > 1 else None)


def _after(node: "Node | None") -> "Iterator[Node]":
    while node is not None:
        node = node.next_named_sibling
        if node is not None:
            yield node


def _job(code: Code, call: "Node", draft: Draft, body: "Node", library: str) -> Iterator[Job]:
    starts = [call] if draft.is_started else _starts(code, call)
    if not starts:
        return
    bodies = [part for one in closure(code, body) for part in (one, *_around(one))]
    uses = sorted({module for one in bodies for module in code.modules(words(one)) if is_own(module)})
    yield Job(
        library,
        _what(code, draft, library),
        None if draft.when is None else _pattern(code, draft.when),
        _place(code.source, call),
        _is_guarded(code, draft, bodies, starts) or not _is_seen(body, bodies, uses),
        "distributed" in entries(draft.options) or takes_lock(code, bodies, [*starts, *_callers(code, starts)]),
        tuple(uses),
        tuple(dict.fromkeys(name for start in starts for name in starters(code, start))),
        None if draft.every is None else _milliseconds(text(draft.every)),
        _has_zone(call, draft),
        _overlaps(bodies, draft),
        _does(body),
        any(_is_reached(code, start) for start in starts),
        any(one.type in FUNCTIONS for one in bodies) and _stays_inside(code, bodies),
    )


def _calls_in(bodies: "list[Node]") -> "Iterator[Node]":
    """The calls that are made there, but not those inside of what is logged."""
    for one in bodies:
        for call in within(one, "call_expression", "new_expression") if one.type in FUNCTIONS else ():
            if not any(_LOGS.match(text(outer)) for outer in above(call) if outer.type == "call_expression"):
                yield call


def _stays_inside(code: Code, bodies: "list[Node]") -> bool:
    """It only logs; or looks after collections of this file, by what this file or the language has."""
    called = [
        re.sub(r"^this\.", "", text(call.child_by_field_name("function") or call.child_by_field_name("constructor")))
        for call in _calls_in(bodies)
    ]
    roots = {re.split(r"[.?(]", one)[0] for one in called if not _LOGS.match(one)}
    return not roots - _BUILT_IN or (
        not roots.isdisjoint(code.memory) and roots <= _BUILT_IN | code.memory | {*code.functions}
    )


_BUILT_IN: Final = frozenset({"Date", "Math", "Object", "Array", "JSON", "Number", "String", "Map", "Set"})


def _is_reached(code: Code, start: "Node") -> bool:
    """Whether it is run when its file is loaded: outside of functions, or in one that is called there; what stands in a
    class or a function without a name is taken for it."""
    if any(outer.type in ("class_body", "object") for outer in above(start)):
        return True
    around = [enclosing(start), *(enclosing(one) for one in _callers(code, [start]))]
    return any(not name_of(function) for function in around)


_ZONES: Final = re.compile(r"(?i)\btime_?zone\b|\btz\b|\butcOffset\b")
_WAITS: Final = frozenset({"noOverlap", "waitForCompletion", "protect", "preventOverrun"})
_AT_WORK: Final = re.compile(
    r"(?i)_?(?:(?:is|already|currently|still)\w*)?(?:running|processing|busy|executing|locked)|\w*(?:running|in_?progress|in_?flight)"
)
_NAME_NODES: Final = (
    "identifier",
    "property_identifier",
    "private_property_identifier",
    "shorthand_property_identifier",
)


def _has_zone(call: "Node", draft: Draft) -> bool:
    """By name, or as the fifth argument of `new CronJob`; what is not spelled out may hold one."""
    told = [one for one in arguments(call) if one != draft.body]
    opaque = any(one.type in ("identifier", "member_expression", "spread_element") for one in told[1:])
    return opaque or any(_ZONES.search(text(one)) for one in told) or len(told) > 3


def _overlaps(bodies: "list[Node]", draft: Draft) -> bool:
    """A flag counts where a run sets it: one that says whether the timer is on does not."""
    waits = any(
        call.type == "await_expression" or text(call.child_by_field_name("function")).endswith((".catch", ".then"))
        for one in bodies
        for call in within(one, "await_expression", "call_expression")
    )
    flagged = any(
        _AT_WORK.fullmatch(text(name))
        for one in bodies
        for step in within(one, "assignment_expression", "call_expression")
        if (target := step.child_by_field_name("left") or step.child_by_field_name("function")) is not None
        for name in within(target, *_NAME_NODES)
    )
    return waits and not flagged and is_plain(draft.options) and not _WAITS & set(entries(draft.options))


def _does(body: "Node") -> str:
    if body.type in ("identifier", "member_expression"):
        return text(body)
    calls = {text(call) for call in within(body, "call_expression") if not _LOGS.match(text(call))}
    said = next(iter(calls)) if len(calls) == 1 else ""
    return re.sub(r"\s+|\(\)$", "", said) if not said.startswith("this.") else ""


_LOGS: Final = re.compile(r"(?i)(?:this\.)?(?:console|_?logg?(?:er)?|winston|pino)\b")


def _is_guarded(code: Code, draft: Draft, bodies: "list[Node]", starts: "list[Node]") -> bool:
    options = entries(draft.options)
    switched = {"disabled", "distributed", "runCoordinator"} & set(options)
    if switched or not is_plain(draft.options) or may_be_locked(code, bodies) or asks_environment(bodies):
        return True
    return any(is_conditional(start) or _is_started_under_condition(code, start) for start in starts)


def _callers(code: Code, starts: "list[Node]") -> "Iterator[Node]":
    """The calls in this file that lead there."""
    for start in starts:
        for name in starters(code, start):
            yield from code.calls.get(name, ())


def _is_started_under_condition(code: Code, start: "Node") -> bool:
    """A function that leads to it is called in this file, and never without a condition."""
    calls = [code.calls.get(name, ()) for name in starters(code, start)]
    return any(found and all(map(is_conditional, found)) for found in calls)


def _is_seen(body: "Node", bodies: "list[Node]", uses: "list[str]") -> bool:
    """Whether we look into what is run: not where it is a parameter, or comes from who knows where."""
    given = {
        word
        for outer in above(body)
        if outer.type in FUNCTIONS
        for field in ("parameters", "parameter")
        if (parameters := outer.child_by_field_name(field)) is not None
        for word in words(parameters)
    }
    if body.type not in FUNCTIONS:
        return (len(bodies) > 1 or bool(uses)) and not given & set(words(body))
    return not any(text(call.child_by_field_name("function")) in given for call in within(body, "call_expression"))


def _around(body: "Node") -> "Iterator[Node]":
    """Decorators of a method, and what its class inherits from."""
    if body.parent is not None and body.parent.type == "class_body":
        before = body.prev_named_sibling
        while before is not None and before.type == "decorator":
            yield before
            before = before.prev_named_sibling
    for outer in above(body):
        if outer.type in ("class_declaration", "class"):
            yield from (child for child in outer.named_children if child.type in ("class_heritage", "decorator"))


def _starts(code: Code, call: "Node") -> "list[Node]":
    """`job.start()`, for a job that does not start by itself."""
    parent = call.parent
    if parent is not None and parent.type == "member_expression" and text(parent).endswith(".start"):
        return [parent]
    names = [
        text(outer.child_by_field_name("name") or outer.child_by_field_name("left"))
        for outer in above(call)
        if outer.type in ("variable_declarator", "assignment_expression")
    ]
    wanted = {f"{name}.start" for name in names[:1]}
    found = [one for one in code.calls.get("start", ()) if text(one.child_by_field_name("function")) in wanted]
    return found or [call for name in names[:1] if _is_exported(code, call, name)]


def _is_exported(code: Code, call: "Node", name: str) -> bool:
    """Another file has it, and starts it."""
    if any(outer.type == "export_statement" for outer in above(call)):
        return True
    given = re.compile(
        rf"(?:(?:module\.)?exports\s*=|export(?:\s+default)?)\s*(?:{re.escape(name)}\b|{{[^}}]*\b{re.escape(name)}\b)"
    )
    return bool(given.search(code.source.text))


def _pattern(code: Code, when: "Node") -> str | None:
    """Of Nest's CronExpression, the name."""
    if text(when).startswith("CronExpression."):
        return text(when).rpartition(".")[2]
    return None if _is_rule(code, when) else code.literal(entries(when).get("rule", when))


def _what(code: Code, draft: Draft, library: str) -> str:
    """The name of what is run; of a function without one, when it is run."""
    body = draft.body
    if body is not None and body.type == "method_definition":
        return f"`{text(body.child_by_field_name('name'))}`"
    if body is not None and body.type in ("identifier", "member_expression"):
        return f"`{text(body)}`"
    pattern = _pattern(code, draft.when) if draft.when is not None else None
    return f"the job `{pattern}`" if pattern else f"this job of {library}"


def _place(source: Source, node: "Node") -> Place:
    return source.place(line(node), column(node))
