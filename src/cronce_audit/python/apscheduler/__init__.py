"""APScheduler 3 and 4: who adds which job to which store, by which clocks.

`schedulers` finds where schedulers are made, `jobs` what is added to them, `triggers` when that runs. Only what is
added to one of these counts: many libraries have an `add_job`.
"""

from cronce_audit.model import Rule
from cronce_audit.python.apscheduler import clocks, files, limits, restarts

RULES: tuple[Rule, ...] = (*restarts.RULES, *limits.RULES, *files.RULES, *clocks.RULES)
