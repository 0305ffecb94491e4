"""What this part reads, and what it finds."""

from collections.abc import Sequence

from cronce_audit.model import Reader, Rule
from cronce_audit.systemd import read, rules

READERS: Sequence[Reader] = (
    Reader("unit", read.wants, read.read),
    Reader("supervisor", read.wants_supervisor, read.read_supervisor),
)
RULES: Sequence[Rule] = (
    rules.two_timers_for_one_job,
    rules.timer_without_a_service,
    rules.service_of_a_timer_restarts,
    rules.time_that_clocks_pass_over,
    rules.cron_and_timer_for_one_job,
    rules.calendar_systemd_cannot_read,
)
