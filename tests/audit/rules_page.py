"""docs/reference/rules.md, made of the rules and their pages: `python -m tests.audit.rules_page > …/rules.md`."""

from collections.abc import Iterator
from itertools import groupby

from cronce_audit.model import Rule, rules
from cronce_audit.page import page, summary

GROUPS = {
    "CR0": "The auditor itself",
    "CR1": "APScheduler",
    "CR2": "Processes, web servers, Celery and other schedulers of Python",
    "CR3": "Locks made by hand; hours and overlaps, in any language",
    "CR4": "Crontabs, scripts and Task Scheduler",
    "CR5": "Kubernetes and Helm",
    "CR6": "Dockerfile, compose, Procfile and systemd",
    "CR7": "JavaScript, TypeScript, Java and other languages",
    "CR9": "This machine, now",
}
INTRO = """\
# Rules of the auditor

What [`cronce audit`](audit.md) looks for. Each rule has a page with bad and good samples, which are tests of the rule;
`cronce audit explain CR101` shows it in the terminal. *Severity* is how bad it is if it is so: an **error** will run
twice or be lost in the ordinary life of the deployment, a **warning** can at an event that does happen (a restart, a
deploy, a crash), and the files show that more than one process runs it, or that it does harm; **info** is worth
knowing. *Confidence* is how sure it is that it is so. Of a single finding both may differ from its rule, where the
files say more, or less.
"""


def text() -> str:
    return "\n".join([INTRO, *_groups()]) + "\n"


def _groups() -> Iterator[str]:
    for group, found in groupby(rules().values(), key=lambda rule: rule.id[:3]):
        yield f"## {GROUPS[group]}\n\n| rule | name | severity | confidence | what it is about |\n|---|---|---|---|---|"
        yield from map(_row, found)
        yield ""


def _row(rule: Rule) -> str:
    link = f"[{rule.id}](../../src/cronce_audit/pages/{rule.id}.md)"
    what = summary(page(rule)).replace("|", "\\|")
    return f"| {link} | {rule.name} | {rule.severity.word} | {rule.confidence.word} | {what} |"


if __name__ == "__main__":
    print(text(), end="")
