"""What can be wrong with tasks of Windows' Task Scheduler."""

from collections.abc import Iterator
from itertools import combinations
from pathlib import PurePosixPath, PureWindowsPath

from cronce_audit.model import Confidence, Facts, Found, Severity, rule
from cronce_audit.windows.tasks import Task


@rule(
    "CR420",
    "task-registered-twice",
    Severity.WARNING,
    Confidence.MEDIUM,
    remedy="keep one of the tasks, and delete the other where it is registered (`schtasks /delete /tn NAME`)",
)
def task_registered_twice(facts: Facts) -> Iterator[Found]:
    """Under one name the second import replaces the first, or fails; under two, both are there."""
    for first, second in combinations(facts.of(Task), 2):
        shared = set(first.triggers) & set(second.triggers)
        if shared and (first.action, first.user) == (second.action, second.user) and _are_two(first, second):
            program = PureWindowsPath(second.action[0].strip('"')).name
            yield Found(
                second.place, f"{first.place} runs the same `{program}` at the same times: each time both run it"
            )


def _are_two(first: Task, second: Task) -> bool:
    if first.uri and second.uri:
        return first.uri.lower() != second.uri.lower()
    return PurePosixPath(first.place.path).parent == PurePosixPath(second.place.path).parent


@rule(
    "CR421",
    "task-runs-beside-itself",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="say `<MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>`, which also holds if nothing is said",
)
def task_runs_beside_itself(facts: Facts) -> Iterator[Found]:
    """Of a task for a logon or an event that may be meant: each has its own."""
    for task in facts.of(Task):
        if task.parallel and any(trigger.repeats for trigger in task.triggers):
            yield Found(
                task.parallel,
                "this task repeats, and a run that takes longer does not keep the next from starting beside it",
            )
        elif task.parallel and task.triggers:
            said = "a run that is not over when the next one is due does not keep it from starting"
            yield Found(task.parallel, said, severity=Severity.INFO)
