"""What this part reads, and what it finds."""

from collections.abc import Sequence

from cronce_audit.containers.instructions import is_dockerfile
from cronce_audit.crontab import images, periodic, read, rules, scripts, twice
from cronce_audit.model import Reader, Rule

READERS: Sequence[Reader] = (
    Reader("crontab", read.wants, read.read),
    Reader("image", is_dockerfile, images.read),
    Reader("periodic script", periodic.wants, periodic.read),
    Reader("job script", scripts.wants, scripts.read),
)
RULES: Sequence[Rule] = (
    rules.line_cron_cannot_read,
    rules.name_cron_ignores,
    rules.percent_ends_the_command,
    twice.same_job_twice,
    rules.no_lock_on_a_frequent_job,
    rules.time_that_clocks_show_twice_or_never,
    rules.zone_that_cron_does_not_know,
    rules.every_minute_of_one_hour,
)
