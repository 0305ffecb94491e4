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
from cronce_audit.processes.commands import started
from cronce_audit.scripts import MAY_START, Simple, simple_commands, starts

if TYPE_CHECKING:
    from tree_sitter import Node

_TABLE: Final = re.compile(r"/etc/crontab|/etc/cron\.d/\S+|/var/spool/cron/\S+|/etc/crontabs/\S+|/var/cron/tabs/\S+")
_FILTERS: Final = frozenset({
    "grep", "egrep", "fgrep", "rg", "sed", "gsed", "awk", "gawk", "perl", "python", "python3", "sort", "uniq", "head",
    "tail", "tac", "diff", "cmp", "comm", "ruby", "php", "tr"
})  # fmt: skip
_WRITERS: Final = frozenset({"cp", "mv", "rm", "install", "ln", "truncate", "unlink", "rsync", "curl", "wget"})
_CHECKS: Final = re.compile(r"crontab|cron\.d|grep|exist|install|already|first|done|marker|\s-[defrsw]\s|=~|\bwc\b")
_LOOKS: Final = re.compile(r"grep|diff|cmp|comm|\[|\btest\b|=~|\|\|")
"""Before `&&` and `||`: there also stands what only has to go well."""
_ASKS: Final = {
    "list": _LOOKS,
    **dict.fromkeys(("if_statement", "elif_clause", "while_statement", "case_statement"), _CHECKS),
}
_VARIABLE_TEST: Final = re.compile(r"""\[\[?\s*(?:!\s*)?(?:-[nz]\s+)?["']?\$\{?\w+[^]]*\]\]?""")
"""A test of a variable, which is no check of the crontab: `[ -n "$CRON" ]`, `[ "$CRON" = yes ]`."""
_IS_DONE: Final = re.compile(
    r"(?:grep|\s-[defrsw]\s)[^\n]*(?:\n[^\n]*){0,3}?\b(?:exit|return)(?:\s+0)?\s*(?:;|\}|\n|$)"
)
"""`if [ -f /etc/installed ]; then exit 0; fi`, `[ -f … ] && exit`: there is nothing to do."""
_INTO: Final = re.compile(r"\bcrontab(?:\s+-u\s*\S+)?(?:\s+-)?\s*(?:$|<<?(?!<))|\bcrontab\s+<\(")
"""It takes the crontab from its input."""
_LISTS: Final = re.compile(r"\bcrontab\b[^|;&\n]*\s-l\b")
_SAYS: Final = re.compile(r"\b(?:echo|printf|cat)\b|<<")
_APPENDS: Final = re.compile(r"(?:>>|\btee\s+(?:-a|--append))\s*[\"']?(?P<to>[^\s\"';&|)]+)")
_STATEMENTS: Final = ("pipeline", "redirected_statement", "command")


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
    for node in within(root, *_STATEMENTS):
        to = None if any(outer.type in _STATEMENTS for outer in above(node)) else _table(text(node), source.text)
        if to is None:
            continue
        if any(outer.type == "ERROR" for outer in above(node)):
            raise Unreadable(line(node), "cronce did not understand the lines around this")
        added = _added(node)
        if added != "" and not _is_careful(to, node, commands, source.text):
            yield Append(source.place(line(node)), to, added is not None and _is_entry(added), "flock" in (added or ""))


def _table(said: str, whole: str) -> str | None:
    """What a statement adds to: a table, or "" for the user's crontab, also by way of a copy that is installed; None
    where it adds to neither."""
    if _INTO.search(said) and _LISTS.search(said) and _SAYS.search(said):
        return ""
    targets = [found["to"] for found in _APPENDS.finditer(said)]
    copied = (re.escape(one) for one in targets)
    if any(re.search(rf"-l[^\n]*[^>]>\s*{one}\b(?:.|\n)*\bcrontab\s+{one}\b", whole) for one in copied):
        return ""
    return next(filter(_TABLE.fullmatch, targets), None)


def _is_careful(to: str, node: "Node", commands: Sequence[Simple], whole: str) -> bool:
    """Whether it filters what was there; or something before it asks about the table, empties or overwrites it."""
    lines = whole.split("\n")
    tables = {to or "crontab", *(found["to"] for found in _APPENDS.finditer(text(node)))}
    if any(one.name in _FILTERS for one in simple_commands(node)):
        return True
    for one in commands:
        if one.node.end_byte <= node.start_byte and any(table in lines[one.line - 1] for table in tables):
            empties = one.name == "crontab" and not {"-l", "-"} & {*one.words} and len(one.words) > 1
            if one.name in _FILTERS or (to and one.name in _WRITERS) or (not to and empties):
                return True
    before = ((node.text and [node, *above(node)][-1].text) or b"")[: node.start_byte].decode(errors="replace")
    return bool(
        _IS_DONE.search(_VARIABLE_TEST.sub("", before))
        or (to and re.search(rf"(?<!>)>\s*[\"']?{re.escape(to)}", before))
        or any(_is_asked(outer, node) for outer in above(node))
    )


def _is_asked(outer: "Node", node: "Node") -> bool:
    """Whether a condition around it asks about cron, a file, or a word in a file."""
    before = _VARIABLE_TEST.sub("", (outer.text or b"")[: node.start_byte - outer.start_byte].decode(errors="replace"))
    return outer.type in _ASKS and bool(_ASKS[outer.type].search(before))


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
    begun = {
        PurePosixPath(word).name
        for one in facts.conclude(started)
        if one.command.origin in ("dockerfile", "compose")
        for word in (one.argv.program, *one.argv.arguments)
    }
    for append in facts.of(Append):
        name = PurePosixPath(append.place.path).name
        if name in built and name not in begun:
            continue
        to = f"`{append.to}`" if append.to else "the crontab"
        when = "each start of the container" if name in begun else "each run of this script"
        yield Found(
            append.place,
            f"{when} adds the line to {to} again, because nothing here checks whether it is already there",
            Confidence.HIGH if append.literal else Confidence.MEDIUM,
            None if name in begun and not append.is_locked else Severity.INFO,  # a person seldom runs it twice
        )
