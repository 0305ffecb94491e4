"""Which lines are starts and ends.

Known programs are recognised by their own messages. A line of any other program is a start or an end if it names a
job and reports one of the job itself: `job_id=ORDER_SYNC START run=7`, `{"event": "job_started", "job": "sync"}`,
`Job sync finished`. A line with words of both kinds is an end; one that says *not* or *skipped* is nothing, and so is
one about a part of the job, `job=sync upload started`.

Commands may hold passwords, so URLs in them are masked.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from cronce.stores import mask_all
from cronce.value import NamedTuple
from cronce_audit.logs.envelope import HOST, PAIR, PID, TEXT, TIME, Letter, first
from cronce_audit.logs.judge import Form, LogEvent

LIKELY: Final = re.compile(
    rb"(?<![a-z0-9])[abcdefgrst](?:tart|eg[aiu]n|nd(?:ed)?(?![a-z0-9])|inish|omplete|one(?![a-z0-9])|uccee|uccess|ail|bort"
    rb"|unning|aised|md|ending due|eceived|etry|ranted|aken over|losed|eleased)"
)
"""Every recognised line contains this, in lower case: searching for it first saves nearly all the work."""

# --- known programs -------------------------------------------------------------------------------------------------

_CRON: Final = re.compile(r"\((\S+)\) (CMD|CMDEND|END) \((?:\[\d+\] )?(.*)\)\s*")
_BUSYBOX_CRON: Final = re.compile(r"USER (\S+) pid +(\d+) cmd (.*)")
_RUNNING: Final = re.compile(
    r'Running job "(.{1,255}?) \(trigger: (.{0,999}?)(?:, next run at: [^"]*)?" \(scheduled at ([^)]{1,99})\)'
)
_RAN: Final = re.compile(r'Job "(.{1,255}?) \(trigger: .{0,999}" (executed successfully|raised an exception)')
_SENDING: Final = re.compile(r"Scheduler: Sending due task (.{1,255}) \((\S{1,255})\)")
_TASK: Final = re.compile(r"Task (\S{1,255})\[([0-9a-f-]{36})\] (\w+)")
_SLOT: Final = re.compile(
    r"([A-Za-z0-9_][\w.:-]{0,127})@(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)(#\S+)?"
    r" (granted|taken over|started|ended|released|retrying|closed)(?:: (?:attempt (\d+)|(\w+)))?"
)


def _cron(letter: Letter) -> LogEvent | None:
    """Debian's cron logs `END` only on request, cronie always logs `CMDEND`. One command of two users is two jobs."""
    if found := _CRON.fullmatch(letter.text):
        return LogEvent(found[2] == "CMD", f"{found[1]}: {mask_all(found[3])}", Form.CRON)
    found = _BUSYBOX_CRON.fullmatch(letter.text)
    return (
        LogEvent(starts=True, job=f"{found[1]}: {mask_all(found[3])}", form=Form.CRON, run=found[2]) if found else None
    )


def _apscheduler(letter: Letter) -> LogEvent | None:
    if found := _RUNNING.search(letter.text):
        about = {"trigger": hash(found[2])}
        return LogEvent(starts=True, job=found[1], form=Form.APSCHEDULER, slot=found[3], about=about)
    found = _RAN.search(letter.text)
    failed = found is not None and found[2] == "raised an exception"
    return LogEvent(starts=False, job=found[1], form=Form.APSCHEDULER, failed=failed) if found else None


def _celery(letter: Letter) -> LogEvent | None:
    if found := _SENDING.search(letter.text):
        return LogEvent(starts=True, job=f"{found[1]} → {found[2]}", form=Form.BEAT)
    found = _TASK.search(letter.text)
    if found is None:
        return None
    task, run, word = found.groups()
    return LogEvent(word == "received", task, Form.CELERY, run, failed=word not in ("received", "succeeded"))


