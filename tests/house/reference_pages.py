"""The pages of the reference that are made of the code: `python -m tests.house.reference_pages` writes them.

docs/reference/options.md has the options of every verb, errors.md every error, events.md what is logged.
"""

import argparse
import json
import logging
from collections.abc import Callable, Iterator
from inspect import Parameter, Signature, getdoc, signature
from pathlib import Path
from typing import Any, Final

from cronce import Cronce, Run
from cronce.cli import GROUPS, UNDER, VERBS, parser_of
from cronce.errors import CronceError
from cronce.events import What
from cronce.look import Look
from cronce.runtime.effects.steps import Cursor
from cronce.runtime.effects.things import Thing
from cronce.runtime.log import LEVEL_OF_EVENT
from cronce.web.api import openapi

FOLDER: Final = Path(__file__).parents[2] / "docs" / "reference"

# --- the options of the command line --------------------------------------------------------------------------------

OPTIONS_INTRO: Final = """\
# Command-line options of every cronce command

Made of the code: what `cronce COMMAND --help` lists. [Commands](commands.md) says what each command does, its exit
codes, and the keys of its `--json` output.
"""


def options_page() -> str:
    return "\n".join([OPTIONS_INTRO, *_groups()])


def _groups() -> Iterator[str]:
    for group, verbs in GROUPS.items():
        yield f"## {group.capitalize()}\n"
        for verb in verbs:
            yield from _verb(verb, verb)
            for below in UNDER.get(verb, ()):
                yield from _verb(below, f"{verb} {below}")


def _verb(verb: str, spelled: str) -> Iterator[str]:
    yield f"### cronce {spelled}\n\n{VERBS[verb][:1].upper()}{VERBS[verb][1:]}.\n"
    yield from _options(parser_of(verb, spelled))


def _options(parser: argparse.ArgumentParser, head: str = "") -> Iterator[str]:
    actions = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    rows = [_row(action) for action in actions if not isinstance(action, argparse._SubParsersAction)]
    if head:
        yield f"`{head}`: {(parser.description or '').strip()}\n"
    if rows:
        yield "\n".join(["| option | meaning |", "|---|---|", *rows, ""])
    for action in actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from _options(below, f"{parser.prog} {name}")


def _row(action: argparse.Action) -> str:
    name = ", ".join(f"`{option}`" for option in action.option_strings) or f"`{_value(action)}`"
    value = f" `{_value(action)}`" if action.option_strings and action.nargs != 0 else ""
    words = (action.help or "") % {**vars(action), "prog": "cronce"}
    return f"| {_cell(name + value)} | {_cell(words).replace('*', '&#42;').replace('<', '&lt;')} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _value(action: argparse.Action) -> str:
    if action.metavar is not None:
        return action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar)
    return "|".join(map(str, action.choices)) if action.choices is not None else action.dest.upper()


# --- errors ---------------------------------------------------------------------------------------------------------

ERRORS_INTRO: Final = """\
# Errors: every exception cronce raises

Made of the code. Catch `CronceError` to catch everything that cronce raises on purpose. A lost slot is not an error:
the call returns `Skipped`. [What to do about errors of the store](stores.md#errors-and-what-to-do).

| error | is a | when |
|---|---|---|
"""


def errors_page() -> str:
    return ERRORS_INTRO + "".join(f"{row}\n" for row in _errors(CronceError))


def _errors(kind: type[Exception], depth: int = 0) -> Iterator[str]:
    """In the order of the file; errors of other modules (a store's own) come with their parents."""
    bases = ", ".join(f"`{base.__name__}`" for base in kind.__bases__)
    text = " ".join((getdoc(kind) or "").split())
    yield f"| {'· ' * depth}`{kind.__name__}` | {bases} | {text} |"
    for child in kind.__subclasses__():
        if child.__module__ == "cronce.errors":
            yield from _errors(child, depth + 1)


# --- events ---------------------------------------------------------------------------------------------------------

