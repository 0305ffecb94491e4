"""What keeps a job from running in each process: a lock in its body, or a condition around its registration.

Whatever is called a lock may be one, unless it comes from a package whose locks end at the process; and whatever
condition stands around a registration may be true in one process only, unless it asks for nothing but the environment's
name. Neither is a finding nor fine, but for what is surely a lock: it is told as what cannot be judged.
"""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from cronce_audit.grammars import above, text, within, words
from cronce_audit.javascript.code import FUNCTIONS, Code, is_own

if TYPE_CHECKING:
    from tree_sitter import Node

_LOCKS: Final = (
    "lock", "mutex", "semaphore", "leader", "isprimary", "ismaster", "setnx", "'nx'", '"nx"',
    "nx:", "\nnx\n", "findoneandupdate", "findandmodify", "on conflict", "onconflict", "idempoten", "dedup", "jobid",
    "tryclaim", "claimjob", "claimslot", "node_app_instance", "pm_id", "distributed", "singleton", "cronce"
)  # fmt: skip
"""Names and texts, in small letters, that speak of a lock, a leader, a claim, or a key that is set once."""
_SURE: Final = re.compile(
    r"redlock|setnx|['\"\n]nx['\"\n]|\bnx:|advisory_?(?:xact_?)?lock|"
    r"skip[ _]?locked|\bfor update\b|\block\nupdate\b|"
    r"isprimary|ismaster|node_app_instance|pm_id|tryclaim|claim_?(?:job|slot|run)|job_?(?:runs?|slots?)\b|cronce"
)
"""Those that mean it: a document that `isLocked`, one that is found and updated, or a row that may be there already
(`onConflict`), does not, nor does a word that only its author knows (`withLock`, `isLeader`)."""
_IN_PROCESS: Final = frozenset({"async-lock", "async-mutex", "await-lock", "await-semaphore", "p-limit", "semaphore"})
_ENVIRONMENT: Final = re.compile(r"NODE_ENV|isProd|isDev|isTest|production|development|['\"]test|require")
_VARIABLE: Final = re.compile(r"process\.env(?:\.|\[['\"])(\w+)")
_SWITCH: Final = re.compile(r"(?i)cron|schedul|enable|job")
_SWITCHED: Final = re.compile(r"[eE]nabled|ENABLED|[dD]isabled|DISABLED")


def speaks_of_lock(code: str) -> bool:
    """A block and a clock are no locks."""
    plain = code.lower().replace("block", "").replace("clock", "")
    return any(word in plain for word in _LOCKS)


def surely_locks(code: str) -> bool:
    return bool(_SURE.search(code.lower()))


def takes_lock(code: Code, nodes: "list[Node]", asked: "Iterable[Node]") -> bool:
    """Whether there is a lock in there, by what it is or by the package it comes from; or what is asked before it holds
    in one process of a machine. A word is none: `withLock` of the tree is looked at in its own file."""
    named = [word for node in nodes for word in words(node)]
    conditions = (text(outer.child_by_field_name("condition")) for one in asked for outer in above(one))
    packages = {one for one in code.modules(named) if not is_own(one)} - _IN_PROCESS
    return (
        any("lock" in one.replace("block", "").replace("clock", "") for one in packages)
        or any(node.type == "decorator" and _DECORATOR.search(text(node)) for node in nodes)
        or surely_locks("\n".join(["", *named, *conditions, ""]))
    )


_DECORATOR: Final = re.compile(r"^@\w*(?<![BCbc])Lock\b")
"""`@BatchLock({ name })` on the method."""


def may_be_locked(code: Code, nodes: "list[Node]") -> bool:
    """Whether something in there speaks of a lock, but for one that ends at the process."""
    only_here = code.names_from(_IN_PROCESS)
    named = [word for node in nodes for word in words(node) if word not in only_here]
    return speaks_of_lock("\n".join(["", *named, *code.modules(named), ""]))


def asks_environment(nodes: "list[Node]") -> bool:
    """Whether something in there asks the environment before it works."""
    asked = (
        text(condition.child_by_field_name("condition")) for node in nodes for condition in within(node, "if_statement")
    )
    return any(
        ("process.env" in one and not _is_about_environment(one)) or bool(_SWITCHED.search(one)) for one in asked
    )


def is_conditional(node: "Node") -> bool:
    """Whether it is reached under a condition that may hold in one process and not in another."""
    inner = node
    for outer in above(node):
        if outer.type in ("if_statement", "ternary_expression"):
            if not _is_about_environment(text(outer.child_by_field_name("condition"))):
                return True
        elif outer.type == "binary_expression" and text(outer.child_by_field_name("operator")) in ("&&", "||"):
            if not _is_about_environment(text(outer.child_by_field_name("left"))):
                return True
        elif outer.type == "switch_case" or (outer.type == "statement_block" and _left_early(outer, inner)):
            return True
        inner = outer
    return False


def _left_early(block: "Node", inner: "Node") -> bool:
    """`if (!enabled) return;` before it in the same block."""
    for sibling in block.named_children:
        if sibling.start_byte >= inner.start_byte:
            return False
        leaves = sibling.type == "if_statement" and any(True for _ in within(sibling, "return_statement"))
        if leaves and not _is_about_environment(text(sibling.child_by_field_name("condition"))):
            return True
    return False


def _is_about_environment(asked: str) -> bool:
    """It asks for nothing but whether this is production, or a program of its own."""
    others = set(_VARIABLE.findall(asked)) - {"NODE_ENV"}
    return bool(_ENVIRONMENT.search(asked)) and not others and not _SWITCH.search(asked) and not speaks_of_lock(asked)


def _holds(outer: "Node", inner: "Node") -> bool:
    return outer.start_byte <= inner.start_byte and inner.end_byte <= outer.end_byte


def closure(code: Code, node: "Node") -> "list[Node]":
    """The node, and the functions of this file that it names, and those that they name."""
    found = [node]
    named: set[str] = set()
    for one in found:
        for word in words(one):
            if word in code.functions and word not in named:
                named.add(word)
                if not _holds(code.functions[word], node):
                    found.append(code.functions[word])
    return found


def enclosing(node: "Node") -> "Node | None":
    """The function around it."""
    return next((outer for outer in above(node) if outer.type in FUNCTIONS), None)


def name_of(function: "Node | None") -> str:
    """`start`, for a function or method, and for one that is assigned: `exports.start = function () {…}`."""
    if function is None:
        return ""
    named = function.child_by_field_name("name")
    outer = function.parent
    if named is None and outer is not None and outer.type in ("variable_declarator", "assignment_expression"):
        named = outer.child_by_field_name("name") or outer.child_by_field_name("left")
    return text(named).rpartition(".")[2]


def starters(code: Code, node: "Node") -> Iterator[str]:
    """The functions of this file that reach it: the one it stands in, those that call that one, and so on."""
    waiting = [name_of(enclosing(node))]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if not name or name in found:
            continue
        found.add(name)
        yield name
        waiting += [name_of(enclosing(call)) for call in code.calls.get(name, ())]
