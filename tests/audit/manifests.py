"""Manifests that are right, and what a test changes in them."""

import textwrap
from pathlib import Path

from tests.audit.trees import findings_in

CRONJOB = """\
apiVersion: batch/v1
kind: CronJob
metadata:
  name: report
spec:
  schedule: "*/5 * * * *"
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 200
  jobTemplate:
    spec:
      backoffLimit: 0
      activeDeadlineSeconds: 240
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: report
              image: report:1
              command: [report, --all]
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: beat
spec:
  replicas: 1
  strategy:
    type: Recreate
  selector:
    matchLabels: {app: beat}
  template:
    metadata:
      labels: {app: beat}
    spec:
      containers:
        - name: beat
          image: app:1
          command: [celery, -A, app, beat]
"""


def changed(manifest: str, old: str, new: str) -> str:
    """The manifest with one text for another, each time it is there."""
    assert old in manifest
    return manifest.replace(old, new)


def without(manifest: str, *words: str) -> str:
    """Less the lines that have one of the words."""
    assert all(word in manifest for word in words)
    return "".join(line for line in manifest.splitlines(keepends=True) if not any(word in line for word in words))


def under(manifest: str, line: str, more: str) -> str:
    """With more lines below the first that has this text."""
    lines = manifest.splitlines(keepends=True)
    at = next(number for number, each in enumerate(lines) if line in each)
    return "".join(
        [*lines[: at + 1], textwrap.dedent(more) if more.startswith("\n") else f"{more}\n", *lines[at + 1 :]]
    )


def found_in(root: Path, text: str, *rules: str) -> list[str]:
    """`CR501:6`, in order."""
    found = findings_in(root, {"job.yaml": text}, *rules)
    return [f"{one.split()[0]}:{one.rpartition(':')[2]}" for one in found]
