"""What this part reads, and what it finds."""

from collections.abc import Sequence

from cronce_audit.model import Reader, Rule
from cronce_audit.python import apscheduler
from cronce_audit.python.read import read

READERS: Sequence[Reader] = (Reader("python", lambda path: path.suffix in (".py", ".pyw"), read),)
RULES: Sequence[Rule] = apscheduler.RULES
