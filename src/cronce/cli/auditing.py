"""An audit, from the paths to the exit code."""

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import Final, NamedTuple

from cronce.cli import say
from cronce.cli.audit_report import checked, counted, explained, fixed, listed, number, shown, verdict
from cronce.cli.host_settings import system_zone
from cronce.cli.terminal import ColouredText, Screen, bar, paint, screen
from cronce.clock import SystemClock
from cronce.errors import BadInput
from cronce.stores import mask_all
from cronce_audit import outcome as baselines
from cronce_audit.checklist import answers
from cronce_audit.config import (
    AuditSettings,
    Project,
    confidence,
    find_project,
    gone,
    rule_named,
    rules_named,
    threshold,
    zone,
)
from cronce_audit.engine import Report, files, is_wanted, read_tree, report_of
from cronce_audit.evidence import Seen, mentions
from cronce_audit.fixes import WRITTEN, mend
from cronce_audit.formats import annotations, checklist_document, document, rule_document, sarif
from cronce_audit.live import clock_in_step, look_at
from cronce_audit.model import Facts, Finding, LockDeclared, Place, Unparsed, ZoneSet, rules
from cronce_audit.outcome import AuditOutcome, weigh
from cronce_audit.page import page

AUDIT_ACTIONS: Final = ("rules", "explain")
NO_FILE: Final = (
    "no file of a known kind was found; vendored folders, tests and files that .gitignore leaves out are read only"
    " if you name them"
)
NO_KIND: Final = (
    "cronce does not know this kind of file by its name; a crontab must be called crontab, *.crontab or *.cron, or be"
    " in cron.d"
)
NOTHING_READ: Final = 3
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
    outcome: AuditOutcome
    facts: Facts
    paths: Sequence[str]
    seconds: float


def audit_paths(paths: Sequence[Path], options: argparse.Namespace) -> int:
    _refuse(paths, options)
    here = paths or [Path()]
    project = Project(Path("/"), AuditSettings(), None) if options.live else find_project(here)
    settings = _settings(project.settings, options)
    for note in (*settings.notes, *gone([*options.select, *options.ignore])):
        say("audit", note)
    audited = _audited(here, project, settings, options)
    summary = ""
    if options.fix:
        mended = mend(project.root, audited.outcome.findings)
        for finding in mended:
            say("audit", f"{_under(project, options)}{finding.place}: {WRITTEN[finding.rule]} ({finding.rule})")
        audited = _audited(here, project, settings, options) if mended else audited
        summary = fixed(len(mended), audited.outcome)
    outcome = audited.outcome
    if summary and (not _is_for_people(options) or options.statistics or options.checklist or options.write_baseline):
        say("audit", summary)
    if options.statistics:
        print(counted(outcome, screen()))
        return _code(outcome, settings, options)
    if options.checklist and not outcome.is_empty:
        return _check(audited, project, options)
    if options.write_baseline:
        return _write_baseline(options.write_baseline, outcome, project.settings.baseline)
    _deliver(lambda on: _people(audited, project, on, options), lambda: _programs(outcome, settings, options), options)
    if summary and _is_for_people(options):
        print(summary)
    return _code(outcome, settings, options)


def _is_for_people(options: argparse.Namespace) -> bool:
    """Whether the report for people is printed: it also is where that for programs goes to a file."""
    return options.format == "people" or options.output is not None


def _refuse(paths: Sequence[Path], options: argparse.Namespace) -> None:
    """Refuses options that do not go together."""
    if options.live and paths:
        raise BadInput("--live checks this machine; leave out the path")
    if options.fix and options.live:
        raise BadInput("--fix changes files of a repository, and --live checks this machine: use one of them")
    if options.checklist and options.live:
        raise BadInput("--checklist checks a repository, and --live checks this machine: use one of them")
    if options.checklist and options.write_baseline:
        raise BadInput(
            "a baseline holds findings, and --checklist prints points: write the baseline without --checklist"
        )
    if options.checklist and options.format not in ("people", "json"):
        raise BadInput(f"--checklist prints text, or JSON with --json: {options.format} can hold findings only")
    if paths and _is_gone(paths[0]):
        for meant in get_close_matches(str(paths[0]), AUDIT_ACTIONS, n=1):
            raise BadInput(f"there is no file or folder {paths[0]}; did you mean `cronce audit {meant}`?")


