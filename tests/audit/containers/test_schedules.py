"""A job that stands in two schedulers of different kinds."""

from pathlib import Path

import pytest

from tests.audit.trees import findings_in

CRONJOB = """\
apiVersion: batch/v1
kind: CronJob
metadata:
  name: report
spec:
  schedule: "20 4,16 * * *"
  concurrencyPolicy: Forbid
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: report
              image: shop
              command: ["python", "manage.py", "report"]
"""
WORKFLOW = """\
on:
  schedule:
    - cron: "0 3 * * *"
jobs:
  report:
    runs-on: ubuntu-latest
    steps:
      - run: python manage.py report
"""


@pytest.mark.parametrize(
    ("path", "text", "line"),
    [
        (".github/workflows/report.yml", WORKFLOW, 3),
        ("crontab", "0 3 * * * cd /app && python manage.py report\n", 1),
        ("Dockerfile", 'FROM debian\nRUN echo "0 3 * * * python manage.py report" >> /etc/cron.d/app\n', 2),
        ("Dockerfile", 'FROM debian\nRUN echo "20 4,16 * * * /other" | crontab -\n', 2),
    ],
)
def test_what_a_cronjob_starts_and_something_else_too_is_told(tmp_path: Path, path: str, text: str, line: int) -> None:
    assert findings_in(tmp_path, {"k8s/report.yaml": CRONJOB, path: text}, "CR414") == [f"CR414 {path}:{line}"]


@pytest.mark.parametrize(
    "text",
    [
        WORKFLOW.replace("report", "test").replace("0 3", "20 5"),
        WORKFLOW.replace('  schedule:\n    - cron: "0 3 * * *"\n', "  push:\n"),
    ],
)
def test_another_job_is_another(tmp_path: Path, text: str) -> None:
    tree = {"k8s/report.yaml": CRONJOB, "compose.yml" if "services" in text else ".github/workflows/x.yml": text}
    assert findings_in(tmp_path, tree, "CR414") == []
