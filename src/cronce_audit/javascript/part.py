"""What this part reads, and what it finds."""

from collections.abc import Sequence

from cronce_audit.javascript import modules, pm2, read, rules
from cronce_audit.model import Reader, Rule

READERS: Sequence[Reader] = (*modules.READERS, read.READER, pm2.READER)
RULES: Sequence[Rule] = rules.RULES
