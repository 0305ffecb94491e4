"""Which file loads which: read from the text, for every file of a tree is asked, and most hold nothing else for us."""

import json
import re
from collections.abc import Iterator
from functools import cache, partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from cronce_audit.grammars import column, line, text, within
from cronce_audit.javascript import jobs
from cronce_audit.javascript.code import (
    JOB_STEMS,
    Code,
    Job,
    Module,
    Package,
    Pm2App,
    Volatile,
    entries,
    is_own,
    is_packed,
    last_word,
    wants,
)
from cronce_audit.javascript.guards import speaks_of_lock, surely_locks
from cronce_audit.model import LockCall, Place, Source, Unreadable, reader

if TYPE_CHECKING:
    from tree_sitter import Node

_LOADED: Final = re.compile(
    r"(?:\bfrom\s*|^import\s*|^(?=\S).*?\brequire\s*\(\s*|^(?:const|let|var)\b.*?\bimport\s*\(\s*)['\"]([^'\"\n]+)['\"]",
    re.MULTILINE,
)
"""What is loaded with the file; a `require` that is indented is in a function or under a condition."""
_FILE_NAMED: Final = re.compile(r"['\"`]((?:\.{0,2}/|[@~#]|src/|dist/|build/)?[\w@./-]+)['\"`]")
_JOB_WORD: Final = rf"\w*(?i:{JOB_STEMS.pattern.removeprefix('(?i)')})\w*"
_CALLED: Final = re.compile(
    rf"(?<!function )(?<!\w)(?P<called>{_JOB_WORD})\s*\((?![^()]*\)\s*(?::[^={{;()]*)?\{{)|"
    rf"[(,]\s*(?P<given>{_JOB_WORD})\s*(?=[,)])"
)
"""A call; what is followed by a block is a function's head."""
_COMPUTED: Final = re.compile(r"\b(?:require|import)\s*\(\s*(?!['\"])[\w`$.]")
_STEP: Final = re.compile(
    r"[{}]|\b(?P<name>\w*(?i:cron|job|sched|task)\w*|start|init|setup|run|register|boot|bootstrap|initialize)\s*\("
)
"""What opens or closes a block, and calls of functions whose name says that they start something."""
_ASKED: Final = re.compile(r"\b(?:if\s*\([^;{}]{0,300}\)|else)\s*(?:await\s+|return\s+)?(?:[\w$.()'\"/]+\.)?$")
_MODE: Final = re.compile(r"NODE_ENV|['\"](?:test|production|prod|development|dev)['\"]|\bis(?:Prod|Dev|Test)\w*\b")
"""It asks whether this is a test, or production: that is the same in all processes."""
_ASKS_OTHERS: Final = re.compile(r"\bawait\b|\.then\(|\bPromise\b|\bcallback\b|\bfs\.|Sync\(")


@reader("javascript", wants)
def _read_module(source: Source) -> Iterator[Module]:
    if is_packed(source):
        return
    plain = source.bare
    loaded = _LOADED.findall(plain)
    speaks = JOB_STEMS.search(plain)
    yield Module(
        source.path,
        tuple(sorted({name for name in loaded if is_own(name)})),
        bool(_COMPUTED.search(plain)),
        speaks_of_lock(plain),
        surely_locks(plain),
        bool(_ASKS_OTHERS.search(plain)),
        tuple(sorted(_conditional_calls(plain))),
        frozenset(filter(None, map(_last_word, _FILE_NAMED.findall(plain)))),
        frozenset(found["called"] or found["given"] for found in _CALLED.finditer(plain if speaks else "")),
    )


def _last_word(name: str) -> str:
    """Of a path, as it is written in the code; "" where it is none."""
    parts = [part for part in name.split("/") if part.strip(".")]
    return last_word(PurePosixPath(*parts)) if "/" in name and parts else ""


def _conditional_calls(plain: str) -> set[str]:
    """Functions that are called in a block, or a statement, behind a condition."""
    is_asked = cache(partial(_is_asked, plain))
    found: set[str] = set()
    blocks: list[int] = []
    for step in _STEP.finditer(plain) if "if" in plain else ():
        if step[0] == "{":
            blocks.append(step.start())
        elif step[0] == "}":
            blocks = blocks[:-1]
        elif any(map(is_asked, (*blocks, step.start()))):
            found.add(step["name"])
    return found


def _is_asked(plain: str, end: int) -> bool:
    """Whether a condition stands right before it."""
    asked = _ASKED.search(plain[max(end - 300, 0) : end])
    return asked is not None and not _MODE.search(asked[0])


@reader("package.json", lambda path: path.name == "package.json")
def _read_package(source: Source) -> Iterator[Package]:
    try:
        told = json.loads(source.text)
    except ValueError as error:
        raise Unreadable(getattr(error, "lineno", 1), "it is not JSON") from None
    if isinstance(told, dict):
        yield Package(
            source.path,
            str(told.get("name", "")),
            tuple((name, told, _place(source, name)) for name, told in _texts(told.get("scripts"))),
        )


def _texts(told: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(told, dict):
        return ()
    return tuple((name, value) for name, value in told.items() if isinstance(value, str))


def _place(source: Source, script: str) -> Place:
    """Of a script in package.json: the first line behind "scripts" that has its name."""
    behind = max(source.text.find('"scripts"'), 0)
    found = source.text.find(f'"{script}"', behind + len('"scripts"'))
    return source.at(max(found, 0))


def is_ecosystem(path: PurePosixPath) -> bool:
    """`ecosystem.config.js`, `pm2.config.cjs`, `ecosystem.production.js`, `pm2.json`."""
    return path.name.partition(".")[0].lower() in ("ecosystem", "pm2", "process") or path.name.endswith(".pm2.js")


def apps(code: Code) -> Iterator[Pm2App]:
    for node in within(code.root, "pair", "variable_declarator"):
        value = node.child_by_field_name("value")
        name = node.child_by_field_name("key") or node.child_by_field_name("name")
        if text(name).strip("'\"") == "apps" and value is not None:
            for app in value.named_children if value.type == "array" else [value]:
                yield from _app(code, app)


def _app(code: Code, app: "Node") -> Iterator[Pm2App]:
    told = entries(app)
    script = code.literal(told.get("script"))
    instances = told.get("instances")
    if script and instances is not None:
        number = code.literal(instances) or text(instances)
        yield Pm2App(script, number, code.source.place(line(instances), column(instances)))
    elif script:
        yield Pm2App(script, "", code.source.place(line(app), column(app)))


def _is_json(path: PurePosixPath) -> bool:
    return path.suffix == ".json" and is_ecosystem(path)


@reader("pm2", _is_json)
def _read_json(source: Source) -> Iterator[Pm2App]:
    """JSON is an expression of JavaScript."""
    if '"apps"' in source.text:
        yield from apps(Code(source._replace(text=f"({source.text})"), "javascript"))


@reader("javascript", wants)
def _read(source: Source) -> Iterator[Job | LockCall | Pm2App | Volatile]:
    has_jobs = jobs.MENTIONS.search(source.text)
    of_pm2 = is_ecosystem(PurePosixPath(source.path))
    if is_packed(source) or not (has_jobs or of_pm2):
        return
    code = Code(source)
    if has_jobs:
        yield from jobs.jobs(code)
    if of_pm2:
        yield from apps(code)
