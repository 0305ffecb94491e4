"""Job stores that are files."""

from collections.abc import Iterator
from typing import Final

from cronce_audit.model import Confidence, Facts, Found, Rule, Severity, rule
from cronce_audit.python.apscheduler.schedulers import schedulers

_NETWORK: Final = ("/mnt/", "/nfs", "/net/", "/efs", "//", "\\\\", "/shared/")


@rule(
    "CR106",
    "sqlite-job-store",
    Severity.INFO,
    Confidence.HIGH,
    remedy="keep the file on a local disk that outlives a deployment and is not part of an image, "
    "or use PostgreSQL or Redis",
)
def _sqlite(facts: Facts) -> Iterator[Found]:
    for scheduler in facts.conclude(schedulers).all:
        for _, store in scheduler.stores:
            driver, _, path = store.url.partition("://") if store is not None else ("", "", "")
            path = path.rpartition("@")[2].partition("?")[0].removeprefix("/")  # a cipher's password is no part of it
            if store is None or not driver.startswith("sqlite") or not path or path == ":memory:":
                continue
            if path.startswith(_NETWORK):
                message = f"the job store is an SQLite file on a network file system, by its path ({path}): "
                message += "its locks do not hold there"
                yield Found(store.place, message, confidence=Confidence.MEDIUM, severity=Severity.WARNING)
            else:
                message = f"the job store is an SQLite file ({path}): whoever copies the directory, or starts a second "
                message += "container from the image, has a second store with the same jobs"
                yield Found(store.place, message)


RULES: tuple[Rule, ...] = (_sqlite,)
