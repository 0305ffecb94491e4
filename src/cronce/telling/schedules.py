"""A schedule as its owner wrote it."""

from cronce.schedule import Cron, Schedule, Window


def as_written(rule: Schedule) -> str:
    if isinstance(rule, Window):
        return f"{as_written(rule.rule)} {rule.bounds}"
    return f"{rule.text} {rule.tz}" if isinstance(rule, Cron) and rule.tz != "UTC" else rule.text
