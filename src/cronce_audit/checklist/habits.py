"""What the checklists ask of the people: pipelines, alerts, runbooks."""

from typing import Final

from cronce_audit.checklist.answers import Answer, Seen, cannot_tell, met, not_met

SILENCE: Final = (
    "a rule with `alert:` about a heartbeat in a Prometheus rules file, or a ping of healthchecks.io or the like"
)
DOUBLED: Final = "a rule with `alert:` about duplicates in a Prometheus rules file"


def ci_audits(seen: Seen) -> Answer:
    if told := seen.mentioned("audit"):
        return met(*told)
    return not_met("no pipeline, pre-commit config or Makefile here runs `cronce audit`")


def silence_and_doubles_alert(seen: Seen) -> Answer:
    silent, doubled = seen.mentioned("silence"), seen.mentioned("doubled")
    if silent and doubled:
        return met(*silent, *doubled)
    missing = [shows for shows, told in ((SILENCE, silent), (DOUBLED, doubled)) if not told]
    return cannot_tell("; and ".join(missing), *silent, *doubled)


def durations_alert(seen: Seen) -> Answer:
    if told := seen.mentioned("duration"):
        return met(*told)
    return cannot_tell("a rule with `alert:` about a lock, a lease or a duration in a Prometheus rules file")


def duplicates_are_looked_for(seen: Seen) -> Answer:
    if told := seen.mentioned("dupes"):
        return met(*told)
    return cannot_tell(
        "`cronce dupes … --since 30m`, or a query with `HAVING COUNT(*) > 1`, in a pipeline, a script or a runbook here"
    )


def unended_runs_are_looked_for(seen: Seen) -> Answer:
    if told := seen.mentioned("logs"):
        return met(*told)
    return cannot_tell("`cronce logs` in a pipeline, a script or a runbook here")
