"""APScheduler 3: any number of schedulers, on any job stores, run each slot of a job once. `protect(scheduler, cron)`.

THEORY OF OPERATION

*A slot* is a job's id and the run time that its trigger gave, so all schedulers have to come to the same run times.
Cron and date triggers do. An interval counts from the moment at which its process made it, and jitter is drawn by lot:
intervals go to the epoch grid, and jitter is taken out (`jobs`).

*The claim comes before the job store is written.* A scheduler hands a run time to its executor, then writes down the
next one, and from there on nobody else who shares the job store sees the first. Whoever died before its claim would
take the slot along, on no record. So slots of a shared job store are claimed when its due jobs are read, all in one
round trip. If our store does not answer, that read fails, as if the job store had not answered: it is made again later,
and no run time was passed over. A memory job store is nobody else's, and its scheduler may live on an event loop: there
the claim is made where the body runs (`protection`).

*A scheduler survives.* An error of the job store in the middle of a round ends APScheduler's loop for good: a database
that restarts, or a date job that another scheduler was faster to remove. Here the loop looks again instead, and what it
then fires a second time is refused (`protection`).

*What others left*, a run whose process died, a failure with attempts left, a run asked for by hand, is looked for on a
thread of our own, and handed to the scheduler's.

Each object of theirs is changed in the smallest way, and a job only in its trigger, which stays one of theirs: a
scheduler without cronce still reads it from a shared job store.
"""

from cronce.errors import BadInput

try:
    import apscheduler.schedulers.base  # noqa: F401
except ImportError as missing:
    raise BadInput("cronce.integrations.apscheduler needs APScheduler: pip install 'cronce[apscheduler]'") from missing

from cronce.integrations.apscheduler.jobs import CronceTrigger, report
from cronce.integrations.apscheduler.protection import GuardedExecutor, protect

__all__ = ["CronceTrigger", "GuardedExecutor", "protect", "report"]
