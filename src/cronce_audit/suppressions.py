"""`# cronce: ignore[CR101] the reason` suppresses a finding, on its line or in a comment above it.

`cronce: ignore-file[CR101] the reason`, anywhere in a file, counts for the whole file. The reason is required: the next
reader must know why. The comment is written as the language does; the end of a comment is not part of the reason. A
crontab has no comments behind a command, so there the comment is above the line.
"""

import io
import re
import tokenize
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from cronce_audit.config import one_of
from cronce_audit.model import GONE, Facts, Finding, Found, Place, Severity, Source, reader, rule, rules

_COMMENT: Final = re.compile(
    r"(?:^|(?<=[\s{]))(?:\#|//|--|<!--|/\*|;)\s*cronce:\s*ignore(?P<file>-file)?\b"
    r"(?:\[(?P<rules>[^\]\n]*)\])?[ \t:]*(?P<reason>.*?)\s*(?:-->|\*/[\s}-]*)?\s*$",
    re.MULTILINE,
)
_CLOSED: Final = re.compile(r"/\*.*?\*/|<!--.*?-->")
_BRACES_BEFORE: Final = re.compile(r"\{+-?\s*$")
_BRACES_BEHIND: Final = re.compile(r"\s*-?\}+")
_NO_CODE: Final = re.compile(r"\s*(?:\{+-?\s*)?(?:(?:\#|//|--\s|<!--|/\*|;).*)?$")

COMMENTS: Final = "suppressions"
"""The name of the reader of comments, which reads every kind of file."""
ABOUT_COMMENTS: Final = ("CR001", "CR002")
"""The rules that find something in the comment itself."""


class Suppression(NamedTuple):
    """A comment that suppresses rules, and why."""

    rules: tuple[str, ...]
    reason: str
    place: Place
    line: int | None
    """The line it is about; None means the whole file."""

    def covers(self, finding: Finding) -> bool:
        near = self.line in (None, finding.place.line)
        return near and finding.rule in self.rules and finding.place.path == self.place.path

    @property
    def is_whole(self) -> bool:
        return bool(self.rules and self.reason)


@reader(COMMENTS, lambda _: True)
def read_comments(source: Source) -> Iterator[Suppression]:
    if "cronce:" not in source.text:
        return
    comments = list(_COMMENT.finditer(source.text))
    lines = source.text.split("\n")
    spoken = _comment_lines(source) if comments and source.suffix == ".py" else None
    for comment in comments:
        number = source.text.count("\n", 0, comment.start()) + 1
        if spoken is None or number in spoken:
            named = tuple(_id(word.strip()) for word in (comment["rules"] or "").split(",") if word.strip())
            about = None if comment["file"] else _meant(lines, number)
            yield Suppression(named, comment["reason"], source.place(number), about)


def without_suppression(line: str) -> str:
    """The line as it was before the comment was added; any code behind the comment is kept."""
    comment = _COMMENT.search(line)
    if not comment:
        return line
    before = line[: comment.start()]
    closed = _CLOSED.match(line, comment.start())
    behind = line[closed.end() :] if closed else ""
    braces = _BRACES_BEHIND.match(behind)
    if braces and _BRACES_BEFORE.search(before):  # a comment of a template or of JSX is in braces
        before, behind = _BRACES_BEFORE.sub("", before), behind[braces.end() :]
    return f"{before}{behind}".rstrip()


def _id(word: str) -> str:
    """An id or a name, in any case, as on the command line. A rule that became part of another means that one."""
    named = GONE.get(word.upper()) or word.upper()
    by_name = next((rule.id for rule in rules().values() if rule.name == word.lower()), word)
    return named if named in rules() or named in GONE else by_name


def _comment_lines(source: Source) -> Collection[int] | None:
    """The lines of Python that have a comment, as a string suppresses nothing. None: it does not parse."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source.text).readline))
    except (tokenize.TokenError, SyntaxError):
        return None
    return {token.start[0] for token in tokens if token.type == tokenize.COMMENT}


def _meant(lines: Sequence[str], number: int) -> int:
    """The comment's own line if there is code on it; else the next line with code."""
    if not _NO_CODE.match(lines[number - 1]):
        return number
    below = range(number + 1, len(lines) + 1)
    return next((line for line in below if not _NO_CODE.match(lines[line - 1])), number)


@rule(
    "CR001 suppression-without-rule-or-reason",
    Severity.ERROR,
    "write `cronce: ignore[CR101] why this is all right here`; it suppresses nothing until then",
)
def _incomplete(facts: Facts) -> Iterator[Found]:
    for suppression in facts.of(Suppression):
        place, remedy = suppression.place, _whole(suppression)
        unknown = [named for named in suppression.rules if named not in rules() and named not in GONE]
        if not suppression.rules:
            yield Found(place, "this comment names no rule, so it suppresses nothing", remedy=remedy)
        elif unknown:
            hint = one_of(unknown[0], [one.name for one in rules().values()])
            yield Found(place, f"there is no rule {unknown[0]}; {hint}", remedy=remedy)
        elif not suppression.reason:
            yield Found(place, f"this comment gives no reason for {', '.join(suppression.rules)}", remedy=remedy)


def _whole(suppression: Suppression) -> str:
    """How to write this comment, with those of its rules that exist."""
    named = ",".join(one for one in suppression.rules if one in rules()) or "CR101"
    how = "ignore" if suppression.line else "ignore-file"
    return f"write `cronce: {how}[{named}] why this is all right here`; it suppresses nothing until then"


@rule("CR002 suppression-of-nothing", Severity.INFO, "remove it; it would hide the next problem on this line")
def IDLE(_: Facts) -> Iterator[Found]:  # noqa: N802  a decorator makes it a rule, and the engine names it
    """Facts are not enough to know: the engine calls `idle` after all other rules."""
    yield from ()


def idle(suppressions: Sequence[Suppression], findings: Sequence[Finding], asked: Collection[str]) -> Iterator[Found]:
    """What CR002 finds: comments about rules that were applied and found nothing there."""
    covered = {
        (suppression.place, finding.rule)
        for finding in findings
        for suppression in suppressions
        if suppression.covers(finding)
    }
    for suppression in suppressions:
        for named in suppression.rules if suppression.is_whole else ():
            if named in GONE:
                yield Found(suppression.place, f"{named} was removed: cronce no longer checks this")
            elif named in asked and (suppression.place, named) not in covered:
                yield Found(suppression.place, f"{named} finds nothing here, so this comment suppresses nothing")
