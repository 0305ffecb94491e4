"""Jobs that take a row for a lock: they read rows as due, do the work, and mark them afterwards; or look whether a run
is on record, and then record one. Two processes, or two runs that overlap, both find the row as it was.

In any language, by words and by indentation: a query that asks for a state, in a function that is a job by its name or
its file's, with work behind it, and nothing that claims a row by one command.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from cronce_audit.model import Found, Noticed, Severity, Source, reader
from cronce_audit.text import body_around

_CODE_SUFFIXES: Final = frozenset(
    {".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".java", ".kt", ".php", ".rb", ".go", ".rs", ".cs"}
)
_JOB_FILES: Final = re.compile(
    r"(?i)cron|jobs?\b|jobs?/|sched|task|worker|remind|beat|poll|batch|daemon|periodic|payout"
)
_JOB_NAMES: Final = re.compile(
    r"(?i)cron|job|sched|task|tick|poll|remind|due|pending|expire|payout|overdue|periodic|loop"
)
_NOT_OF_JOBS: Final = re.compile(
    r"(?i)/(?:controllers?|routes?|routers?|views?|handlers?|resolvers?|migrations?|seed\w*|schemas?|models?|pages|"
    r"components|admin)[/.]|(?:controller|route|router|resolver|model|schema|repository|dto|entity)s?\.\w+$"
)
"""Files that answer requests or describe data."""
_ROW_QUERY: Final = re.compile(
    r"(?:\.(?:find|findMany|findAll|find_all|filter|filter_by|where|query|scan|prepare|all)\s*\(|\bselect\(|"
    r"(?i:\bselect\b[^;]*\bfrom\b)|\bfind(?:All)?By\w+\(|::where\(|\.query\.filter|\.objects\.)"
)
_SQL: Final = re.compile(r"(?i)^\W*select\b(?!\()|[`\"']\s*select\b|prepare\(`?$")
_STATE_COLUMN: Final = r"(?:status|state|estado|stage|situacao)"
_DUE_ROWS: Final = re.compile(
    rf"(?i)\b{_STATE_COLUMN}\W{{1,16}}(?:\w+\.)*(?:pending|pendiente|pendente|queued|waiting|scheduled|ready|due|todo|"
    r"overdue|unpaid)\b|"
    r"\b\w*(?:sent|notified|processed|e?mailed|reminded|published|delivered|handled|executed|scheduled|queued|"
    r"charged|settled|credited|distributed|paid_?out)\w*\W{1,6}(?:=|:|is|eq)?\W{0,4}"
    r"(?:false|0|null|none|\$ne)\b|"
    r"\b(?:next_?\w*(?:run|at|date|time)|scheduled_?(?:at|for|time|date)|(?:due|send|run|remind|publish|execute)_?(?:at|on|date|time)"
    r"|maturity_?date|\w*due_?date)\b\W{1,8}(?:\w+\.)?(?:<|lte?\b|_lte)"
)
_ROW_OF_A_RUN: Final = re.compile(
    rf"(?i)\b{_STATE_COLUMN}\b.{{1,30}}?(?:running|in_?progress|processing|started)\b|\b(?:today|trading_date)\b"
)
_LOOP_OVER_ROWS: Final = re.compile(r"^\s*(?:async\s+)?for\b|\bforEach\(|\.map\(|\.each\b|^\s*foreach\b|Promise\.all")
_WORK_ON_A_ROW: Final = re.compile(
    r"(?i)send|notif|mail|sms|push_|publish|charge|pay(?:out|ment)|transfer|credit|debit|balance|increment|decrement|webhook|"
    r"\.delay\((?!\d)|apply_async|enqueue|queue\.add|\.post\(|emit\(|dispatch\("
)
_MARKS_A_ROW: Final = re.compile(
    rf"(?i)\.(?:save|update\w*|commit|bulk_update|flush)\(|\bupdate\b[^;]*\bset\b|\$set|\b{_STATE_COLUMN}\s*=(?!=)"
)
_ADDS_A_ROW: Final = re.compile(r"(?i)\.(?:add|create|insert\w*|save)\(|\binsert\s+into\b")
_MARKS_OR_QUEUES: Final = re.compile(
    _MARKS_A_ROW.pattern + r"|\.delay\((?!\d)|apply_async|enqueue|queue\w*\.add|send_task"
)
_WAITS_FOR: Final = re.compile(r"(?i)pending|pendiente|pendente|queued|waiting|scheduled|ready|\bdue\b|todo")
"""A row that is queued stays in such a state until its work begins."""
_BY_KEY: Final = re.compile(r"\bid['\"]?\s*(?:==?=?|:)\s*(?!\{)|UUID\(|findById")
_ONE_ROW: Final = re.compile(
    r"\.first\(|exists\(|find_?One\(|findFirst\(|\.count\(|scalar_one|if .*\.filter\(|findUnique"
)
_ONE_RECORD: Final = re.compile(
    r"\.(?:first|exists|count\w*)\(|\bexist\w*\(|find_?(?:[oO]ne|[fF]irst|[uU]nique|[bB]y\w*)\(|scalar(?:_one\w*)?\(|"
    r"fetchone|maybe_?[sS]ingle|get_or_none|first(?:Where|OrDefault)|[qQ]uery_?[rR]ow|\.get\(\)$",
    re.MULTILINE,
)
"""A query for one row, in the words of many libraries."""
_RECORD_OF_WORK: Final = re.compile(
    r"(?i)already|dup|\bsent|_sent|log\b|logs\b|remind|notif|alert|pay(?:ment|out)|invoice|\bruns?\b|history|transaction|"
    r"processed|deliver|reward|commission|bonus|charge"
)
"""What is looked for is a record that the work was done."""
_NAMED_ROW: Final = re.compile(r"(?:(?:const|let|var|val)\s+)?[({]?\s*(?:data\s*:\s*)?\$?(\w+)[^=]*?(?<![=!<>])=(?!=)")
_NOT_THERE: Final = re.compile(
    r"^\s*(?:\}?\s*(?:else\s+)?if\b.*(?:!(?!=)|\bnot\b|\bnull\b|\bNone\b|=== ?0|== ?0)|unless\b|&&\s*!)"
)
_RETURN: Final = re.compile(r"^\s+(?:return|continue)\b")
_CLAIMS_A_ROW: Final = re.compile(
    r"(?i)for[_ ]?update|find_?one_?and|find_?and_?modify|findandupdate|\breturning\b|nx=true|['\"]nx['\"]|\bnx:|setnx|"
    r"(?<![bc])(?<!un)lock|claim|leader|mutex|semaphore|modified_?count|rowcount|row_count|affected|matched_?count|"
    r"on conflict|ignore_conflicts|get_or_create|idempoten|dedup|jobid:|\.count\s*(?:===?|>|<)\s*[01]\b|"
    rf"update\w*\(\s*\{{(?:\s*where\s*:\s*\{{)?[^}}]*\b{_STATE_COLUMN}\b[^}}]*\}}\s*,|"
    rf"\bupdate\b[^;\"]*\bset\b[^;\"]*\bwhere\b[^;\"]*\b{_STATE_COLUMN}\s*="
)
"""Locks, and updates that ask for the state as well: one of two gets the row."""
_LONGEST_QUERY: Final = 14
"""Lines that a query may have."""


def _taken(source: Source, name: str, at: int, marks: int) -> Noticed:
    """A function that reads rows as due, or as free, and takes them by a second command."""
    message = (
        f"`{name}` reads rows by their state here, and changes them by a second command (line {marks + 1}): another"
        " process, or the next run before that, reads them in the same state, and the work is done twice"
    )
    remedy = (
        "take each row by one command that asks for its state (`UPDATE … WHERE status = 'pending' RETURNING id`,"
        " `FOR UPDATE SKIP LOCKED`, `findOneAndUpdate`), before it is worked on or queued"
    )
    return Noticed("CR309", Found(source.place(at + 1), message, None, Severity.INFO, remedy))


@reader("rows", lambda path: path.suffix in _CODE_SUFFIXES and not _NOT_OF_JOBS.search(f"/{path}"))
def read(source: Source) -> Iterator[Noticed]:
    is_job = bool(_JOB_FILES.search(source.path))
    if not (is_job or _JOB_NAMES.search(source.text)):
        return
    lines = source.text.split("\n")
    told = -1
    records = {
        source.text.count("\n", 0, found.start()) for found in _ONE_RECORD.finditer(source.text if is_job else "")
    }
    for at, line in enumerate(lines):
        asked = _statement(lines, at) if at > told and _ROW_QUERY.search(line) else ""
        is_due = asked and not _BY_KEY.search(asked) and (_DUE_ROWS.search(asked) or _ROW_OF_A_RUN.search(asked))
        is_record = at in records and _RECORD_OF_WORK.search("\n".join(lines[max(at - 5, 0) : at + 6]))
        body = body_around(lines, at) if is_due or is_record else None
        if body is None or not (is_job or _JOB_NAMES.search(body.name)):
            continue
        name, start, end = body
        marks = _second_step(lines, asked, at, end) if is_due else None
        if marks and not _CLAIMS_A_ROW.search("\n".join(lines[start:end])):
            told = end
            yield _taken(source, name, at, marks)
        elif is_record and (found := _recorded_later(lines, at, start, end)):
            yield _taken(source, name, *found)


def _statement(lines: Sequence[str], at: int) -> str:
    """A line, and those below it up to where its brackets are closed and no call is chained to it; of SQL, a few."""
    if _SQL.search(lines[at]):
        whole = lines[at].count('"') % 2 == 0 and lines[at].count('"') > 0 and '"""' not in lines[at]
        return lines[at] if whole else "\n".join(lines[at : at + _LONGEST_QUERY])
    depth = 0
    for end in range(at, min(at + _LONGEST_QUERY, len(lines))):
        depth += sum(lines[end].count(one) for one in "([{") - sum(lines[end].count(one) for one in ")]}")
        chained = end + 1 < len(lines) and lines[end + 1].lstrip().startswith((".", "?."))
        if depth <= 0 and not chained:
            return "\n".join(lines[at : end + 1])
    return "\n".join(lines[at : at + _LONGEST_QUERY])


