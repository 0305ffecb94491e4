"""The reader of code: a file is parsed only where its text speaks of something that we know."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from cronce_audit.javascript import jobs, locks, pm2, queues
from cronce_audit.javascript.code import Code, is_packed, wants
from cronce_audit.javascript.facts import Job, LockCall, Pm2App, Repeatable
from cronce_audit.model import Reader, Source


def _read(source: Source) -> Iterator[Job | LockCall | Pm2App | Repeatable]:
    has_jobs = jobs.MENTIONS.search(source.text)
    has_queues = queues.MENTIONS.search(source.text)
    has_locks = locks.MENTIONS.search(source.text)
    is_ecosystem = pm2.is_ecosystem(PurePosixPath(source.path))
    if is_packed(source) or not (has_jobs or has_queues or has_locks or is_ecosystem):
        return
    code = Code(source)
    if has_jobs:
        yield from jobs.jobs(code)
    if has_queues:
        yield from queues.repeatables(code)
    if has_locks:
        yield from locks.lock_calls(code)
    if is_ecosystem:
        yield from pm2.apps(code)


READER: Final = Reader("javascript", wants, _read)
