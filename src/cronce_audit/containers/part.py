"""What this part reads, and what it finds."""

from collections.abc import Sequence

from cronce_audit.containers import compose, copies, dockerfile, entry, procfile, schedules, signals
from cronce_audit.model import Reader, Rule

READERS: Sequence[Reader] = (dockerfile.READER, compose.READER, procfile.READER, entry.READER, schedules.READER)
RULES: Sequence[Rule] = (*signals.RULES, *copies.RULES, *schedules.RULES)
