"""A JavaScript or TypeScript file as a tree, and what its names stand for: imports, instances, constants, functions."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

from cronce_audit.grammars import Language, above, parse, text, within
from cronce_audit.model import Place, Source

if TYPE_CHECKING:
    from tree_sitter import Node

_LANGUAGES: Final[dict[str, Language]] = {
    ".js": "javascript",
    ".mjs": "javascript",
    ".cjs": "javascript",
    ".jsx": "javascript",
    ".ts": "typescript",
    ".mts": "typescript",
    ".cts": "typescript",
    ".tsx": "tsx",
}
_INTEROP: Final = frozenset({
    "__importDefault", "__importStar", "_interopRequireDefault", "_interopRequireWildcard", "__toESM"
})  # fmt: skip
"""What compilers wrap around `require`."""
_THROUGH: Final = frozenset({
    "parenthesized_expression", "await_expression", "non_null_expression", "as_expression", "satisfies_expression"
})  # fmt: skip
FUNCTIONS: Final = (
    "arrow_function", "function_expression", "function_declaration", "method_definition", "generator_function"
)  # fmt: skip
_CLASS_FIELDS: Final = ("public_field_definition", "field_definition")
"""Of a class, in TypeScript and in JavaScript."""
_COLLECTION: Final = re.compile(r"new (?:Weak)?(?:Map|Set)\b|\[\s*\]|\{\s*\}")
MADE: Final = "new"
"""Stands in a path behind the class that something is an instance of."""


@dataclass(frozen=True, slots=True)
class Module:
    """A file of code, and the files of this tree that it imports when it is loaded."""

    path: str
    imports: tuple[str, ...]
    """As written; packages are left out."""
    is_opaque: bool
    """It also loads what is not spelled out: `require(file)`."""
    has_lock: bool
    """It speaks of locks, leaders or claims."""
    surely_locks: bool
    """It does so in words that mean nothing else."""
    waits: bool
    """It waits for something: a lock that others see is asked for at a server."""
    conditional_calls: tuple[str, ...]
    """Functions that it calls under a condition."""
    named: frozenset[str]
    """The last words of the files that it names, wherever it does so; of an index, its folder's."""
    calls: frozenset[str]
    """Functions that it calls or hands on, by names that speak of jobs."""


@dataclass(frozen=True, slots=True)
class Package:
    """A package.json."""

    path: str
    name: str
    scripts: tuple[tuple[str, str, Place], ...]


@dataclass(frozen=True, slots=True)
class Job:
    """A call or decorator that makes this process run something on a schedule."""

    library: str
    what: str
    """What is run, in a word for people: `sendReports`, `the job of 0 3 * * *`."""
    pattern: str | None
    """The cron expression, or the name that Nest has for it, where it is spelled out."""
    place: Place
    is_guarded: bool
    """A lock or a condition was seen around it, or it cannot be seen whether there is one."""
    is_locked: bool
    """It takes a lock that others see."""
    leans_on: tuple[str, ...]
    """Modules, as imported, that its body uses: a lock may be in them."""
    starters: tuple[str, ...]
    """The functions of its file that register it; none where that happens when the file is loaded."""
    every: int | None = None
    """Milliseconds between two runs of a timer, where they are spelled out."""
    has_zone: bool = False
    """A time zone is given with it."""
    overlaps: bool = False
    """Its body waits for something, and nothing is seen that keeps the next run from starting meanwhile."""
    does: str = ""
    """The one call that its body makes, as written, apart from what it logs; "" where there are more."""
    is_reached: bool = True
    """Its own file reaches it when it is loaded; otherwise another file has to call one of the starters."""
    stays_inside: bool = False
    """Its body only logs, and looks after what this process remembers."""


class Volatile(NamedTuple):
    """A call in a function that plans something for later, once or by a name of its own, in the memory of the process:
    `scheduleJob(date, …)`, `schedulerRegistry.addCronJob(…)`."""

    library: str
    place: Place


@dataclass(frozen=True, slots=True)
class Pm2App:
    """An entry of an ecosystem file of pm2."""

    script: str
    instances: str
    """As written: `4`, `max`, `-1`."""
    place: Place


class Origin(NamedTuple):
    """Where a value comes from: the module, and the way from its exports."""

    module: str
    path: tuple[str, ...] = ()

    def at(self, name: str) -> "Origin":
        return self if name == "default" else Origin(self.module, (*self.path, name))


def wants(path: PurePosixPath) -> bool:
    name = path.name
    return path.suffix in _LANGUAGES and not name.endswith((".d.ts", ".d.mts", ".d.cts")) and ".min." not in name


