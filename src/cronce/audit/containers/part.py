"""What this part reads, and what it finds."""

from collections.abc import Sequence

from cronce.audit.containers import compose, copies, dockerfile, entry, procfile, signals
from cronce.audit.model import Reader, Rule

READERS: Sequence[Reader] = (dockerfile.READER, compose.READER, procfile.READER, entry.READER)
RULES: Sequence[Rule] = (*signals.RULES, *copies.RULES)
