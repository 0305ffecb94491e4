"""What this part reads, and what it finds."""

from collections.abc import Sequence

from cronce_audit.kubernetes import cronjobs, runs, workloads
from cronce_audit.kubernetes.read import READERS as _READERS
from cronce_audit.model import Reader, Rule

READERS: Sequence[Reader] = _READERS
RULES: Sequence[Rule] = (*cronjobs.RULES, *runs.RULES, *workloads.RULES)