def _supercronic(letter: Letter) -> LogEvent | None:
    """The output of a job itself has a `channel`."""
    fields = letter.fields
    if "job.command" not in fields or "iteration" not in fields or "channel" in fields:
        return None
    text, job = fields.get("msg", ""), mask_all(fields["job.command"])
    run = f"{fields.get('job.position', '')}/{fields['iteration']}"
    if text == "starting":
        return LogEvent(starts=True, job=job, form=Form.SUPERCRONIC, run=run)
    ended, failed = text == "job succeeded", text.startswith("error running command")
    return LogEvent(starts=False, job=job, form=Form.SUPERCRONIC, run=run, failed=failed) if ended or failed else None


def _cronce(letter: Letter) -> LogEvent | None:
    """cronce's own: `granted` and `started` are one start; a takeover and any later attempt are intended starts."""
    found = _SLOT.search(letter.text)
    if found is None:
        return None
    job, slot, request, word, attempt, outcome = found.groups()
    return LogEvent(
        word in ("granted", "taken over", "started"), job, Form.CRONCE, run=f"{job}@{slot}{request or ''}",
        slot="" if request else slot, failed=word in ("retrying", "released") or outcome in ("failed", "lost", "given"),
        again=word == "taken over" or int(attempt or 1) > 1, by=letter.fields.get("holder", ""),
    )  # fmt: skip


_KNOWN: Final = (_cron, _apscheduler, _celery, _supercronic, _cronce)

# --- other programs -------------------------------------------------------------------------------------------------

JOB: Final = ("job", "job_id", "job_name", "jobname", "job.name", "job.id", "jobId", "jobName", "task", "task_name")
RUN: Final = ("run", "run_id", "runid", "runId", "run.id", "execution_id", "executionId", "task_id", "id")
SLOT: Final = ("slot", "scheduled_at", "scheduled_for", "scheduled_time", "scheduled")
EVENT: Final = ("event", "event_type", "event.action", "action", "phase", "status", "state")
_ACCOUNTED: Final = frozenset((*TIME, *TEXT, *HOST, *PID, *JOB, *RUN, *SLOT, *EVENT))


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


STARTS: Final = _words("start started starting begin began begun beginning")
FAILURES: Final = _words("failed failure aborted")
ENDS: Final = FAILURES | _words("end ended finish finished complete completed done succeeded success")
EITHER: Final = STARTS | ENDS
LEVELS: Final = _words("trace debug info notice warn warning error critical fatal")
BEFORE: Final = LEVELS | _words("job task run execution cron scheduled the this a has is was been now")
AFTER: Final = BEFORE | _words("in at with after for on by from as ok pid successfully within")
"""What may come right before or after the word. Any other word means a part of the job: `job=sync upload started`."""

OF_NO_WEIGHT: Final = _words(
    "trace span request req correlation transaction session thread worker seq sequence offset cursor attempt retry"
    " traceid spanid requestid threadname time date at ms ts timestamp start started begin end duration elapsed took"
    " pid process host pod node container address ip port memory mem cpu count rows total size"
)
"""Parts of the names of fields that differ from start to start without saying what a run is for."""

_NOTHING: Final = re.compile(
    r"(?i)\b(?:not|never|cannot|can't|won't|skip\w*|already|refus\w*|miss\w*|will|would|should|waiting|queued|held"
    r"|lock\w*|before|unless|until|another|next)\b"
)
_NAMED_JOB: Final = re.compile(r"""(?i:\b(?:job|task))[ :]+["'`]?([A-Za-z0-9_][\w.:/-]*)""")
_LOUD_NAME: Final = re.compile(r"([A-Za-z][\w.-]{2,100})[ :]+(?:START|END)")
_NO_NAME: Final = EITHER | AFTER | _words("id runs runner queue store scheduler of to and took jobs")
_EDGES: Final = "\"'`()[]<>{},.;:!|-"
_CLAUSE: Final = tuple(":,;|])>-")