JOB_STEMS: Final = re.compile(r"(?i)cron|job|sched|task|remind|timer|worker")
"""A name with one of these means one function or file: `start` may be that of anything."""


def last_word(path: PurePosixPath) -> str:
    """The name of a file without what stands behind its dot; of an index, its folder's."""
    stem = re.sub(r"\.(?:[cm]?[jt]sx?)$", "", path.name)
    return path.parent.name if stem == "index" else stem


def is_packed(source: Source) -> bool:
    """Made by a bundler or minifier: nobody wrote it, and nobody will read it."""
    return len(source.text) > 200 * (source.text.count("\n") + 5)


class Code:
    """One file."""

    def __init__(self, source: Source, language: Language | None = None) -> None:
        self.source: Final = source
        self.root: Final = parse(language or _LANGUAGES[source.suffix], source.text)
        self.imports: Final = dict(_imports(self.root))
        self._instances: Final[dict[str, Origin]] = {}
        self._constants: Final[dict[str, str]] = {}
        self.functions: Final[dict[str, Node]] = {}
        self.memory: Final[set[str]] = set()
        """Names of collections that this process fills: `new Map()`, `[]`."""
        for node in within(self.root, "variable_declarator", "assignment_expression", *_CLASS_FIELDS):
            self._learn_value(node)
        for node in within(self.root, "required_parameter", "optional_parameter", "public_field_definition"):
            self._learn_type(node)
        for node in within(self.root, "function_declaration", "method_definition", "generator_function_declaration"):
            self.functions.setdefault(text(node.child_by_field_name("name")), node)

    def _learn_value(self, node: "Node") -> None:
        target = next(filter(None, map(node.child_by_field_name, ("name", "left", "property"))), None)
        value = node.child_by_field_name("value") or node.child_by_field_name("right")
        if target is None or value is None:
            return
        name = text(target)
        if node.type in _CLASS_FIELDS:
            name = f"this.{name}"
        if _COLLECTION.match(text(value)):
            self.memory.add(name.removeprefix("this."))
        found = self.origin(value)
        if found and target.type == "object_pattern":
            self.imports.update(_unpacked(target, found))
        elif found and value.type != "new_expression" and target.type == "identifier":
            self.imports.setdefault(name, found)
        elif found:
            self._instances.setdefault(name, found)
        elif value.type in FUNCTIONS:
            self.functions.setdefault(name.removeprefix("this."), value)
        else:
            told = {f"{name}.{key}": each for key, each in entries(value).items()}
            for full, each in {name: value, **told}.items():
                if (literal := self.literal(each)) is not None:
                    self._constants.setdefault(full, literal)

    def _learn_type(self, node: "Node") -> None:
        name = node.child_by_field_name("pattern") or node.child_by_field_name("name")
        annotation = node.child_by_field_name("type")
        if name is None or annotation is None:
            return
        named = next(within(annotation, "type_identifier"), None)
        found = self.imports.get(text(named))
        if found:
            self._instances.setdefault(text(name), found.at(MADE))
            self._instances.setdefault(f"this.{text(name)}", found.at(MADE))

    def origin(self, node: "Node | None") -> Origin | None:
        """The import that an expression comes from, if it does."""
        if node is None:
            return None
        if node.type in _THROUGH:
            return self.origin(node.named_children[0] if node.named_children else None)
        match node.type:
            case "identifier" | "type_identifier":
                return self.imports.get(text(node)) or self._instances.get(text(node))
            case "member_expression":
                return self._member(node)
            case "sequence_expression":
                return self.origin(node.named_children[-1])
            case "new_expression":
                made = self.origin(node.child_by_field_name("constructor"))
                return made and made.at(MADE)
            case "call_expression":
                return self._called(node)
        return None

    def _member(self, node: "Node") -> Origin | None:
        owner, name = node.child_by_field_name("object"), text(node.child_by_field_name("property"))
        if owner is not None and owner.type == "this":
            return self._instances.get(f"this.{name}")
        found = self.origin(owner)
        return found and found.at(name)

    def _called(self, node: "Node") -> Origin | None:
        called = text(node.child_by_field_name("function"))
        first = next(iter(arguments(node)), None)
        if called in ("require", "import"):
            module = string(first)
            return Origin(module) if module else None
        return self.origin(first) if called.rpartition(".")[2] in _INTEROP else None

    def literal(self, node: "Node | None") -> str | None:
        """The text that an expression is, where it is spelled out in this file; of `env.CRON || '0 3 * * *'` the one it
        is by default."""
        if node is not None and node.type in ("identifier", "member_expression"):
            return self._constants.get(text(node)) or self._own(node)
        if node is not None and node.type in _THROUGH and node.named_children:
            return self.literal(node.named_children[0])
        if node is not None and node.type == "binary_expression" and _operator(node) in ("||", "??"):
            return self.literal(node.child_by_field_name("right"))
        return string(node)

    def _own(self, node: "Node") -> str | None:
        """Of `this.schedule` the entry of the object around it; of `Jobs.NIGHTLY` the field of the class."""
        owner, name = node.child_by_field_name("object"), text(node.child_by_field_name("property"))
        if owner is None or owner.type not in ("this", "identifier"):
            return None
        around = [entries(outer) for outer in above(node) if outer.type == "object"] if owner.type == "this" else []
        own = next((each[name] for each in around if name in each), None)
        is_class = any(text(one.child_by_field_name("name")) == text(owner) for one in above(node))
        return string(own) if own is not None else self._constants.get(f"this.{name}") if is_class else None

    def names_from(self, modules: Collection[str]) -> set[str]:
        """The names here that stand for something from these modules, or for an instance of it."""
        known = (*self.imports.items(), *self._instances.items())
        return {name.removeprefix("this.") for name, origin in known if origin.module in modules}

    @cached_property
    def calls(self) -> "Mapping[str, Sequence[Node]]":
        """All calls, by the last name of what is called."""
        found: dict[str, list[Node]] = {}
        for call in within(self.root, "call_expression"):
            found.setdefault(text(call.child_by_field_name("function")).rpartition(".")[2], []).append(call)
        return found

    def modules(self, names: Iterable[str]) -> Iterator[str]:
        """The modules that these names come from, as they are or as properties of `this`."""
        for name in names:
            for found in (self.imports.get(name), self._instances.get(name), self._instances.get(f"this.{name}")):
                if found:
                    yield found.module