def _settings(said: AuditSettings, options: argparse.Namespace) -> AuditSettings:
    """The project's settings; the command line overrides them."""
    ignored = {rule.id: "--ignore" for rule in rules_named(options.ignore)}
    return said._replace(
        exclude=(*said.exclude, *options.exclude),
        ignore={**said.ignore, **ignored},
        fail_on=threshold(options.fail_on) if options.fail_on else said.fail_on,
        min_confidence=confidence(options.min_confidence) if options.min_confidence else said.min_confidence,
        baseline=options.baseline or said.baseline,
        zone=zone(options.zone) if options.zone else said.zone,
        tests=options.tests or said.tests,
    )


def _audited(paths: Sequence[Path], project: Project, settings: AuditSettings, options: argparse.Namespace) -> Audited:
    clock = SystemClock()
    begun, year = clock.boot(), clock.wall().year
    selected = options.select or settings.select
    chosen = rules_named(selected) if selected else list(rules().values())
    unread: list[Unparsed] = []
    read = [] if options.live else _files(paths, project.root, settings, unread)
    known = [] if options.write_baseline or not settings.baseline else baselines.read(settings.baseline)
    whole = 0 if options.no_progress else sum(map(is_wanted, read))
    if options.live:
        seen = look_at(project.root, settings.zone or system_zone(), in_step=clock_in_step())
    else:
        seen = read_tree(project.root, read, partial(bar, "audit", whole=whole))
    seen = seen._replace(unparsed=[*unread, *seen.unparsed])
    report = report_of(seen, project.root, year, chosen=chosen, known=_known(project, settings, options))
    asked, there = {rule.id for rule in chosen}, set(read) - {one.place.path for one in seen.unparsed}

    def was_asked(entry: baselines.Entry) -> bool:
        return entry.rule in asked and (entry.path in there or _is_gone(project.root / entry.path))

    outcome = weigh(_masked(report), settings, known, was_asked)
    return Audited(outcome, report.facts, read, clock.boot() - begun)


def _known(project: Project, settings: AuditSettings, options: argparse.Namespace) -> Sequence[ZoneSet | LockDeclared]:
    return [*_zones(project, settings, options), *map(LockDeclared, settings.locks)]


def _zones(project: Project, settings: AuditSettings, options: argparse.Namespace) -> Sequence[ZoneSet]:
    """The zone of the machines from `--zone` or the config. With `--live` the machine itself gives it."""
    if options.live or not settings.zone:
        return []
    return [ZoneSet(settings.zone, Place("--zone" if options.zone else project.said_in or "", 0), "")]


def _is_gone(path: Path) -> bool:
    try:
        return not path.exists()
    except OSError:  # its folder may not be read
        return False


def _files(paths: Sequence[Path], root: Path, settings: AuditSettings, unread: list[Unparsed]) -> list[str]:
    """Sorted, each file once, even if paths overlap."""
    found: set[str] = set()
    for path in paths:
        below = PurePosixPath(path.resolve().relative_to(root).as_posix())
        found.update(files(root, settings.exclude, tests=settings.tests, below=below, unread=unread))
    return sorted(found)


def _masked(report: Report) -> Report:
    """A line may hold a URL with a password, and the output may be public."""

    def masked(finding: Finding) -> Finding:
        message, remedy, snippet = map(mask_all, (finding.message, finding.remedy, finding.snippet))
        return finding._replace(message=message, remedy=remedy, snippet=snippet)

    return report._replace(
        findings=list(map(masked, report.findings)),
        suppressed=[(masked(one), by._replace(reason=mask_all(by.reason))) for one, by in report.suppressed],
    )


