"""Time → slots, pure: schedules, the slots that are due, and the slot of a trigger from outside."""

from cronce.schedule.at import At
from cronce.schedule.cron import Cron
from cronce.schedule.duration import format_duration, parse_duration
from cronce.schedule.every import Every
from cronce.schedule.instant import parse_instant
from cronce.schedule.slots import Due, Reason, Span, due, shortest_gap, slot_of, start_by
from cronce.schedule.text import Schedule, bounded, parse_schedule, rule_of, spec_of
from cronce.schedule.window import Window

__all__ = [
    "At",
    "Cron",
    "Due",
    "Every",
    "Reason",
    "Schedule",
    "Span",
    "Window",
    "bounded",
    "due",
    "format_duration",
    "parse_duration",
    "parse_instant",
    "parse_schedule",
    "rule_of",
    "shortest_gap",
    "slot_of",
    "spec_of",
    "start_by",
]
