"""The output of an audit for people: findings, the list of rules, a rule's page, and the answers to a checklist."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from textwrap import wrap
from typing import Final

from cronce.cli.terminal import ColouredText, Screen, paint, table
from cronce.telling.words import Tone
from cronce_audit.checklist import Answered
from cronce_audit.evidence import VERDICTS, Answer, Verdict
from cronce_audit.model import Confidence, Finding, Place, Rule, Severity
from cronce_audit.outcome import AuditOutcome, SetAside
from cronce_audit.page import page, pieces

TONE_OF_SEVERITY: Final[dict[Severity, Tone]] = {Severity.ERROR: "bad", Severity.WARNING: "odd", Severity.INFO: "busy"}
WIDEST_LINE: Final = 110
"""Longer lines are hard to read, however wide the terminal."""

CHECK_SIGNS: Final[dict[Verdict, ColouredText]] = {
    "met": ColouredText("✓", "good"),
    "not met": ColouredText("✗", "bad"),
    "cannot tell": ColouredText("?", "odd"),
    "not relevant": ColouredText("–", "dim"),
}
EVIDENCE_SHOWN: Final = 3
"""Pieces of evidence that are shown; JSON has all."""


def shown(outcome: AuditOutcome, on: Screen, under: str, *, suppressed: bool, every: bool = False) -> Iterator[str]:
    """Findings, errors first; of several infos at one place the first and the names of the others, unless `every`. Then
    what could not be read, and what is `suppressed`. `under` is the path from the working directory to the root."""
    found = sorted(outcome.findings, key=lambda one: (-one.severity, one.order))
    folded = {} if every else _folded(found)
    before: Finding | None = None
    for finding in found:
        if every or finding.severity is not Severity.INFO or finding in folded:
            again = before is not None and before.place == finding.place
            yield from _finding(finding, under, on, line=not again, more=folded.get(finding, ()))
            before = finding
    for odd in outcome.unparsed:
        yield f"{_bold(_where(odd.place, under), on)} {paint(ColouredText('not read', 'odd'), on)}"
        yield from told(odd.why, on)
        yield ""
    if suppressed:
        yield from _set_aside(outcome.set_aside, on, under)


def _folded(found: Sequence[Finding]) -> dict[Finding, list[Finding]]:
    """Each info that is shown, with others at the same place, or of the same rule in the same file."""
    first: dict[object, Finding] = {}
    folded: dict[Finding, list[Finding]] = {}
    for one in found:
        if one.severity is Severity.INFO:
            keys = (one.place, (one.place.path, one.rule))
            shown_by = next((first[key] for key in keys if key in first), None)
            if shown_by is None:
                folded[one] = []
                first.update(dict.fromkeys(keys, one))
            else:
                folded[shown_by].append(one)
    return folded


def _finding(finding: Finding, under: str, on: Screen, *, line: bool, more: Sequence[Finding] = ()) -> Iterator[str]:
    tone = TONE_OF_SEVERITY[finding.severity]
    sure = "" if finding.confidence is Confidence.HIGH else f", {finding.confidence.word} confidence"
    place = _where(finding.place, under, f":{finding.place.column}" if finding.place.line else "")
    head = f"{finding.severity.word} {finding.rule} {finding.name}"
    yield f"{_bold(place, on)} {paint(ColouredText(head, tone), on)}{paint(ColouredText(sure, 'dim'), on)}"
    if finding.snippet and line:
        yield from _line(finding, on)
    yield from told(finding.message, on)
    yield from told(f"Fix: {finding.remedy}", on, "good")
    if more:
        here = [f"{one.rule} {one.name}" for one in more if one.rule != finding.rule]
        lines = [str(one.place.line) for one in more if one.rule == finding.rule]
        parts = [", ".join(here), f"the same at line {', '.join(lines)}" if lines else ""]
        yield from told(f"Also here: {'; '.join(filter(None, parts))} (--all shows them)", on, "dim")
    yield ""


def _where(place: Place, under: str, column: str = "") -> str:
    """The path from the working directory. A clock and a process are no files to open."""
    where = f"{under}{place}{column}"
    return "this machine" if where.startswith(("/etc/localtime:", "/proc/")) else where


def _line(finding: Finding, on: Screen) -> Iterator[str]:
    """The line, and a mark under the place in it; cut to the terminal's width around that place."""
    gutter = f"{finding.place.line:>6} │ "
    room = max((on.width or WIDEST_LINE) - len(gutter), 20)
    text = finding.snippet.replace("\t", " ")
    at = min(max(finding.place.column - 1 - finding.indent, 0), len(text))
    start = max(at - room // 2, 0) if on.width and len(text) > room else 0
    seen = f"…{text[start + 1 :]}" if start else text
    if on.width and len(seen) > room:
        seen = f"{seen[: room - 1]}…"
    below = f"{'│':>8} {' ' * (at - start)}"
    yield f"{paint(ColouredText(gutter, 'dim'), on)}{paint(seen, on)}"
    yield f"{paint(ColouredText(below, 'dim'), on)}{paint(ColouredText('^', TONE_OF_SEVERITY[finding.severity]), on)}"


def told(text: str, on: Screen, tone: Tone | None = None) -> Iterator[str]:
    """Wrapped on a terminal; elsewhere one line, for grep."""
    lines = wrap(text, min(max(on.width - 7, 20), WIDEST_LINE), break_on_hyphens=False) if on.width else [text]
    for line in lines:
        yield f"       {paint(ColouredText(line, tone), on)}"


def _bold(text: str, on: Screen) -> str:
    plain = paint(text, on)
    return f"\x1b[1m{plain}\x1b[0m" if on.colours else plain


def _set_aside(aside: Sequence[SetAside], on: Screen, under: str) -> Iterator[str]:
    if aside:
        rows = [(one.finding.rule, _where(one.finding.place, under), one.how, one.reason) for one in aside]
        yield table(("suppressed", "where", "by", "reason"), rows, on)
        yield ""


def verdict(outcome: AuditOutcome, on: Screen, read: str) -> Iterator[str]:
    """The counts, and what to do next."""
    counts = Counter(finding.severity for finding in outcome.findings)
    found = [
        paint(ColouredText(number(counts[one], one.word), TONE_OF_SEVERITY[one]), on)
        for one in reversed(Severity)
        if counts[one]
    ]
    hows = Counter(one.how for one in outcome.set_aside)
    aside = hows["comment"] + hows["config"]
    rest = [
        number(aside, "suppressed", "suppressed"),
        f"{hows['baseline']:,} in the baseline",
        f"{len(_unread(outcome)) if found else 0:,} not read",
    ]
    said = [text for text in rest if not text.startswith("0 ")]
    head = (
        ", ".join(found)
        if found
        else paint(_nothing(outcome, "nothing new" if hows["baseline"] else NOTHING_FOUND), on)
    )
    yield "; ".join([head, *said, read])
    if outcome.gone:
        are = "is" if len(outcome.gone) == 1 else "are"
        yield f"{len(outcome.gone):,} of the baseline {are} no longer found: write a new baseline with --write-baseline"
    if outcome.findings:
        worst = max(outcome.findings, key=lambda one: (one.severity, one.confidence))
        yield paint(ColouredText(f"`cronce audit explain {worst.rule}` has the details", "dim"), on)


def fixed(count: int, outcome: AuditOutcome) -> str:
    """What `--fix` did, and what it left."""
    counts = Counter(finding.severity for finding in outcome.findings)
    left = ", ".join(number(counts[one], one.word) for one in reversed(Severity) if counts[one])
    done = f"{count:,} fixed" if count else "nothing to fix"
    return f"{done}; {left} left to you" if left else done


NOTHING_FOUND: Final = "nothing found"


def _unread(outcome: AuditOutcome) -> dict[str, int]:
    """The path of what could not be read, with a line of it; a folder has line 0."""
    return {one.place.path: one.place.line for one in outcome.unparsed}


def _nothing(outcome: AuditOutcome, words: str) -> ColouredText:
    """What is said where there is no finding."""
    unread = _unread(outcome)
    if not unread:
        return ColouredText(words, "good")
    forms = ("file", "files") if all(unread.values()) else ("file or folder", "files or folders")
    what = number(len(unread), *forms)
    return ColouredText(f"{what} could not be read, so this is not a clean result (--strict fails then)", "odd")


def number(count: int, one: str, many: str | None = None) -> str:
    if one == "info":
        return f"{count:,} info"
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def counted(outcome: AuditOutcome, on: Screen) -> str:
    """How often each rule found something, the most frequent first."""
    counts = Counter((one.rule, one.name, one.severity) for one in outcome.findings)
    rows = [
        (f"{count:,}", rule, ColouredText(severity.word, TONE_OF_SEVERITY[severity]), name)
        for (rule, name, severity), count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    return (
        table(("found", "rule", "severity", "name"), rows, on) if rows else paint(_nothing(outcome, NOTHING_FOUND), on)
    )


def listed(rules: Iterable[Rule], on: Screen) -> str:
    rows = [
        (rule.id, ColouredText(rule.severity.word, TONE_OF_SEVERITY[rule.severity]), rule.confidence.word, rule.name)
        for rule in rules
    ]
    return table(("rule", "severity", "confidence", "name"), rows, on)


def explained(rule: Rule, on: Screen) -> Iterator[str]:
    """The page of a rule. In a sample, a mark stands before each line that is found."""
    width = min(on.width or 100, WIDEST_LINE)
    before = ""
    for kind, text in pieces(page(rule)):
        if before and (kind, before) not in _CLOSE:
            yield ""
        match kind:
            case "title":
                severity = ColouredText(rule.severity.word, TONE_OF_SEVERITY[rule.severity])
                yield f"{_bold(text, on)}  {paint(severity, on)}"
            case "heading":
                yield _bold(text, on)
            case "text" | "item":
                indent = "  " if kind == "item" else ""
                yield from (paint(line, on) for line in wrap(text, width, subsequent_indent=indent))
            case "file":
                yield f"    {paint(ColouredText(text, 'dim'), on)}"
            case "code" | "found":
                mark = paint(ColouredText(">", "bad"), on) if kind == "found" else " "
                yield f"  {mark} {paint(text, on)}".rstrip()
        before = kind


_CLOSE: Final = {
    *((kind, before) for kind in ("code", "found") for before in ("file", "code", "found")),
    ("item", "item"),
}
"""What stands below what without a gap."""


# --- a checklist ------------------------------------------------------------------------------------------------------


def checked(answered: Sequence[Answered], on: Screen, *, shows_all: bool) -> Iterator[str]:
    first: dict[int, Answered] = {}
    for name, points in groupby(answered, key=lambda one: one.checklist):
        yield paint(ColouredText(name, "busy"), on)
        for point in points:
            yield _head(point, on)
            before = first.setdefault(id(point.answer), point)
            same = f"same answer as point {before.number} under *{before.checklist}*"
            yield from _why(point.answer, on, shows_all=shows_all) if before is point else told(same, on, "dim")
        yield ""
    counts = Counter(one.answer.verdict for one in answered)
    yield ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])


def _head(point: Answered, on: Screen) -> str:
    mark = CHECK_SIGNS[point.answer.verdict]
    head = f"{point.number:>4}. {point.text}: "
    return f"{paint(mark, on)}{paint(head, on)}{paint(ColouredText(point.answer.verdict, mark.tone), on)}"


def _why(answer: Answer, on: Screen, *, shows_all: bool) -> Iterator[str]:
    shown = answer.evidence if shows_all else answer.evidence[:EVIDENCE_SHOWN]
    for one in shown:
        yield from told(f"{one.place}: {one.text}" if one.place else one.text, on, "dim")
    if len(answer.evidence) > len(shown):
        yield from told(f"and {len(answer.evidence) - len(shown)} more (--all shows them)", on, "dim")
    if answer.shows:
        yield from told(f"What would answer it: {answer.shows}", on)
