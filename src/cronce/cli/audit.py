"""cronce audit: where in a repository a scheduled job can run twice, be lost or overlap."""

import argparse
from pathlib import Path
from typing import Final

from cronce.cli import Arguments, add_arguments
from cronce.errors import BadInput

USAGE: Final = """\
cronce audit [PATH ...] [options]
       cronce audit --live [options]
       cronce audit rules [--json]
       cronce audit explain RULE ..."""

AUDIT_DESCRIPTION: Final = """\
Find where a scheduled job can run twice, be lost or overlap: in Python,
crontabs, scripts, Kubernetes, Helm, Dockerfiles, compose, Procfiles, systemd,
JavaScript, TypeScript and Java. Reads only; nothing that is read is imported or
run.

  cronce audit rules            what is looked for
  cronce audit explain CR101    one rule: why, samples, how to fix it

A path that is called `rules`, `explain`, `logs` or `dupes` is written ./rules."""

AUDIT_EPILOG: Final = """
exit codes:
  0 clean
  1 there are findings at or above --fail-on
  2 the options or the config are wrong
  3 there is nothing to audit
  4 with --strict, something could not be read

examples:
  cronce audit
  cronce audit src deploy --fail-on error
  cronce audit --format sarif --output cronce.sarif
  cronce audit --write-baseline audit-baseline.json
"""

AUDIT_ARGUMENTS: Final[Arguments] = {
    "paths: [PATH...]": "files and folders (default: the working directory)",
    "--live": "look at this machine instead: its crontabs, timers, processes and clock",
    "--format {people,json,sarif,github}": ("people", "for people, or for programs (default: people)"),
}
REPORT_FILE_ARGUMENT: Final = {"--output FILE": "write the report to this file; the report for people is still printed"}
REPORT_ARGUMENTS: Final = {
    "--checklist": "check the points of checklists for scheduled jobs instead",
    "--statistics": "print the number of findings of each rule instead",
    "--fix": "fix what is certain (CR102, CR103, CR501), and report the rest",
    "--all": "show every finding of severity info, even several at one place; and all places of a checklist",
    "--suppressed": "also list what is suppressed or in the baseline, and why",
    "--no-progress": "draw no progress bar (there is one only on a terminal)",
}
RULE_ARGUMENTS: Final[Arguments] = {
    "--select RULE": ([], "only these rules: CR101,CR2; repeatable"),
    "--ignore RULE": ([], "all rules but these; repeatable"),
    "--exclude GLOB": ([], "leave out these files, written as in .gitignore; repeatable"),
    "--tests": "also read tests",
    "--zone NAME": "the time zone of the machines, if no file names it",
}
FAILURE_ARGUMENTS: Final = {
    "--fail-on {error,warning,info,never}": "the lowest severity that fails the audit (default: warning)",
    "--min-confidence {low,medium,high}": "leave out findings that are less certain",
    "--strict": "exit with 4 where something could not be read",
}
BASELINE_ARGUMENTS: Final = {
    "--baseline FILE": "findings listed in this file do not fail the audit",
    "--write-baseline FILE": "write the current findings to this file, and exit with 0",
}


def add_audit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = USAGE
    parser.set_defaults(hint="give all paths together, with the options before or after them")
    parser.add_argument("--json", action="store_const", dest="format", const="json", help="print one JSON document")
    add_arguments(parser, REPORT_FILE_ARGUMENT, type=Path)
    add_arguments(parser, REPORT_ARGUMENTS)
    add_arguments(parser.add_argument_group("what is looked for"), RULE_ARGUMENTS)
    fails = parser.add_argument_group("what counts as a failure")
    add_arguments(fails, FAILURE_ARGUMENTS)
    add_arguments(fails, BASELINE_ARGUMENTS, type=Path)


def run_audit(options: argparse.Namespace) -> int:
    try:
        from cronce.cli import auditing  # noqa: PLC0415  its packages may be missing

        match options.paths:
            case ["rules"]:
                auditing.list_rules(options)
            case ["explain", *named]:
                auditing.explain(named, options)
            case paths:
                return auditing.audit_paths(list(map(Path, paths)), options)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] in ("cronce", "cronce_audit"):
            raise
        raise BadInput(f"the auditor needs {missing.name}: pip install 'cronce[audit]'") from None
    return 0
