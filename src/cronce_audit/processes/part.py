"""What this part reads, and what it finds."""

from collections.abc import Sequence

from cronce_audit.model import Reader, Rule
from cronce_audit.processes import rules
from cronce_audit.processes.reading import READERS as _READERS

READERS: Sequence[Reader] = _READERS
RULES: Sequence[Rule] = rules.RULES
