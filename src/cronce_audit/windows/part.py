"""What this part reads, and what it finds."""

from collections.abc import Sequence

from cronce_audit.model import Reader, Rule
from cronce_audit.windows import rules, tasks

READERS: Sequence[Reader] = (Reader("task", tasks.wants, tasks.read),)
RULES: Sequence[Rule] = (rules.task_registered_twice, rules.task_runs_beside_itself)