def _second_step(lines: Sequence[str], asked: str, at: int, end: int) -> int | None:
    """Where the rows that are asked for are marked, behind a loop that does something for each; or where a run is
    recorded, if the function was left for one that is there."""
    body = range(at, end)
    loop = next((one for one in body if _LOOP_OVER_ROWS.search(lines[one])), None)
    if _DUE_ROWS.search(asked) and loop is not None:
        loop = max(loop, at + asked.count("\n") + 1)
        acts = any(_WORK_ON_A_ROW.search(lines[one]) for one in range(loop, end))
        steps = _MARKS_A_ROW if _WAITS_FOR.search(asked) is None else _MARKS_OR_QUEUES
        found = next((one for one in range(loop, end) if steps.search(lines[one])), None)
        called = list(_called(lines, loop, end))
        if not acts or any(_CLAIMS_A_ROW.search(lines[one]) for body in called for one in body):
            return None
        return found or next((one for body in called for one in body if _MARKS_A_ROW.search(lines[one])), None)
    if _ROW_OF_A_RUN.search(asked) and _ONE_ROW.search(asked):
        left = next((one for one in body if _RETURN.search(lines[one])), end)
        return next((one for one in range(left, end) if _ADDS_A_ROW.search(lines[one])), None)
    return None


def _recorded_later(lines: Sequence[str], at: int, start: int, end: int) -> tuple[int, int] | None:
    """Where a record of some work is looked for, and where it is written; in between the work is left out if it was
    there, and done if not."""
    first = at
    while first > start and (lines[first].lstrip().startswith(_CONTINUED) or lines[first - 1].rstrip().endswith("(")):
        first -= 1
    last = max(first + _statement(lines, first).count("\n"), at)
    asked = "\n".join(lines[first : last + 1])
    named = _NAMED_ROW.match(lines[first].strip())
    near = range(last, min(last + _NEAR_BELOW, end))
    if not _RECORD_OF_WORK.search(asked) or _BY_KEY.search(asked):
        return None
    guards = (one for one in (first, *near) if _is_guard(lines[one], named[1] if named else "", one <= last))
    guard = next(guards, None)
    if guard is None:
        return None
    leaves = any(_LEFT.search(line) for line in lines[guard : guard + 3])
    if leaves == bool(_NOT_THERE.search(lines[guard])):  # it goes on without a record, not with one
        return None
    acts = next((one for one in range(last + 1, end) if _WORK_ON_A_ROW.search(_code(lines[one]))), None)
    adds = next((one for one in range(last + 1, end) if _WRITES_RECORD.search(_code(lines[one]))), None)
    before = "\n".join(map(_code, lines[start : (acts or end) + 1]))
    return (first, adds) if acts is not None and adds is not None and not _CLAIMS_A_ROW.search(before) else None


