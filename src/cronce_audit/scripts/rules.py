"""What can be wrong with scripts that write crontabs."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from cronce_audit.common import Command
from cronce_audit.crontab.images import Image
from cronce_audit.model import Confidence, Facts, Found, Severity, rule
from cronce_audit.scripts.ansible import NamelessCron
from cronce_audit.scripts.appends import Append


@rule(
    "CR410",
    "crontab-grows-with-each-run",
    Severity.WARNING,
    Confidence.MEDIUM,
    remedy="install the whole crontab (`crontab FILE`, `cp FILE /etc/cron.d/NAME`) or a block of it (`cronce crontab"
    " install FILE --name NAME`), which change nothing the second time",
)
def crontab_grows_with_each_run(facts: Facts) -> Iterator[Found]:
    """A script that only builds an image starts from a clean file system each time."""
    built = {name for image in facts.of(Image) for name in image.runs}
    started = {
        PurePosixPath(word).name
        for command in facts.of(Command)
        if command.origin in ("dockerfile", "compose")
        for word in command.words
    }
    for append in facts.of(Append):
        name = PurePosixPath(append.place.path).name
        if name in built and name not in started:
            continue
        to = f"`{append.to}`" if append.to else "the crontab"
        when = "each start of the container" if name in started else "each run of this script"
        yield Found(
            append.place,
            f"{when} adds the line to {to} once more, for nothing here looks whether it is there",
            Confidence.HIGH if append.literal else Confidence.MEDIUM,
        )


@rule(
    "CR411",
    "cron-task-without-a-name",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="give the task's `cron:` a `name:`, by which Ansible finds the line again",
)
def cron_task_without_a_name(facts: Facts) -> Iterator[Found]:
    for task in facts.of(NamelessCron):
        yield Found(
            task.place,
            "`cron:` has no `name`: Ansible before 2.12 adds the line once more with each play, later ones refuse",
        )