EVENTS_INTRO: Final = """\
# Events: what cronce logs, and at which level

Made of the code. Each event is a line of the logger `cronce`, `record.event` in Python and `"what"` in `--log-json`
([logs](../how-to/logs.md)). Metrics, alerts and the page are made of the same events. A run that failed is logged as an
error, with its traceback; a slot that closes as *lost* or *unknown* as a warning.

| event | in Python | level |
|---|---|---|
"""


def events_page() -> str:
    return EVENTS_INTRO + "".join(
        f"| {what.value} | `What.{what.name}` | {logging.getLevelName(LEVEL_OF_EVENT.get(what, logging.DEBUG))} |\n"
        for what in What
    )


# --- the HTTP API ---------------------------------------------------------------------------------------------------

DESCRIBED: Final[dict[str, Any]] = json.loads(json.dumps(openapi()))
PATHS_INTRO: Final = """\
# HTTP API: every path

Made of the code: what `/api/v1/openapi.json` says. [How to use it](api.md).

| | path below `/api/v1` | what it does | parameters, or keys of the body | keys of the answer |
|---|---|---|---|---|
"""


def paths_page() -> str:
    return PATHS_INTRO + "".join(
        f"| {method.upper()} | `{path}` | {_cell(told['summary'])} | {_given(told)} | {_answered(told)} |\n"
        for path, methods in DESCRIBED["paths"].items()
        for method, told in methods.items()
    )


def _given(told: dict[str, Any]) -> str:
    names = [one["name"] for one in told.get("parameters", []) if one["in"] == "query"]
    return _listed([*names, *_keys(told.get("requestBody", {}))])


def _answered(told: dict[str, Any]) -> str:
    return _listed(_keys(told["responses"].get("200", {})))


def _keys(body: dict[str, Any]) -> list[str]:
    schema = body.get("content", {}).get("application/json", {}).get("schema", {})
    while "$ref" in schema:
        schema = DESCRIBED["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return list(schema.get("properties", {}))


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


# --- Python ---------------------------------------------------------------------------------------------------------

NAMES_INTRO: Final = """\
# Python API: every public method

Made of the code. [How jobs are declared and called](python.md), [schedulers and acts by hand](python-scheduler.md),
[locks, leaders, idempotent functions](python-locks.md).
"""


INTERNAL: Final = {
    "at_work", "close", "doubts", "ends", "exclusive", "forgotten", "grant", "join", "make", "note_function", "over",
    "place", "sent_key", "undone",
}  # fmt: skip
"""For integrations, and for cronce itself."""


def names_page() -> str:
    return NAMES_INTRO + "".join(text for kind in (Cronce, Run, Thing, Cursor, Look) for text in _members(kind))


def _members(kind: type) -> Iterator[str]:
    yield f"\n## {kind.__name__}\n\n{_told(kind)}\n"
    for name, member in vars(kind).items():
        what = getattr(member, "__wrapped__", member)
        if name.startswith("_") or name in INTERNAL or not getdoc(member):
            continue
        if isinstance(member, property):
            yield f"\n### {kind.__name__}.{name}\n\n{_told(member)}\n"
        elif callable(what):
            yield f"\n### {kind.__name__}.{name}\n\n`{name}({_parameters(what)})`\n\n{_told(member)}\n"


def _parameters(function: Callable[..., object]) -> str:
    """Without the types: how those are written depends on the version of Python."""
    plain = [one.replace(annotation=Parameter.empty) for one in signature(function).parameters.values()]
    return str(Signature([one for one in plain if one.name != "self"]))[1:-1]


def _told(what: object) -> str:
    return " ".join((getdoc(what) or "").split()).replace("<", "&lt;").replace("*", "\\*")


PAGES: Final[dict[str, Callable[[], str]]] = {
    "api-paths.md": paths_page,
    "options.md": options_page,
    "errors.md": errors_page,
    "events.md": events_page,
    "python-names.md": names_page,
}

if __name__ == "__main__":
    for name, text in PAGES.items():
        (FOLDER / name).write_text(text(), encoding="utf-8")
