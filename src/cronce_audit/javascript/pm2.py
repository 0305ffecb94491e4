"""Ecosystem files of pm2, in JavaScript or JSON: which script, in how many processes."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from cronce_audit.grammars import column, line, text, within
from cronce_audit.javascript.code import Code, entries
from cronce_audit.javascript.facts import Pm2App
from cronce_audit.model import Reader, Source

if TYPE_CHECKING:
    from tree_sitter import Node


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


def _read_json(source: Source) -> Iterator[Pm2App]:
    """JSON is an expression of JavaScript."""
    if '"apps"' in source.text:
        yield from apps(Code(source._replace(text=f"({source.text})"), "javascript"))


def _is_json(path: PurePosixPath) -> bool:
    return path.suffix == ".json" and is_ecosystem(path)


READER: Final = Reader("pm2", _is_json, _read_json)
