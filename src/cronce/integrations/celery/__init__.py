"""Celery: any number of beats send each entry once per slot, and the task of a message runs once.

`celery -A app beat -S cronce.integrations.celery:Scheduler` is the line for beats, `@app.task(base=Once)` for tasks.
"""

from cronce.errors import BadInput

try:
    import celery as _celery  # noqa: F401  if it is missing, the error is raised here for all modules of this folder
except ImportError as missing:
    raise BadInput("cronce.integrations.celery needs Celery: pip install 'cronce[celery]'") from missing

from cronce.integrations.celery.beat import Scheduler
from cronce.integrations.celery.worker import Once

__all__ = ["Once", "Scheduler"]
