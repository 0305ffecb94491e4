"""django-crontab: a crontab on every machine that says so, and a lock that each machine has for itself."""

from collections.abc import Iterator
from typing import Final

from cronce_audit.model import Confidence, Facts, Found, Rule, Severity, rule
from cronce_audit.processes.commands import started
from cronce_audit.python.facts import Bound, Const


@rule(
    "CR221",
    "django-crontab-on-several-machines",
    Severity.ERROR,
    Confidence.HIGH,
    remedy="add the crontab in one container only; or set `CRONTAB_COMMAND_PREFIX` to a `cronce exec …` that lets one "
    "machine run each slot",
)
def _crontab(facts: Facts) -> Iterator[Found]:
    settings = {bound.name.rpartition(".")[2]: bound for bound in facts.of(Bound) if not bound.scope.function}
    jobs, prefix = settings.get("CRONJOBS"), settings.get("CRONTAB_COMMAND_PREFIX")
    if jobs is None or (prefix and isinstance(prefix.value, Const) and "cronce" in str(prefix.value.value)):
        return
    lock = settings.get("CRONTAB_LOCK_JOBS")
    locked = lock is not None and lock.value == Const(value=True)
    several = False
    for argv, command, _, by in facts.conclude(started):
        if argv.program.endswith("manage.py") and argv.arguments[:2] == ("crontab", "add") and by.copies.is_several:
            several = True
            yield Found(
                command.place,
                f"each of the {by.copies} copies of `{by.name}` adds the jobs of CRONJOBS ({jobs.place}) to a "
                f"crontab of its own: every job runs {by.copies} times{_but(locked=locked)}",
            )
    if lock and locked and not several:
        yield Found(
            lock.place,
            "CRONTAB_LOCK_JOBS locks a file in the temporary folder of this machine: it keeps a job from overlapping "
            "itself here, and knows nothing of a second machine",
            severity=Severity.INFO,
        )


def _but(*, locked: bool) -> str:
    return "; CRONTAB_LOCK_JOBS locks a file of each container, and helps nothing" if locked else ""


RULES: Final[tuple[Rule, ...]] = (_crontab,)
