"""Logs for machines: one JSON object a line, and in each line of a job's own which slot and fence it belongs to."""

import json
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from cronce.events import Event
from cronce.runtime.run import current_run

RUN_FIELDS: Final = ("job", "slot", "run", "fence")
"""What a record is given while a job function runs; empty text outside of one. `run` is the slot with its job, and the
request of a run by hand: `billing@2026-03-29T01:00:00Z`."""

_NO_RUN: Final = dict.fromkeys(RUN_FIELDS, "")


class RunFilter(logging.Filter):
    """Puts job, slot, run and fence into every record, unless it has them already: for formats such as
    `%(message)s [%(slot)s %(fence)s]`. It belongs on handlers: those of loggers see no records of loggers below them.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in _fields(record).items():
            record.__dict__.setdefault(name, value)
        return True


class JsonFormatter(logging.Formatter):
    """time, level, logger, message and pid; job, slot, run and fence where there is a run; of a fact of ours what,
    holder, seconds and detail; and the traceback, if there is one, as `error`."""

    def format(self, record: logging.LogRecord) -> str:
        said = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
            **{name: text for name, value in _fields(record).items() if (text := record.__dict__.get(name) or value)},
            **_of_event(getattr(record, "event", None)),
        }
        if error := record.exc_text or (record.exc_info and self.formatException(record.exc_info)):
            said["error"] = error
        return json.dumps(said, ensure_ascii=False, default=str)


def install(*handlers: logging.Handler, json: bool = False) -> None:
    """Add a `RunFilter` to these handlers, or to those of the root logger; `json` makes them write JSON, too."""
    for handler in handlers or logging.getLogger().handlers:
        if not any(isinstance(one, RunFilter) for one in handler.filters):
            handler.addFilter(RunFilter())
        if json:
            handler.setFormatter(JsonFormatter())


def _fields(record: logging.LogRecord) -> Mapping[str, str]:
    """Of the run that an event is about, else of the current run, else of the environment that `cronce exec` made."""
    event = getattr(record, "event", None)
    if isinstance(event, Event):
        return _of_cell(event.key, str(event.fence or ""))
    run = current_run()
    if run is not None:
        return _of_cell(run.slot.cell, str(run.fence))
    return _told_by_exec()


def _of_cell(cell: str, fence: str) -> Mapping[str, str]:
    kind, _, name = cell.partition("/")
    job, _, at = name.partition("/")
    if kind == "run":
        return {"job": job, "slot": at.partition("#")[0], "run": f"{job}@{at}", "fence": fence}
    return {**_NO_RUN, "fence": fence, **({"job": job} if kind == "job" else {})}


def _told_by_exec() -> Mapping[str, str]:
    """A command is told of its run in its environment."""
    told = os.environ.get
    job, slot = told("CRONCE_JOB", ""), told("CRONCE_SLOT", "")
    if not job or not slot:
        return _NO_RUN
    return {"job": job, "slot": slot, "run": told("CRONCE_KEY", ""), "fence": told("CRONCE_FENCE", "")}


def _of_event(event: object) -> Mapping[str, object]:
    if not isinstance(event, Event):
        return {}
    told = {"what": event.what.value, "holder": event.holder, "seconds": event.seconds, "detail": event.detail}
    return {name: value for name, value in told.items() if value not in (None, "")}
