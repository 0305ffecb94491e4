"""What is mended is mended: the finding is gone, the rest of the file is as it was, a second time changes nothing."""

import textwrap
from pathlib import Path

import pytest

from cronce_audit.fixes import FIXES, WRITTEN, mend
from tests.audit.trees import report_on

CRONJOB = """\
apiVersion: batch/v1
kind: CronJob
metadata:
  name: sync
spec:
  schedule: "*/5 * * * *"{more}
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{{name: a, image: a, command: [sync]}}]
"""
JOB = """\
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
    from apscheduler.schedulers.background import BackgroundScheduler

    scheduler = BackgroundScheduler(timezone="UTC", jobstores={"default": SQLAlchemyJobStore(url="postgresql://db/jobs")})
    scheduler.add_job(print, "cron", hour=12, {id})
    scheduler.start()
    """
BURST = 'id="ä", replace_existing=True, coalesce=False, misfire_grace_time=None'
DEFAULTS = """\
    from apscheduler.schedulers.background import BackgroundScheduler

    scheduler = BackgroundScheduler(
        timezone="UTC", job_defaults={"max_instances": 1, "coalesce": False}
    )
    scheduler.add_job(print, "cron", hour=12)
    """


@pytest.mark.parametrize(
    ("rule", "path", "before", "after"),
    [
        ("CR501", "job.yaml", CRONJOB.format(more=""), CRONJOB.format(more="\n  concurrencyPolicy: Forbid")),
        (
            "CR501",
            "job.yaml",
            CRONJOB.format(more="\n  concurrencyPolicy: Allow  # for now"),
            CRONJOB.format(more="\n  concurrencyPolicy: Forbid  # for now"),
        ),
        ("CR102", "app.py", JOB.replace("{id}", 'id="a"'), JOB.replace("{id}", 'id="a", replace_existing=True')),
        (
            "CR102",
            "app.py",
            JOB.replace("{id}", 'id="ä",\n    '),
            JOB.replace("{id}", 'id="ä", replace_existing=True,\n    '),
        ),
        ("CR103", "app.py", JOB.replace("{id}", BURST), JOB.replace("{id}", BURST.replace("False", "True"))),
        ("CR103", "app.py", DEFAULTS, DEFAULTS.replace("False", "True")),
    ],
)
def test_what_is_certain_is_mended(tmp_path: Path, rule: str, path: str, before: str, after: str) -> None:
    found = [one for one in report_on(tmp_path, {path: before}).findings if one.rule == rule]
    assert len(found) == 1
    assert mend(tmp_path, found) == found
    assert (tmp_path / path).read_text() == textwrap.dedent(after)
    again = report_on(tmp_path, {path: after})
    assert [one.rule for one in again.findings if one.rule == rule] == []
    assert mend(tmp_path, again.findings) == []


def test_of_each_rule_that_is_mended_it_is_told_what_is_written() -> None:
    assert [WRITTEN[rule] for rule in FIXES] == [
        "added `replace_existing=True`",
        "changed `coalesce` from False to True",
        "set `concurrencyPolicy: Forbid`",
    ]


def test_what_is_not_certain_is_left_alone(tmp_path: Path) -> None:
    """A job without an id needs a name, which nobody else can give it."""
    report = report_on(tmp_path, {"app.py": JOB.replace("{id}", "")})
    assert [one.rule for one in report.findings if one.rule == "CR101"] == ["CR101"]
    assert mend(tmp_path, report.findings) == []


@pytest.mark.parametrize(
    "said",
    ["coalesce=COALESCE", "coalesce=False, **{'coalesce': False}", "**OPTIONS"],
)
def test_a_coalesce_that_is_said_elsewhere_or_twice_is_left(tmp_path: Path, said: str) -> None:
    head = "COALESCE = False\nOPTIONS = {'coalesce': False}\n"
    text = head + textwrap.dedent(JOB).replace("{id}", f'id="a", replace_existing=True, {said}')
    found = [one for one in report_on(tmp_path, {"app.py": text}).findings if one.rule == "CR103"]
    assert mend(tmp_path, found) == []
    assert (tmp_path / "app.py").read_text() == text