def _write_baseline(path: Path, outcome: AuditOutcome, configured: Path | None) -> int:
    written = baselines.write(path, outcome.entries())
    how = "" if configured and configured.resolve() == path.resolve() else f", with --baseline {path}"
    print(f"{path}: {number(written, 'finding')} written; from now on only other findings fail the audit{how}")
    return 0


def _check(audited: Audited, project: Project, options: argparse.Namespace) -> int:
    answered = answers(Seen(audited.outcome, audited.facts, mentions(project.root, audited.paths)))
    _deliver(
        partial(checked, answered, shows_all=options.all),
        lambda: [json.dumps(checklist_document(answered), ensure_ascii=False)],
        options,
    )
    return 1 if any(one.answer.verdict == "not met" for one in answered) else 0


def _deliver(
    people: Callable[[Screen], Iterable[str]], programs: Callable[[], Iterable[str]], options: argparse.Namespace
) -> None:
    """Writes the report to the file, if one is named, and then prints it for people; else prints the chosen format."""
    if options.output:
        _write(options.output, people(Screen()) if options.format == "people" else programs())
    for line in people(screen()) if _is_for_people(options) else programs():
        print(line)


def _write(path: Path, lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    try:
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from None


def _people(audited: Audited, project: Project, on: Screen, options: argparse.Namespace) -> Iterator[str]:
    """The time taken is shown on a terminal only: other output must be the same from run to run."""
    yield from shown(audited.outcome, on, _under(project, options), suppressed=options.suppressed, every=options.all)
    if not audited.outcome.is_empty:
        words = ("file or process", "files and processes") if options.live else ("file", "files")
        read = f"{number(audited.outcome.files, *words)} read"
        yield from verdict(audited.outcome, on, f"{read} in {audited.seconds:.1f} s" if on.width else read)
        yield from (paint(ColouredText(line, "dim"), on) for line in _from_where(project, options))


def _under(project: Project, options: argparse.Namespace) -> str:
    """Paths are shown from the working directory, so that a terminal can open them; with several paths, from the folder
    that holds them all."""
    here = Path.cwd()
    if project.root == here or len(options.paths) > 1:
        return ""
    root = project.root.relative_to(here) if project.root.is_relative_to(here) else project.root
    return f"{root}".rstrip("/") + "/"


def _from_where(project: Project, options: argparse.Namespace) -> Iterator[str]:
    """Where paths are from, and whether only a folder of the project was read: files that are deployed together are
    often elsewhere in it."""
    here, root = Path.cwd(), project.root
    if len(options.paths) > 1:
        if root != here:
            yield f"paths are from {root}"
        return
    read = Path(*options.paths).resolve()
    if options.live or read == root or not read.is_dir() or not (project.said_in or (root / ".git").exists()):
        return
    up = "/".join([".."] * len(here.relative_to(root).parts)) if here.is_relative_to(root) else str(root)
    whole = f"cronce audit {quote(up)}" if up else "cronce audit"
    yield f"only {read.relative_to(root)}/ of {root} was read; `{whole}` reads all of it"


def _programs(outcome: AuditOutcome, settings: AuditSettings, options: argparse.Namespace) -> Iterator[str]:
    match options.format:
        case "github":
            yield from annotations(outcome)
        case "sarif":
            told = sarif(outcome, rules(), settings.pages, suppressed=options.suppressed)
            yield json.dumps(told, indent=1, ensure_ascii=False)
        case _:
            yield json.dumps(document(outcome), ensure_ascii=False)


def _code(outcome: AuditOutcome, settings: AuditSettings, options: argparse.Namespace) -> int:
    if outcome.unparsed and options.strict:
        return UNREAD
    if outcome.is_empty:
        files_named = [path for path in options.paths if Path(path).is_file()]
        why = f"{files_named[0]}: {NO_KIND}" if files_named else NO_FILE
        say("audit", f"nothing to audit: {why}")
        return NOTHING_READ
    return 1 if outcome.fails(settings.fail_on) else 0
