"""What this part reads, and what it finds."""

from collections.abc import Sequence

from cronce_audit.model import Reader, Rule
from cronce_audit.scripts import ansible, read, rules

READERS: Sequence[Reader] = (
    Reader("script", read.wants, read.read),
    Reader("ansible", ansible.wants, ansible.read),
)
RULES: Sequence[Rule] = (rules.crontab_grows_with_each_run, rules.cron_task_without_a_name)