def _operator(node: "Node") -> str:
    return text(node.child_by_field_name("operator"))


def _imports(root: "Node") -> Iterator[tuple[str, Origin]]:
    for statement in within(root, "import_statement"):
        module = string(statement.child_by_field_name("source"))
        clause = next((child for child in statement.named_children if child.type == "import_clause"), None)
        required = next((child for child in statement.named_children if child.type == "import_require_clause"), None)
        if required is not None:
            yield (
                text(next(within(required, "identifier"), None)),
                Origin(string(next(within(required, "string"), None)) or ""),
            )
        elif module and clause is not None:
            yield from _clause(clause, Origin(module))


def _clause(clause: "Node", module: Origin) -> Iterator[tuple[str, Origin]]:
    for child in clause.named_children:
        if child.type == "identifier":
            yield text(child), module
        elif child.type == "namespace_import":
            yield text(child.named_children[-1]), module
        else:
            for one in within(child, "import_specifier"):
                name = text(one.child_by_field_name("name"))
                yield text(one.child_by_field_name("alias")) or name, module.at(name)


def _unpacked(pattern: "Node", module: Origin) -> Iterator[tuple[str, Origin]]:
    """`const { schedule, CronJob: Job } = require(…)`."""
    for child in pattern.named_children:
        if child.type == "shorthand_property_identifier_pattern":
            yield text(child), module.at(text(child))
        elif child.type == "pair_pattern":
            yield text(child.child_by_field_name("value")), module.at(text(child.child_by_field_name("key")))


def string(node: "Node | None") -> str | None:
    """A text without anything to be filled in."""
    if node is None or node.type not in ("string", "template_string"):
        return None
    if any(child.type == "template_substitution" for child in node.named_children):
        return None
    return text(node)[1:-1]


def arguments(call: "Node") -> "list[Node]":
    found = call.child_by_field_name("arguments")
    return [child for child in found.named_children if child.type != "comment"] if found is not None else []


def is_plain(node: "Node | None") -> bool:
    """Whether all keys of an object are spelled out here."""
    return node is None or (
        node.type == "object" and not any(child.type == "spread_element" for child in node.named_children)
    )


def entries(node: "Node | None") -> "dict[str, Node]":
    """The keys of an object and their values, as far as they are spelled out."""
    found: dict[str, Node] = {}
    for child in node.named_children if node is not None and node.type == "object" else ():
        key = child.child_by_field_name("key") or child.child_by_field_name("name")
        value = child.child_by_field_name("value")
        if child.type == "shorthand_property_identifier":
            found[text(child)] = child
        elif key is not None:
            found[text(key).strip("'\"")] = child if value is None else value
    return found


_ALIAS: Final = re.compile(
    r"(?:\.{1,2}/|\.{1,2}$|[@~#]/|~|#|src/|@(?:app|src|libs?|api|server|modules|services|jobs)/)"
)


def is_own(module: str) -> bool:
    """Whether it is written like a file of this tree, or by an alias for one, and not like a package."""
    return bool(_ALIAS.match(module))
