"""What this part reads, and what it finds."""

from collections.abc import Sequence

from cronce_audit.live import rules
from cronce_audit.model import Reader, Rule

READERS: Sequence[Reader] = ()
RULES: Sequence[Rule] = rules.RULES
