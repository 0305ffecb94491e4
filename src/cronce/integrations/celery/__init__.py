"""Celery: any number of beats send each entry once per slot, and the body of a message runs once.

`celery -A app beat -S cronce.integrations.celery:Scheduler` is the line for beats, `@app.task(base=Once)` for tasks.
"""

from cronce.errors import BadInput

try:
    import celery as _celery  # noqa: F401  whoever lacks it is told here, once for all files of this folder
except ImportError as missing:
    raise BadInput("cronce.integrations.celery needs Celery: pip install 'cronce[celery]'") from missing

from cronce.integrations.celery.beat import Scheduler
from cronce.integrations.celery.worker import Once

__all__ = ["Once", "Scheduler"]