def _other(letter: Letter) -> LogEvent | None:
    job = _job(letter)
    words = _events(letter, job) if job else []
    if not words:
        return None
    fields, starts = letter.fields, words[0] in STARTS
    return LogEvent(
        starts, job, Form.WORDS, first(fields, RUN), first(fields, SLOT),
        failed=not starts and not FAILURES.isdisjoint(words), word=words[0], about=_about(fields) if starts else {},
    )  # fmt: skip


def _about(fields: Mapping[str, str]) -> Mapping[str, int]:
    """Other fields of a start, such as `tenant=5`, as hashes: they are only compared."""
    return {name: hash(value) for name, value in fields.items() if name not in _ACCOUNTED and _has_weight(name)}


def _has_weight(name: str) -> bool:
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    return not name.startswith("_") and OF_NO_WEIGHT.isdisjoint(word.lower() for word in words)


def _events(letter: Letter, job: str) -> list[str]:
    """The words that make it a start or an end, ends first: `finished, started at 14:00` is an end. Named fields count
    more than words in capitals, and those more than prose."""
    named = [value for name in EVENT if (value := letter.fields.get(name))]
    words = [word for value in named for word in _named_event(value, job)]
    if not words:
        words = _told(letter.text, job, loud=True)
    if not words and not _NOTHING.search(letter.text):
        words = _told(letter.text, job, loud=False)
    return sorted(words, key=STARTS.__contains__)


def _named_event(event: str, job: str) -> list[str]:
    """`job_started`, `run.finished` and `start`, but not `upload_started`."""
    tokens = re.findall(r"[a-z0-9]+", event.lower())
    others = {*tokens} - EITHER - BEFORE - {*re.findall(r"[a-z0-9]+", job.lower())}
    return [] if others else [token for token in tokens if token in EITHER]


def _told(text: str, job: str, *, loud: bool) -> list[str]:
    """The words of a sentence that are about the job itself."""
    tokens = ["", *PAIR.sub(" ", text).split(), ""]
    found = []
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        word = token.strip(_EDGES)
        if word.lower() not in EITHER or (loud and not word.isupper()) or not _fits(before, job, BEFORE):
            continue
        if loud or token != word or _fits(after, job, AFTER):
            found.append(word.lower())
    return found


def _fits(token: str, job: str, neutral: frozenset[str]) -> bool:
    """Whether a neighbouring word still lets the start be the job's own: no word, the job's name, a neutral word, or no
    plain word at all (a time, a logger's name, the end of a clause)."""
    bare = token.strip(_EDGES)
    return bare.lower() in neutral or bare == job or not bare.isalnum() or token.endswith(_CLAUSE)


def _job(letter: Letter) -> str:
    """The job that a line names."""
    if named := first(letter.fields, JOB):
        return named
    found = [*_NAMED_JOB.findall(letter.text), *_LOUD_NAME.findall(letter.text)]
    return next((name.rstrip(".:") for name in found if name.rstrip(".:").lower() not in _NO_NAME), "")


# --- either ---------------------------------------------------------------------------------------------------------


def recognise(letter: Letter) -> LogEvent | None:
    """The start or end in a line; None if there is none."""
    for known in _KNOWN:
        if said := known(letter):
            return said
    return _other(letter)


class Own(NamedTuple):
    """The user's own patterns for starts and ends. A group named `job` or `run` gives its name."""

    start: re.Pattern[str]
    end: re.Pattern[str] | None

    def recognise(self, letter: Letter) -> LogEvent | None:
        for starts, pattern in ((True, self.start), (False, self.end)):
            if pattern and (found := pattern.search(letter.text)):
                named = found.groupdict()
                job = named.get("job") or _job(letter) or "the job"
                run = named.get("run") or first(letter.fields, RUN)
                about = _about(letter.fields) if starts else {}
                return LogEvent(starts, job, Form.WORDS, run, first(letter.fields, SLOT), about=about)
        return None


Recogniser = Callable[[Letter], LogEvent | None]
