"""Time → slots, pure: schedules, the slots that are due, and the slot of a trigger from outside."""

from cronce.schedule.at import At
from cronce.schedule.cron import Cron
from cronce.schedule.every import Every
from cronce.schedule.instant import parse_instant
from cronce.schedule.slots import Due, Reason, Span, due, slot_of, start_by
from cronce.schedule.span import format_span, parse_span
from cronce.schedule.text import Schedule, parse_schedule, spec_of

__all__ = [
    "At",
    "Cron",
    "Due",
    "Every",
    "Reason",
    "Schedule",
    "Span",
    "due",
    "format_span",
    "parse_instant",
    "parse_schedule",
    "parse_span",
    "slot_of",
    "spec_of",
    "start_by",
]
