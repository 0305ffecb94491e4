"""What this part reads, and what it finds."""

from collections.abc import Sequence

from cronce_audit.java import jobs, quartz, rules
from cronce_audit.model import Reader, Rule

READERS: Sequence[Reader] = (jobs.READER, quartz.READER)
RULES: Sequence[Rule] = rules.RULES
