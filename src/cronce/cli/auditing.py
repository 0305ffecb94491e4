"""An audit, from the paths to the exit code. And what it found, for people: by file, worst files first, each with its
line, why and the fix; the rules; and the answers to a checklist."""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from itertools import groupby
from pathlib import Path, PurePosixPath
from textwrap import wrap
from typing import Final, NamedTuple

from cronce.audit import baseline
from cronce.audit.checklist import Answered, answers
from cronce.audit.checklist.answers import VERDICTS, Answer, Seen, Verdict
from cronce.audit.checklist.mentions import mentions
from cronce.audit.common import LockDeclared, ZoneSet
from cronce.audit.config import Project, Settings, confidence, find_project, rule_named, rules_named, threshold, zone
from cronce.audit.engine import Report, is_wanted, read_tree, report_of
from cronce.audit.live.machine import clock_in_step, look_at
from cronce.audit.model import Confidence, Facts, Finding, Place, Rule, Severity, Unparsed
from cronce.audit.outcome import Outcome, SetAside, weigh
from cronce.audit.output.document import checklist_document, document, rule_document
from cronce.audit.output.github import annotations
from cronce.audit.output.sarif import sarif
from cronce.audit.page import page, pieces
from cronce.audit.parts import rules
from cronce.audit.tree import files
from cronce.cli import say
from cronce.cli.machine import system_zone
from cronce.cli.terminal import Screen, Toned, bar, paint, screen, table
from cronce.clock import SystemClock
from cronce.errors import BadInput
from cronce.stores import mask_all
from cronce.telling.words import Tone

ACTIONS: Final = ("rules", "explain")
NO_FILE: Final = (
    "no file there is of a kind that is known; vendored folders, tests and what .gitignore leaves out are read only"
    " if they are named"
)
NO_KIND: Final = (
    "its name does not say what kind of file it is; a crontab is called crontab, *.crontab or *.cron, or is in cron.d"
)
NOTHING: Final = 3
UNREAD: Final = 4


def list_rules(options: argparse.Namespace) -> None:
    if options.format == "json":
        print(json.dumps({"rules": [rule_document(rule) for rule in rules().values()]}))
    else:
        print(listed(rules().values(), screen()))


def explain(named: Sequence[str], options: argparse.Namespace) -> None:
    if not named:
        raise BadInput("which rule? `cronce audit rules` lists them")
    meant = list(map(rule_named, named))
    if options.format == "json":
        print(json.dumps({"rules": [{**rule_document(rule), "page": page(rule)} for rule in meant]}))
    else:
        print("\n\n".join("\n".join(explained(rule, screen())) for rule in meant))


class Audited(NamedTuple):
    outcome: Outcome
    facts: Facts
    paths: Sequence[str]
    seconds: float


def audit_paths(paths: Sequence[Path], options: argparse.Namespace) -> int:
    _refuse(paths, options)
    here = paths or [Path()]
    project = Project(Path("/"), Settings(), None) if options.live else find_project(here)
    settings = _settings(project.settings, options)
    audited = _audited(here, project, settings, options)
    outcome = audited.outcome
    if options.checklist and outcome.files:
        return _check(audited, project, options)
    if options.write_baseline:
        return _write_baseline(options.write_baseline, outcome, project.settings.baseline)
    _deliver(lambda on: _people(audited, project, on, options), lambda: _programs(outcome, settings, options), options)
    return _code(outcome, settings, options)


def _refuse(paths: Sequence[Path], options: argparse.Namespace) -> None:
    """What cannot be meant together."""
    if options.live and paths:
        raise BadInput("--live looks at this machine, and at no path")
    if options.checklist and options.live:
        raise BadInput("--checklist is about a repository, with its pipeline and manifests; --live is about a machine")
    if options.checklist and options.write_baseline:
        raise BadInput("--checklist answers points, and a baseline knows findings only: write it without --checklist")
    if options.checklist and options.format not in ("people", "json"):
        raise BadInput(f"--checklist is for people, or --json: {options.format} knows findings only")
    if paths and _is_gone(paths[0]):
        for meant in get_close_matches(str(paths[0]), ACTIONS, n=1):
            raise BadInput(f"there is no file or folder {paths[0]}; did you mean `cronce audit {meant}`?")


