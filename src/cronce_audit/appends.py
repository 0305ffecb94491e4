"""Shell text that adds a line to a crontab without checking whether it is already there.

    (crontab -l; echo "* * * * * /app/sync") | crontab -
    echo "* * * * * root /app/sync" >> /etc/crontab
    crontab -l > tab; echo "* * * * * /app/sync" >> tab; crontab tab

Each run adds one more. Not reported: text that checks first (`grep -q … ||`), filters (`grep -v … | crontab -`,
`sort -u`) or writes a new file before; and text under any condition that mentions cron, as we do not follow conditions.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

from cronce.errors import BadInput
from cronce.integrations.crontab import entries
from cronce_audit.containers.facts import Image
from cronce_audit.grammars import above, line, text, tree, within
from cronce_audit.model import (
    CommandLine,
    Confidence,
    Facts,
    Found,
    Installed,
    Place,
    Severity,
    Source,
    Unreadable,
    reader,
    rule,
)
from cronce_audit.scripts import MAY_START, Simple, simple_commands, starts, word

if TYPE_CHECKING:
    from tree_sitter import Node

_TABLE: Final = re.compile(r"/etc/crontab|/etc/cron\.d/\S+|/var/spool/cron/\S+|/etc/crontabs/\S+|/var/cron/tabs/\S+")
_FILTERS: Final = frozenset({
    "grep", "egrep", "fgrep", "rg", "sed", "gsed", "awk", "gawk", "perl", "python", "python3", "sort", "uniq", "head",
    "tail", "tac", "diff", "cmp", "comm", "ruby", "php", "tr"
})  # fmt: skip
_WRITERS: Final = frozenset({"cp", "mv", "rm", "install", "ln", "truncate", "unlink", "rsync", "curl", "wget"})
_SAYS: Final = frozenset({"echo", "printf", "cat"})
_CHECKS: Final = re.compile(rb"crontab|cron\.d|grep|exist|install|already|first|done|marker|\s-[defrsw]\s|=~|\bwc\b")
_VARIABLE_TEST: Final = re.compile(rb"""\[\[?\s*(?:!\s*)?(?:-[nz]\s+)?["']?\$\{?\w+[^]]*\]\]?""")
"""A test of a variable, which is no check of the crontab: `[ -n "$CRON" ]`, `[ "$CRON" = yes ]`."""
_LOOKS: Final = re.compile(rb"grep|diff|cmp|comm|\[|\btest\b|=~|\|\|")
"""Before `&&` and `||`: there also stands what only has to go well."""


_IS_WELL: Final = re.compile(rb"\b(exit|return)(\s+0)?\s*(;|\}|\n|$)")
_CONDITIONS: Final = ("if_statement", "elif_clause", "while_statement", "case_statement")
_STATEMENTS: Final = (
    "pipeline", "redirected_statement", "list", "negated_command", "subshell", "command_substitution"
)  # fmt: skip


class Append(NamedTuple):
    """A line that each run adds."""

    place: Place
    to: str
    """The file; "" means the user's crontab."""
    literal: bool
    """The added text is written out, and is a valid line of a crontab."""
    is_locked: bool = False
    """Of two copies of it one leaves at once."""


def appends(source: Source, root: "Node") -> Iterator[Append | Installed]:
    commands = list(simple_commands(root))
    for command in commands:
        if command.name == "crontab" and not command.bare[-1].startswith("-") and len(command.bare) > 1:
            yield Installed(PurePosixPath(command.bare[-1]).name)
    for to, node in (*_by_pipeline(commands), *_by_redirection(root, commands)):
        if any(parent.type == "ERROR" for parent in above(node)):
            raise Unreadable(line(node), "cronce did not understand the lines around this")
        added = _added(node)
        if added != "" and not _is_asked(node) and not _is_new(to, node, commands):
            yield Append(source.place(line(node)), to, added is not None and _is_entry(added), "flock" in (added or ""))


# --- ways to add a line -----------------------------------------------------------------------------------------------


def _by_pipeline(commands: Sequence[Simple]) -> Iterator[tuple[str, "Node"]]:
    """`(crontab -l; echo …) | crontab -`, and the same by `<(…)` or a here-document."""
    for command in commands:
        if _is_install(command) and (whole := _fed(command)) is not None:
            inner = [one for one in simple_commands(whole) if one.node != command.node]
            lists = any(_is_listing(one) for one in inner)
            says = any(one.name in _SAYS for one in inner) or "<<" in text(whole)
            if lists and says and not any(_is_filter(one) for one in inner):
                yield "", whole


def _fed(command: Simple) -> "Node | None":
    """The pipeline or redirection that is a command's input; the command itself, if its words hold the input."""
    if command.bare[-1].startswith("<("):
        return command.node
    parent = command.node.parent
    if parent is not None and parent.type == "redirected_statement" and "<" in text(parent):
        return parent
    while parent is not None and parent.type in ("redirected_statement", "pipeline"):
        if parent.type == "pipeline":
            return parent
        parent = parent.parent
    return None


def _by_redirection(root: "Node", commands: Sequence[Simple]) -> Iterator[tuple[str, "Node"]]:
    """`>> /etc/crontab`, `tee -a`; and `>> FILE` of what `crontab -l` wrote and `crontab FILE` installs."""
    copies = _installed_copies(root, commands)
    for node in within(root, "file_redirect"):
        if ">>" in text(node) and node.parent is not None:
            target = _destination(node)
            if _TABLE.fullmatch(target):
                yield target, node.parent
            elif target in copies and not any(_is_filter(one) and target in one.words for one in commands):
                yield "", node.parent
    for command in commands:
        words = command.bare
        if command.name == "tee" and {"-a", "--append"} & set(words):
            for target in words[1:]:
                if _TABLE.fullmatch(target):
                    yield target, _statement(command.node)


def _installed_copies(root: "Node", commands: Sequence[Simple]) -> set[str]:
    """Files that are written by `crontab -l` and installed by `crontab FILE`."""
    listed = set()
    for node in within(root, "file_redirect"):
        if ">" in text(node) and ">>" not in text(node) and node.parent:
            inner = list(simple_commands(node.parent))
            if any(map(_is_listing, inner)) and not any(map(_is_filter, inner)):
                listed.add(_destination(node))
    installed = {one.bare[-1] for one in commands if one.name == "crontab" and len(one.bare) > 1}
    return listed & installed


def _statement(node: "Node") -> "Node":
    for parent in above(node):
        if parent.type == "pipeline":
            return parent
    return node


def _destination(redirect: "Node") -> str:
    destination = redirect.child_by_field_name("destination")
    return word(destination) if destination else ""


def _is_install(command: Simple) -> bool:
    """`crontab -`, `crontab -u user`, `crontab <(…)`: from its input."""
    words = [word for at, word in enumerate(command.bare[1:]) if word != "-u" and command.bare[at] != "-u"]
    return command.name == "crontab" and (words in ([], ["-"]) or [word[:2] for word in words] == ["<("])


def _is_listing(command: Simple) -> bool:
    return command.name == "crontab" and "-l" in command.words


def _is_filter(command: Simple) -> bool:
    return command.name in _FILTERS


# --- ways to be careful -----------------------------------------------------------------------------------------------


def _is_asked(node: "Node") -> bool:
    """Whether a condition before it asks about cron, a file, or a word in a file."""
    below = node
    if node.type == "redirected_statement" and (body := node.child_by_field_name("body")) and body.type == "list":
        below = body.named_children[-1]
    for parent in above(below):
        if any(map(_ends_if_done, _before(parent, below))):
            return True
        before = _VARIABLE_TEST.sub(b"", (parent.text or b"")[: below.start_byte - parent.start_byte])
        asks = {"list": _LOOKS}.get(parent.type, _CHECKS if parent.type in _CONDITIONS else None)
        if asks and asks.search(before):
            return True
        below = parent
    return False


def _before(parent: "Node", below: "Node") -> "Iterator[Node]":
    return (node for node in parent.named_children if node.end_byte <= below.start_byte)


def _ends_if_done(node: "Node") -> bool:
    """`if [ -f /etc/installed ]; then exit 0; fi`, `[ -f … ] && exit`: there is nothing to do."""
    said = node.text or b""
    return (
        node.type in (*_CONDITIONS, "list") and _IS_WELL.search(said) is not None and _CHECKS.search(said) is not None
    )


def _is_new(to: str, node: "Node", commands: Sequence[Simple]) -> bool:
    """Whether something before it checks the same table, empties it or overwrites it."""
    before = [command for command in commands if command.node.end_byte <= node.start_byte]
    if not to:
        return any(
            (_is_filter(command) and "crontab" in text(_outermost(command.node)))
            or (command.name == "crontab" and not _is_listing(command) and not _is_install(command))
            for command in before
        )
    touched = any(to in text(_outermost(one.node)) for one in before if one.name in _FILTERS | _WRITERS)
    return touched or re.search(rf"(?<!>)>\s*[\"']?{re.escape(to)}", _text_before(node)) is not None


def _text_before(node: "Node") -> str:
    root = [node, *above(node)][-1]
    return (root.text or b"")[: node.start_byte - root.start_byte].decode(errors="replace")


def _outermost(node: "Node") -> "Node":
    """The pipeline, list or redirection that a command is part of."""
    found = node
    for parent in above(node):
        if parent.type not in _STATEMENTS:
            break
        found = parent
    return found


# --- what is added ----------------------------------------------------------------------------------------------------


def _added(node: "Node") -> str | None:
    """The added text; None where it is not written out, "" where it is no line of a crontab."""
    texts = [text(found) for found in within(node, "heredoc_body")]
    for command in simple_commands(node):
        if command.name in ("echo", "printf"):
            texts += [" ".join(one for one in command.bare[1:] if not re.fullmatch(r"-[neE]+", one))]
    said = "\n".join(texts)
    if not texts or (re.search(r"[$`]", said) and not _is_entry(said)):
        return None
    return said if _is_entry(said) else ""


def _is_entry(said: str) -> bool:
    try:
        return bool(entries(said.replace("\\n", "\n")))
    except BadInput:
        return False


# --- scripts ------------------------------------------------------------------


_SUFFIXES: Final = frozenset({".sh", ".bash", ".ksh", ".postinst", ".preinst"})
_NAMES_OF_SCRIPTS: Final = frozenset({
    "entrypoint", "docker-entrypoint", "start", "run", "install", "setup", "bootstrap", "provision", "deploy",
    "postinst", "preinst", "init"
})  # fmt: skip
_MAY_APPEND: Final = re.compile(r"crontab|cron\.d|spool/cron|cron/tabs")
_SHEBANG: Final = re.compile(r"#!.*\b(sh|bash|ash|dash|ksh|with-contenv)\b")


def wants(path: PurePosixPath) -> bool:
    name = path.name.lower()
    return path.suffix.lower() in _SUFFIXES or name in _NAMES_OF_SCRIPTS


@reader("script", wants)
def read(source: Source) -> Iterator[Append | Installed | CommandLine]:
    may_append = _MAY_APPEND.search(source.text)
    may_start = MAY_START.search(source.text)
    if not (may_append or may_start) or not (source.suffix or _SHEBANG.match(source.text)):
        return
    root = tree("bash", source.text)
    if may_start:
        yield from starts(source, root)
    if may_append:
        yield from appends(source, root)


@rule(
    "CR410 crontab-grows-with-each-run",
    Severity.WARNING,
    "install the whole crontab (`crontab FILE`, `cp FILE /etc/cron.d/NAME`) or a block of it (`cronce deploy crontab"
    " install FILE --name NAME`), which change nothing the second time",
    confidence=Confidence.MEDIUM,
)
def crontab_grows_with_each_run(facts: Facts) -> Iterator[Found]:
    """A script that only builds an image starts with a clean file system each time."""
    built = {name for image in facts.of(Image) for name in image.runs}
    started = {
        PurePosixPath(word).name
        for command in facts.of(CommandLine)
        if command.origin in ("dockerfile", "compose")
        for word in command.words
    }
    for append in facts.of(Append):
        name = PurePosixPath(append.place.path).name
        if name in built and name not in started:
            continue
        to = f"`{append.to}`" if append.to else "the crontab"
        when = "each start of the container" if name in started else "each run of this script"
        yield Found(
            append.place,
            f"{when} adds the line to {to} again, because nothing here checks whether it is already there",
            Confidence.HIGH if append.literal else Confidence.MEDIUM,
            None if name in started and not append.is_locked else Severity.INFO,  # a person seldom runs it twice
        )
