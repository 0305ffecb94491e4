"""What the checklists use: answers, the jobs of a tree in any language, and words that its files mention.

Words are searched for in pipelines, scripts and pages. They show that something exists, never that it works. A missing
word proves little: a runbook may be in a wiki.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from cronce_audit.containers.facts import ScheduledJob
from cronce_audit.containers.schedules import scheduled
from cronce_audit.engine import read_text
from cronce_audit.model import Facts, Finding, Place
from cronce_audit.outcome import AuditOutcome

_PIPELINES: Final = re.compile(
    r"(?:^|/)(?:\.github/workflows/[^/]+\.ya?ml|\.gitlab-ci\.yml|\.gitlab/.+\.yml|\.circleci/config\.yml|Jenkinsfile|"
    r"azure-pipelines\.ya?ml|bitbucket-pipelines\.yml|\.buildkite/.+\.yml|\.pre-commit-config\.yaml|\.travis\.yml|"
    r"\.woodpecker(?:/.+)?\.ya?ml|\.drone\.yml|lefthook\.ya?ml|Makefile|makefile|justfile|Taskfile\.ya?ml|tox\.ini|"
    r"noxfile\.py)$"
)
_PAGES: Final = re.compile(r"\.(?:md|rst|adoc)$", re.IGNORECASE)
_SCRIPTS: Final = re.compile(r"\.(?:sh|bash|py|sql|ya?ml|toml|ini|service|timer|js|ts|java|kt)$|crontab", re.IGNORECASE)
_ALERTS: Final = re.compile(r"\.(?:ya?ml|rules|tf|json)$")
_COMMENT_LINE: Final = re.compile(r"\s*(?:#|//|--)")


class Sign(NamedTuple):
    """A pattern that shows something, and the kinds of files in which it counts."""

    what: str
    files: tuple["re.Pattern[str]", ...]
    words: "re.Pattern[str]"


def _sign(what: str, words: str, *files: "re.Pattern[str]") -> Sign:
    return Sign(what, files, re.compile(words, re.IGNORECASE))


_QUERY: Final = r"\bhaving\s+count\s*\([^()]*\)\s*>\s*1\b"
_ANYWHERE: Final = (_PIPELINES, _PAGES, _SCRIPTS)
SIGNS: Final = (
    _sign("audit", r"\bcronce[- ]audit\b", _PIPELINES),
    _sign("dupes", r"\bcronce (?:audit )?dupes\b", *_ANYWHERE),
    _sign("dupes", _QUERY, _PIPELINES),
    _sign("queries", _QUERY, _PAGES, re.compile(r"\.(?:sh|bash|sql)$")),
    _sign("logs", r"\bcronce (?:audit )?logs\b", *_ANYWHERE),
    _sign("drain", r"\bcronce (?:drain|pause --scheduler)\b|\bstop\b.{0,60}\bscheduler\b.{0,80}\bbefore\b", *_ANYWHERE),
    _sign("doctor", r"\bcronce doctor\b", *_ANYWHERE),
    _sign("silence", r"hc-ping\.com|healthchecks\.io|\bcronitor\b|deadmanssnitch|betteruptime", _PIPELINES, _SCRIPTS),
    _sign("silence", r"^\s*-?\s*(?:alert|expr):.*(?:heartbeat|absent(?:_over_time)?\(|last_success|silent)", _ALERTS),
    _sign("doubled", r"^\s*-?\s*alert:.*(?:duplicat|doubled|twice|second_?scheduler)", _ALERTS),
    _sign("duration", r"^\s*-?\s*(?:alert|expr):.*(?:lock|lease|duration|overrun|runtime)", _ALERTS),
    _sign("once", r"\brun\.(?:on|once(?:_each)?)\(|@\w+\.idempotent\b", _SCRIPTS),
    _sign("keys", r"idempotency[-_]?key|\bon conflict\b|\binsert ignore\b", _SCRIPTS),
    _sign(
        "retries",
        r"\bautoretry_for\b|\bmax_retries\s*=\s*[1-9]|\bretries\s*=\s*[1-9]|\battempts:\s*[2-9]|@Retryable\b",
        _SCRIPTS,
    ),
)


class Mention(NamedTuple):
    """The matched words only: the whole line may hold a secret."""

    what: str
    place: Place
    words: str


def mentions(root: Path, paths: Sequence[str]) -> list[Mention]:
    return [one for path in paths for one in _mentions(root, path)]


def _mentions(root: Path, path: str) -> Iterator[Mention]:
    signs = [sign for sign in SIGNS if any(kind.search(path) for kind in sign.files)]
    if not signs:
        return
    try:
        text = read_text(root, path)
    except (OSError, UnicodeDecodeError):  # the audit reports this
        return
    is_page = _PAGES.search(path) is not None
    for number, line in enumerate(text.split("\n"), start=1):
        if is_page or not _COMMENT_LINE.match(line):
            for sign in signs:
                if words := sign.words.search(line):
                    yield Mention(sign.what, Place(path, number), words[0].strip()[:60])


Verdict = Literal["met", "not met", "cannot tell", "not relevant"]
VERDICTS: Final[tuple[Verdict, ...]] = ("not met", "cannot tell", "met", "not relevant")


class Evidence(NamedTuple):
    """A reason for an answer. Without a place it is about the whole tree."""

    text: str
    place: Place | None = None


class Answer(NamedTuple):
    verdict: Verdict
    evidence: Sequence[Evidence] = ()
    shows: str = ""
    """If the answer is not known: what would show it."""


def met(*evidence: Evidence | str) -> Answer:
    return Answer("met", _evidence(evidence))


def not_met(*evidence: Evidence | str) -> Answer:
    return Answer("not met", _evidence(evidence))


def cannot_tell(shows: str, *evidence: Evidence | str) -> Answer:
    return Answer("cannot tell", _evidence(evidence), shows)


def not_relevant(why: str) -> Answer:
    return Answer("not relevant", (Evidence(why),))


def judged(
    nothing: str,
    wrong: Iterable[Evidence],
    fine: Iterable[Evidence],
    unclear: Iterable[Evidence] = (),
    shows: str = "",
) -> Answer:
    """By the first that there is: why it is not relevant, what is wrong, what cannot be told; else it is met."""
    answers = (not_met(*wrong), cannot_tell(shows, *unclear))
    told = next((one for one in answers if one.evidence), met(*fine))
    return not_relevant(nothing) if nothing else told


def _evidence(given: Iterable[Evidence | str]) -> Sequence[Evidence]:
    return tuple(Evidence(one) if isinstance(one, str) else one for one in given)


class Seen(NamedTuple):
    """All that is known about a tree."""

    outcome: AuditOutcome
    facts: Facts
    mentions: Sequence[Mention] = ()

    def found(self, *names: str) -> list[Evidence]:
        """What the rules with these names found, including the baseline, but not what is suppressed with a reason."""
        known = [one.finding for one in self.outcome.set_aside if one.how == "baseline"]
        return [_of(one) for one in (*self.outcome.findings, *known) if one.name in names]

    def mentioned(self, *what: str) -> list[Evidence]:
        return [Evidence(f"`{one.words}`", one.place) for one in self.mentions if one.what in what]


def _of(finding: Finding) -> Evidence:
    return Evidence(f"{finding.rule}: {finding.message}", finding.place)


SEVERAL_PROCESSES: Final = (
    "scheduler-in-every-worker", "scheduler-in-every-replica",
    "timer-in-every-worker", "beat-inside-a-worker",
    "several-beats", "cron-in-every-copy", "job-in-every-process",
    "same-job-twice", "task-registered-twice", "scheduler-running-twice",
)  # fmt: skip
INSIDE: Final = "scheduler-inside-the-app"
"""There is one process today, or a guard that cannot be judged."""
SURGE: Final = ("two-schedulers-during-a-rollout",)
NOTHING: Final = "nothing that is scheduled was found"


def _job(one: ScheduledJob) -> Evidence:
    return Evidence(f"{one.what}, by {one.by}", one.place)


def _jobs(seen: Seen) -> Sequence[ScheduledJob]:
    return sorted(seen.facts.conclude(scheduled), key=lambda one: one.place)


def all_locked(facts: Facts) -> bool:
    found = facts.conclude(scheduled)
    return bool(found) and all(one.guard for one in found)


def all_guarded(facts: Facts) -> bool:
    """By something that makes a slot run once; a lock that is released when the job ends does not."""
    return all_locked(facts) and all(one.kept for one in facts.conclude(scheduled))


def entry_is_locked(seen: Seen) -> Answer:
    found = _jobs(seen)
    if not found:
        return not_relevant(NOTHING)
    if open_ := [_job(one) for one in found if one.guard is False]:
        have = f"{'job' if len(found) == 1 else 'jobs'} {'has' if len(open_) == 1 else 'have'}"
        return not_met(f"{len(open_)} of {len(found)} {have} no lock that all machines see", *open_)
    if unclear := [_job(one) for one in found if one.guard is None]:
        return cannot_tell(
            "a lock in the function of each job: an advisory lock, `SET … NX`, ShedLock, `cron.job` of cronce", *unclear
        )
    if released := seen.found("lock-released-when-the-job-ends"):
        return not_met("it keeps runs apart, and does not make a slot run once", *released)
    return met(f"all {len(found)} jobs are under one", *map(_job, found))


def one_process(seen: Seen) -> Answer:
    if found := seen.found(*SEVERAL_PROCESSES, *SURGE):
        return not_met(*found)
    if not seen.facts.conclude(scheduled):
        return not_relevant(NOTHING)
    if all_guarded(seen.facts):
        return met("any number may run: every job is under a lock that all machines see")
    if inside := seen.found(INSIDE):
        return cannot_tell("how many processes and machines start it; `--workers 1`, a lock, or one replica", *inside)
    there = _jobs(seen)
    if unclear := [_job(one) for one in there if not one.single]:
        return cannot_tell(
            "who starts it, and how often: a Procfile, compose file, unit or manifest that says so", *unclear
        )
    return met("one process starts each", *map(_job, there))


def old_stops_first(seen: Seen) -> Answer:
    """The old scheduler stops first when a new version is deployed."""
    if found := seen.found(*SURGE):
        return not_met(*found)
    if not seen.facts.conclude(scheduled):
        return not_relevant(NOTHING)
    if all_guarded(seen.facts):
        return met("old and new may run side by side: every job is under a lock that all machines see")
    if told := seen.mentioned("drain"):
        return met(*told)
    return cannot_tell("a runbook or pipeline step that stops the old scheduler, or `cronce pause --scheduler web-1`")