def _settings(said: Settings, options: argparse.Namespace) -> Settings:
    """What the project says, unless the command line says otherwise."""
    ignored = {rule.id: "--ignore" for rule in rules_named(options.ignore)}
    return replace(
        said,
        exclude=(*said.exclude, *options.exclude),
        ignore={**said.ignore, **ignored},
        fail_on=threshold(options.fail_on) if options.fail_on else said.fail_on,
        min_confidence=confidence(options.min_confidence) if options.min_confidence else said.min_confidence,
        baseline=options.baseline or said.baseline,
        zone=zone(options.zone) if options.zone else said.zone,
        tests=options.tests or said.tests,
    )


def _audited(paths: Sequence[Path], project: Project, settings: Settings, options: argparse.Namespace) -> Audited:
    clock = SystemClock()
    begun, year = clock.boot(), clock.wall().year
    known = [] if options.write_baseline or not settings.baseline else baseline.read(settings.baseline)
    chosen = rules_named(options.select) or list(rules().values())
    unread: list[Unparsed] = []
    read = [] if options.live else _files(paths, project.root, settings, unread)
    whole = 0 if options.no_progress else sum(map(is_wanted, read))
    if options.live:
        seen = look_at(project.root, settings.zone or system_zone(), in_step=clock_in_step())
    else:
        seen = read_tree(project.root, read, partial(bar, "audit", whole=whole))
    seen = seen._replace(unparsed=[*unread, *seen.unparsed])
    report = report_of(seen, project.root, year, chosen=chosen, known=_known(project, settings, options))
    asked, there = {rule.id for rule in chosen}, set(read) - {one.place.path for one in seen.unparsed}

    def was_asked(entry: baseline.Entry) -> bool:
        return entry.rule in asked and (entry.path in there or _is_gone(project.root / entry.path))

    outcome = weigh(_masked(report), settings, known, was_asked)
    return Audited(outcome, report.facts, read, clock.boot() - begun)


def _known(project: Project, settings: Settings, options: argparse.Namespace) -> Sequence[ZoneSet | LockDeclared]:
    return [*_zones(project, settings, options), *map(LockDeclared, settings.locks)]


def _zones(project: Project, settings: Settings, options: argparse.Namespace) -> Sequence[ZoneSet]:
    """What is said of the machines where no file says it. A machine that is looked at says it itself."""
    if options.live or not settings.zone:
        return []
    return [ZoneSet(settings.zone, Place("--zone" if options.zone else project.said_in or "", 0), "")]


def _is_gone(path: Path) -> bool:
    try:
        return not path.exists()
    except OSError:  # it is in a folder that may not be looked into
        return False


def _files(paths: Sequence[Path], root: Path, settings: Settings, unread: list[Unparsed]) -> list[str]:
    """In order, each once, however the paths overlap."""
    found: set[str] = set()
    for path in paths:
        below = PurePosixPath(path.resolve().relative_to(root).as_posix())
        found.update(files(root, settings.exclude, tests=settings.tests, below=below, unread=unread))
    return sorted(found)


def _masked(report: Report) -> Report:
    """A line may hold a URL with a password, and what we print may be seen by many."""

    def masked(finding: Finding) -> Finding:
        message, remedy, snippet = map(mask_all, (finding.message, finding.remedy, finding.snippet))
        return replace(finding, message=message, remedy=remedy, snippet=snippet)

    return replace(
        report,
        findings=list(map(masked, report.findings)),
        suppressed=[(masked(one), replace(by, reason=mask_all(by.reason))) for one, by in report.suppressed],
    )


def _write_baseline(path: Path, outcome: Outcome, configured: Path | None) -> int:
    written = baseline.write(path, outcome.entries())
    how = "" if configured and configured.resolve() == path.resolve() else f", with --baseline {path}"
    print(f"{path}: {number(written, 'finding')} written; only others fail from now on{how}")
    return 0


