"""cronce audit: where in a repository a scheduled job can run twice, be lost or overlap."""

import argparse
from pathlib import Path
from typing import Final

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

FORMATS: Final = ("people", "json", "sarif", "github")


def add_audit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = USAGE
    parser.set_defaults(hint="give all paths together, with the options before or after them")
    add = parser.add_argument
    add("paths", nargs="*", metavar="PATH", help="files and folders (default: the working directory)")
    add("--live", action="store_true", help="look at this machine instead: its crontabs, timers, processes and clock")
    add("--format", choices=FORMATS, default="people", help="for people, or for programs (default: people)")
    add("--json", action="store_const", dest="format", const="json", help="print one JSON document")
    add(
        "--output",
        type=Path,
        metavar="FILE",
        help="write the report to this file; the report for people is still printed",
    )
    add("--checklist", action="store_true", help="check the points of checklists for scheduled jobs instead")
    add("--statistics", action="store_true", help="print the number of findings of each rule instead")
    add("--fix", action="store_true", help="fix what is certain (CR102, CR103, CR501), and report the rest")
    add("--all", action="store_true", help="show every finding of severity info, even several at one place")
    add("--suppressed", action="store_true", help="also list what is suppressed or in the baseline, and why")
    add("--no-progress", action="store_true", help="draw no progress bar (there is one only on a terminal)")
    what = parser.add_argument_group("what is looked for").add_argument
    what("--select", action="append", default=[], metavar="RULE", help="only these rules: CR101,CR2; repeatable")
    what("--ignore", action="append", default=[], metavar="RULE", help="all rules but these; repeatable")
    what(
        "--exclude",
        action="append",
        default=[],
        metavar="GLOB",
        help="leave out these files, written as in .gitignore; repeatable",
    )
    what("--tests", action="store_true", help="also read tests")
    what("--zone", metavar="NAME", help="the time zone of the machines, if no file names it")
    fails = parser.add_argument_group("what counts as a failure").add_argument
    fails(
        "--fail-on",
        choices=("error", "warning", "info", "never"),
        help="the lowest severity that fails the audit (default: warning)",
    )
    fails("--min-confidence", choices=("low", "medium", "high"), help="leave out findings that are less certain")
    fails("--strict", action="store_true", help="exit with 4 where something could not be read")
    fails("--baseline", type=Path, metavar="FILE", help="findings listed in this file do not fail the audit")
    fails(
        "--write-baseline", type=Path, metavar="FILE", help="write the current findings to this file, and exit with 0"
    )


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
