"""What this part reads, and what it finds."""

from collections.abc import Sequence

from cronce.audit.model import Reader, Rule
from cronce.audit.processes import rules
from cronce.audit.processes.reading import READERS as _READERS

READERS: Sequence[Reader] = _READERS
RULES: Sequence[Rule] = rules.RULES