def _is_guard(line: str, name: str, is_query: bool) -> bool:
    """An `if` about the row that was found, or that holds the query itself."""
    if not re.match(r"\s*(?:\}?\s*(?:else )?if\b|unless\b|&&)", line):
        return bool(re.search(rf"\b(?:next|return|continue)\s+(?:if|unless)\s+{name}\b", line)) if name else False
    return is_query or bool(name and re.search(rf"\b{name}\b", line))


def _code(line: str) -> str:
    """Without a comment at its end."""
    return re.sub(r"(?:^|\s)(?://|#|--).*$", "", line)


_CONTINUED: Final = (".", "&&", "||", "?.", ")")
"""What a line begins with that goes on with the one above it."""
_NEAR_BELOW: Final = 5
"""Lines between a query and what asks for its answer."""
_LEFT: Final = re.compile(r"\b(?:return|continue|next|break)\b")
_WRITES_RECORD: Final = re.compile(
    _ADDS_A_ROW.pattern + r"|(?i:\.(?:upsert|insertOne|updateOrCreate)\(|create\w*\(|::create\()"
)


def _called(lines: Sequence[str], loop: int, end: int) -> Iterator[range]:
    """The bodies of the functions of this file that the loop calls."""
    for name in re.findall(r"\b(\w+)\(", "\n".join(lines[loop:end])):
        head = next((one for one, line in enumerate(lines) if re.search(rf"\b(?:def|function) {name}\b", line)), None)
        if head is not None and head + 1 < len(lines):
            body = body_around(lines, head + 1)
            yield range(body.start, body.end) if body else range(0)
