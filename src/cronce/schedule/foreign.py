"""What people bring from other schedulers, and our way to say it: data, where an error looks for its remedy."""

import re

FIVE = "minute hour day-of-month month day-of-week"

# Whole schedules, in small letters. No pattern may try two ways through the same text: it may be hostile.
_SCHEDULES = (
    (r"@reboot", "machines boot at different instants, and share no slot; call it at start-up"),
    (r"@every +(.+)", r"write 'every \1'"),
    (r"@.*", "the known names are @yearly @annually @monthly @weekly @daily @midnight @hourly"),
    (r"rate\( *([0-9]+) +([smhdw])[a-z]* *\)", r"write 'every \1\2'"),
    (r"cron\(.*", f"write the fields alone, without cron(…): {FIVE}; there is no year, and Sunday is 0 or 7"),
    (r"(?:cron_)?tz *=.*", "give the zone beside the expression, as in tz='Europe/Berlin'"),
    (r"(yearly|annually|monthly|weekly|daily|hourly)", r"write '@\1'"),
    (r"every +([0-9][^ ]*)", r"this is not cron; write Every('\1')"),
    (r"every *([0-9][^ ]*)|([0-9]+[wdhms][0-9a-z]*)", r"write 'every \1\2'"),
    (r"at +([^ ]+)", r"this is not cron; write At('\1')"),
    (r"(?:[a-z.,]+ +)?[^ -]+-[^ -]+-[^ -]+ +[^ :]+:[^ ]*", f"this is systemd's; write {FIVE}"),
    (r"([0-9]{4}-[0-9]{2}-[0-9]{2}t[^ ]*)", "for a single instant write 'at 2026-03-29T01:00:00Z'"),
)

# Single items of a field, in capitals. They are looked up only for items that are wrong where they stand.
_ITEMS = (
    (r"", "an empty item; take away the comma"),
    (r"\?", "'?' is Quartz's; write *"),
    (r"H(?:\(.*\))?(?:/.*)?", "'H' is Jenkins' choice by hash; choose a number"),
    (r".*~.*", "'~' is a random choice, and each machine would make its own; choose a number"),
    (r"(\w+)\.\.(\w+)", r"write \1-\2"),
    (r"[0-9]+W", "the weekday nearest to a date is unknown here; LW is the last weekday of the month"),
    (r"L-[0-9]+", "days before the last are unknown here; L is the last day of the month"),
    (r"LW?(?:/.*)?", "L and LW are for day-of-month, alone; the last Friday is FRIL"),
)


def remedy_for_schedule(text: str) -> str | None:
    """Our way to say a foreign schedule, or None: it looks like none that we know."""
    return _remedy(text.lower(), _SCHEDULES)


def remedy_for_item(item: str) -> str | None:
    """Our way to say a foreign item of a field, or None."""
    return _remedy(item, _ITEMS)


def _remedy(text: str, table: tuple[tuple[str, str], ...]) -> str | None:
    matches = ((re.fullmatch(pattern, text), remedy) for pattern, remedy in table)
    return next((match.expand(remedy) for match, remedy in matches if match), None)