def _check(audited: Audited, project: Project, options: argparse.Namespace) -> int:
    answered = answers(Seen(audited.outcome, audited.facts, mentions(project.root, audited.paths)))
    _deliver(
        partial(checked, answered), lambda: [json.dumps(checklist_document(answered), ensure_ascii=False)], options
    )
    return 1 if any(one.answer.verdict == "not met" for one in answered) else 0


def _deliver(
    people: Callable[[Screen], Iterable[str]], programs: Callable[[], Iterable[str]], options: argparse.Namespace
) -> None:
    """To the file, if one is named; then people still read. Else to whom the format is for."""
    for_people = options.format == "people"
    if options.output:
        _write(options.output, people(Screen()) if for_people else programs())
    for line in people(screen()) if for_people or options.output else programs():
        print(line)


def _write(path: Path, lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    try:
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from None


def _people(audited: Audited, project: Project, on: Screen, options: argparse.Namespace) -> Iterator[str]:
    """Only a person wants to know how long it took: whatever else reads it wants the same from run to run."""
    yield from shown(audited.outcome, on, _under(project, options), suppressed=options.suppressed, every=options.all)
    if audited.outcome.files:
        words = ("file or process", "files and processes") if options.live else ("file", "files")
        read = f"{number(audited.outcome.files, *words)} read"
        yield from verdict(audited.outcome, on, f"{read} in {audited.seconds:.1f} s" if on.width else read)
        yield from (paint(Toned(line, "dim"), on) for line in _from_where(project, options))


def _under(project: Project, options: argparse.Namespace) -> str:
    """Paths are told as they are seen from here, so that they can be clicked on. Those of several projects are told
    from the folder that holds them, as what is said of them does."""
    here = Path.cwd()
    if project.root == here or len(options.paths) > 1:
        return ""
    root = project.root.relative_to(here) if project.root.is_relative_to(here) else project.root
    return f"{root}".rstrip("/") + "/"


def _from_where(project: Project, options: argparse.Namespace) -> Iterator[str]:
    """What is deployed together is often above the folder somebody works in."""
    here = Path.cwd()
    if project.root == here or options.live:
        return
    if len(options.paths) > 1:
        yield f"paths are from {project.root}"
    elif all(Path(path).resolve() == here for path in options.paths):
        up = "/".join([".."] * len(here.relative_to(project.root).parts))
        yield f"only {here.relative_to(project.root)}/ of {project.root} was read; `cronce audit {up}` reads all of it"


def _programs(outcome: Outcome, settings: Settings, options: argparse.Namespace) -> Iterator[str]:
    match options.format:
        case "github":
            yield from annotations(outcome)
        case "sarif":
            told = sarif(outcome, rules(), settings.pages, suppressed=options.suppressed)
            yield json.dumps(told, indent=1, ensure_ascii=False)
        case _:
            yield json.dumps(document(outcome), ensure_ascii=False)


def _code(outcome: Outcome, settings: Settings, options: argparse.Namespace) -> int:
    if outcome.unparsed and options.strict:
        return UNREAD
    if not outcome.files:
        files_named = [path for path in options.paths if Path(path).is_file()]
        why = f"{files_named[0]}: {NO_KIND}" if files_named else NO_FILE
        say("audit", f"nothing to audit: {why}")
        return NOTHING
    return 1 if outcome.fails(settings.fail_on) else 0


# --- for people -------------------------------------------------------------------------------------------------------

TONES: Final[dict[Severity, Tone]] = {Severity.ERROR: "bad", Severity.WARNING: "odd", Severity.INFO: "busy"}
WIDEST: Final = 110
"""Longer lines are hard to read, however wide the terminal."""

MARKS: Final[dict[Verdict, Toned]] = {
    "met": Toned("✓", "good"),
    "not met": Toned("✗", "bad"),
    "cannot tell": Toned("?", "odd"),
    "not relevant": Toned("–", "dim"),
}
MOST: Final = 3
"""Pieces of evidence that are shown; JSON has all."""


def shown(outcome: Outcome, on: Screen, under: str, *, suppressed: bool, every: bool = False) -> Iterator[str]:
    """Every finding, errors first; of the infos at one place the first, with the names of the others unless `every` one
    is asked for. Then what could not be read, and what is suppressed, if that is asked for. `under` leads from where
    people are to the root."""
    found = sorted(outcome.findings, key=lambda one: (-one.severity, one.order))
    infos: dict[Place, list[Finding]] = {}
    for one in found:
        if one.severity is Severity.INFO:
            infos.setdefault(one.place, []).append(one)
    for before, finding in zip([None, *found], found, strict=False):
        here = infos.get(finding.place, [finding])
        if every or finding.severity is not Severity.INFO or finding is here[0]:
            again = before is not None and before.place == finding.place
            yield from _finding(finding, under, on, line=not again, more=() if every else here[1:])
    for odd in outcome.unparsed:
        yield f"{_bold(_where(odd.place, under), on)} {paint(Toned('not read', 'odd'), on)}"
        yield from told(odd.why, on)
        yield ""
    if suppressed:
        yield from _set_aside(outcome.set_aside, on, under)


def _finding(finding: Finding, under: str, on: Screen, *, line: bool, more: Sequence[Finding] = ()) -> Iterator[str]:
    tone = TONES[finding.severity]
    sure = "" if finding.confidence is Confidence.HIGH else f", {finding.confidence.word} confidence"
    place = _where(finding.place, under, f":{finding.place.column}" if finding.place.line else "")
    head = f"{finding.severity.word} {finding.rule} {finding.name}"
    yield f"{_bold(place, on)} {paint(Toned(head, tone), on)}{paint(Toned(sure, 'dim'), on)}"
    if finding.snippet and line:
        yield from _line(finding, on)
    yield from told(finding.message, on)
    yield from told(f"Fix: {finding.remedy}", on, "good")
    if finding.severity is Severity.INFO and more:
        names = ", ".join(f"{one.rule} {one.name}" for one in more)
        yield from told(f"Here, too: {names} (--all shows them)", on, "dim")
    yield ""


def _where(place: Place, under: str, column: str = "") -> str:
    """As seen from here. A clock and a process are no files that somebody could open."""
    where = f"{under}{place}{column}"
    return "this machine" if where.startswith(("/etc/localtime:", "/proc/")) else where


def _line(finding: Finding, on: Screen) -> Iterator[str]:
    """The line, and a mark under the place in it; cut to the terminal's width around that place."""
    gutter = f"{finding.place.line:>6} │ "
    room = max((on.width or WIDEST) - len(gutter), 20)
    text = finding.snippet.replace("\t", " ")
    at = min(max(finding.place.column - 1 - finding.indent, 0), len(text))
    start = max(at - room // 2, 0) if on.width and len(text) > room else 0
    seen = f"…{text[start + 1 :]}" if start else text
    if on.width and len(seen) > room:
        seen = f"{seen[: room - 1]}…"
    below = f"{'│':>8} {' ' * (at - start)}"
    yield f"{paint(Toned(gutter, 'dim'), on)}{paint(seen, on)}"
    yield f"{paint(Toned(below, 'dim'), on)}{paint(Toned('^', TONES[finding.severity]), on)}"


def told(text: str, on: Screen, tone: Tone | None = None) -> Iterator[str]:
    """Wrapped on a terminal; elsewhere one line, which can be searched for."""
    lines = wrap(text, min(max(on.width - 7, 20), WIDEST), break_on_hyphens=False) if on.width else [text]
    for line in lines:
        yield f"       {paint(Toned(line, tone), on)}"


def _bold(text: str, on: Screen) -> str:
    plain = paint(text, on)
    return f"\x1b[1m{plain}\x1b[0m" if on.colours else plain


def _set_aside(aside: Sequence[SetAside], on: Screen, under: str) -> Iterator[str]:
    if aside:
        rows = [(one.finding.rule, _where(one.finding.place, under), one.how, one.reason) for one in aside]
        yield table(("suppressed", "where", "by", "reason"), rows, on)
        yield ""


def verdict(outcome: Outcome, on: Screen, read: str) -> Iterator[str]:
    """The counts, and what can be done next."""
    counts = Counter(finding.severity for finding in outcome.findings)
    found = [paint(Toned(number(counts[one], one.word), TONES[one]), on) for one in reversed(Severity) if counts[one]]
    hows = Counter(one.how for one in outcome.set_aside)
    aside = hows["comment"] + hows["config"]
    rest = [
        number(aside, "suppressed", "suppressed"),
        f"{hows['baseline']:,} in the baseline",
        f"{len(outcome.unparsed):,} not read",
    ]
    said = [text for text in rest if not text.startswith("0 ")]
    nothing = "nothing new" if hows["baseline"] else "nothing found"
    head = ", ".join(found) if found else paint(Toned(nothing, "good"), on)
    yield "; ".join([head, *said, read])
    if outcome.gone:
        are = "is" if len(outcome.gone) == 1 else "are"
        yield f"{len(outcome.gone):,} of the baseline {are} gone: write it again with --write-baseline"
    if outcome.findings:
        worst = max(outcome.findings, key=lambda one: (one.severity, one.confidence))
        yield paint(Toned(f"`cronce audit explain {worst.rule}` tells more", "dim"), on)


def number(count: int, one: str, many: str | None = None) -> str:
    if one == "info":
        return f"{count:,} info"
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def listed(rules: Iterable[Rule], on: Screen) -> str:
    rows = [
        (rule.id, Toned(rule.severity.word, TONES[rule.severity]), rule.confidence.word, rule.name) for rule in rules
    ]
    return table(("rule", "severity", "confidence", "name"), rows, on)


def explained(rule: Rule, on: Screen) -> Iterator[str]:
    """The page of a rule. In a sample, a mark stands before each line that is found."""
    width = min(on.width or 100, WIDEST)
    before = ""
    for kind, text in pieces(page(rule)):
        if before and (kind, before) not in _CLOSE:
            yield ""
        match kind:
            case "title":
                yield f"{_bold(text, on)}  {paint(Toned(rule.severity.word, TONES[rule.severity]), on)}"
            case "heading":
                yield _bold(text, on)
            case "text" | "item":
                indent = "  " if kind == "item" else ""
                yield from (paint(line, on) for line in wrap(text, width, subsequent_indent=indent))
            case "file":
                yield f"    {paint(Toned(text, 'dim'), on)}"
            case "code" | "found":
                mark = paint(Toned(">", "bad"), on) if kind == "found" else " "
                yield f"  {mark} {paint(text, on)}".rstrip()
        before = kind


_CLOSE: Final = {
    *((kind, before) for kind in ("code", "found") for before in ("file", "code", "found")),
    ("item", "item"),
}
"""What stands below what without a gap."""


# --- a checklist ------------------------------------------------------------------------------------------------------


def checked(answered: Sequence[Answered], on: Screen) -> Iterator[str]:
    first: dict[int, str] = {}
    for name, points in groupby(answered, key=lambda one: one.checklist):
        yield paint(Toned(name, "busy"), on)
        for point in points:
            yield _head(point, on)
            said = first.setdefault(id(point.answer), f"{name} {point.number}")
            yield from _why(point.answer, on) if said == f"{name} {point.number}" else told(f"as {said}", on, "dim")
        yield ""
    counts = Counter(one.answer.verdict for one in answered)
    yield ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])


def _head(point: Answered, on: Screen) -> str:
    mark = MARKS[point.answer.verdict]
    head = f"{point.number:>4}. {point.text}: "
    return f"{paint(mark, on)}{paint(head, on)}{paint(Toned(point.answer.verdict, mark.tone), on)}"


def _why(answer: Answer, on: Screen) -> Iterator[str]:
    for one in answer.evidence[:MOST]:
        yield from told(f"{one.place}: {one.text}" if one.place else one.text, on, "dim")
    if len(answer.evidence) > MOST:
        yield from told(f"and {len(answer.evidence) - MOST} more", on, "dim")
    if answer.shows:
        yield from told(f"What would show it: {answer.shows}", on)
