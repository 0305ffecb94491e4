"""What pipelines, scripts and pages of a tree mention: whether CI audits, whether somebody looks for duplicates.

These are texts, found by their words. They show that something is there, never that it works; and where they show
nothing, that says little: a runbook may be in a wiki.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cronce_audit.engine import read_text
from cronce_audit.model import Place

_PIPELINES: Final = re.compile(
    r"(?:^|/)(?:\.github/workflows/[^/]+\.ya?ml|\.gitlab-ci\.yml|\.gitlab/.+\.yml|\.circleci/config\.yml|Jenkinsfile|"
    r"azure-pipelines\.ya?ml|bitbucket-pipelines\.yml|\.buildkite/.+\.yml|\.pre-commit-config\.yaml|\.travis\.yml|"
    r"\.woodpecker(?:/.+)?\.ya?ml|\.drone\.yml|lefthook\.ya?ml|Makefile|makefile|justfile|Taskfile\.ya?ml|tox\.ini|"
    r"noxfile\.py)$"
)
_PAGES: Final = re.compile(r"\.(?:md|rst|adoc)$", re.IGNORECASE)
_SCRIPTS: Final = re.compile(r"\.(?:sh|bash|py|sql|ya?ml|toml|ini|service|timer|js|ts|java|kt)$|crontab", re.IGNORECASE)
_ALERTS: Final = re.compile(r"\.(?:ya?ml|rules|tf|json)$")
_COMMENT: Final = re.compile(r"\s*(?:#|//|--)")


class Sign(NamedTuple):
    """Words that show something, and the files in which they count."""

    what: str
    files: tuple["re.Pattern[str]", ...]
    words: "re.Pattern[str]"


def _sign(what: str, words: str, *files: "re.Pattern[str]") -> Sign:
    return Sign(what, files, re.compile(words, re.IGNORECASE))


_QUERY: Final = r"\bhaving\s+count\s*\([^()]*\)\s*>\s*1\b"
_ANYWHERE: Final = (_PIPELINES, _PAGES, _SCRIPTS)
SIGNS: Final = (
    _sign("audit", r"\bcronce[- ]audit\b", _PIPELINES),
    _sign("dupes", r"\bcronce dupes\b", *_ANYWHERE),
    _sign("dupes", _QUERY, _PIPELINES),
    _sign("queries", _QUERY, _PAGES, re.compile(r"\.(?:sh|bash|sql)$")),
    _sign("logs", r"\bcronce logs\b", *_ANYWHERE),
    _sign("drain", r"\bcronce drain\b|\bstop\b.{0,60}\bscheduler\b.{0,80}\bbefore\b", *_ANYWHERE),
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
    """The words, and not the line: that may hold what is secret."""

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
    except (OSError, UnicodeDecodeError):  # the audit has told
        return
    is_page = _PAGES.search(path) is not None
    for number, line in enumerate(text.split("\n"), start=1):
        if is_page or not _COMMENT.match(line):
            for sign in signs:
                if words := sign.words.search(line):
                    yield Mention(sign.what, Place(path, number), words[0].strip()[:60])
