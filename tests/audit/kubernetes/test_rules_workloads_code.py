"""Workloads whose scheduler is in Python code: what a rollout, an overlay or an autoscaler makes of one that is one."""

from pathlib import Path

import pytest

from cronce_audit.model import Confidence
from tests.audit.manifests import DEPLOYMENT, changed, without
from tests.audit.trees import findings_in, report_on

CLOCK = """\
from apscheduler.schedulers.blocking import BlockingScheduler
from jobs import sync

scheduler = BlockingScheduler(timezone="UTC")
scheduler.add_job(sync, "interval", minutes=5, id="sync")
if __name__ == "__main__":
    scheduler.start()
"""
ONE = changed(DEPLOYMENT, "[celery, -A, app, beat]", "[python, -m, clock]")
ROLLED = without(ONE, "strategy", "Recreate")
RULES = ("CR202", "CR521")


def test_a_rollout_runs_two(tmp_path: Path) -> None:
    (found,) = report_on(tmp_path, {"clock.py": CLOCK, "clock.yaml": ROLLED}).findings
    assert (found.rule, str(found.place), found.confidence) == ("CR521", "clock.yaml:2", Confidence.HIGH)
    assert found.message.startswith("Deployment `beat` runs BlockingScheduler (clock.py:7), and a rolling update")
    assert "protect(scheduler" in found.remedy


def test_two_schedulers_in_one_pod_are_told_once(tmp_path: Path) -> None:
    twice = CLOCK + "    other = BlockingScheduler()\n    other.start()\n"
    assert findings_in(tmp_path, {"clock.py": twice, "clock.yaml": ROLLED}, *RULES) == ["CR521 clock.yaml:2"]


def test_an_image_that_is_known_by_its_name(tmp_path: Path) -> None:
    image = 'FROM python:3.12\nCMD ["python", "-m", "clock"]\n'
    manifest = without(ROLLED, "command").replace("app:1", "shop:1")
    tree = {"clock.py": CLOCK, "clock.yaml": manifest, "Dockerfile.shop": image}
    (found,) = [one for one in report_on(tmp_path, tree).findings if one.rule in RULES]
    assert (found.rule, str(found.place), found.confidence) == ("CR521", "clock.yaml:2", Confidence.MEDIUM)


@pytest.mark.parametrize(
    ("code", "manifest"),
    [
        (CLOCK, ONE),
        (CLOCK, changed(ROLLED, "clock]", "other]")),
        (CLOCK.replace("scheduler.start()", "pass"), ROLLED),
        (
            "from cronce import Cronce\nfrom cronce.integrations.apscheduler import protect\n"
            + CLOCK.replace("if __name__", 'protect(scheduler, Cronce("redis://r"))\nif __name__'),
            ROLLED,
        ),
    ],
)
def test_one_that_is_one_or_that_agrees(tmp_path: Path, code: str, manifest: str) -> None:
    assert findings_in(tmp_path, {"clock.py": code, "clock.yaml": manifest}, *RULES) == []


@pytest.mark.parametrize(("lock", "found"), [("pg_try_advisory_lock(7)", []), ("1", ["CR521 clock.yaml:2"])])
def test_jobs_that_take_a_lock_which_the_other_pod_sees(tmp_path: Path, lock: str, found: list[str]) -> None:
    jobs = f"def sync():\n    if not connection.execute('SELECT {lock}').scalar():\n        return\n    work()\n"
    tree = {"clock.py": CLOCK, "jobs.py": jobs, "clock.yaml": ROLLED}
    assert findings_in(tmp_path, tree, *RULES) == found


def test_a_lock_of_one_machine_is_none_for_the_other_pod(tmp_path: Path) -> None:
    jobs = (
        "import fcntl\n\n\ndef sync():\n    with open('/tmp/l', 'w') as held:\n"
        "        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)\n        work()\n"
    )
    tree = {"clock.py": CLOCK, "jobs.py": jobs, "clock.yaml": ROLLED}
    assert findings_in(tmp_path, tree, *RULES) == ["CR521 clock.yaml:2"]


def test_replicas_that_are_written_are_told_once(tmp_path: Path) -> None:
    tree = {"clock.py": CLOCK, "clock.yaml": changed(ROLLED, "replicas: 1", "replicas: 3")}
    assert findings_in(tmp_path, tree, *RULES) == ["CR202 clock.py:7"]


def test_a_file_of_the_same_name_elsewhere_is_another_deployment(tmp_path: Path) -> None:
    tree = {"clock.py": CLOCK, "a/clock.yaml": ONE, "b/clock.yaml": changed(ROLLED, "clock]", "other]")}
    assert findings_in(tmp_path, tree, *RULES) == []
