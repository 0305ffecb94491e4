"""Time → slots, pure: schedules, the slots that are due, and the slot of a trigger from outside."""

from cronce.schedule.instant import format_duration, parse_duration, parse_instant
from cronce.schedule.schedules import At, Cron, Every, Schedule, Window, bounded, parse_schedule, rule_of, spec_of
from cronce.schedule.slots import Due, Reason, Span, due, shortest_gap, slot_of, start_by

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
