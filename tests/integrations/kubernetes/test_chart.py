"""The Helm chart and the Kustomize base make what `cronce k8s` prints, and nothing that Kubernetes would refuse."""

import shlex
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from cronce.cli import main
from tests.house.needs import tool
from tests.integrations.kubernetes.helm import CHART, rendered

DEPLOY = CHART.parents[1]
REPORT = "report --schedule '0 9 * * *' --tz Europe/Berlin --retries 2 -- ./report.sh"
CRONJOB = {
    "name": "report",
    "schedule": "0 9 * * *",
    "timeZone": "Europe/Berlin",
    "words": shlex.split(REPORT),
    "backoffLimit": 5,
    "startingDeadlineSeconds": 82800,
}
ALL: dict[str, Any] = {
    "image": "shop:1.4",
    "store": {"url": "kubernetes://shop"},
    "rbac": True,
    "scheduler": {"app": "shop.jobs:cron", "replicas": 2},
    "page": {"enabled": True},
    "watcher": {"enabled": True, "alert": "https://example.org/alert"},
    "cronjobs": [CRONJOB, {**CRONJOB, "name": "second", "words": ["second", "--slot", "now", "--", "x"]}],
}


def printed(capsys: pytest.CaptureFixture[str], words: str) -> list[Any]:
    assert main(["k8s", *shlex.split(words)]) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def test_the_chart_makes_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    made = {(one["kind"], one["metadata"]["name"]): one for one in rendered("nightly", "shop", **ALL)}
    assert sorted(made) == [
        ("CronJob", "report"), ("CronJob", "second"), ("Deployment", "nightly-page"),
        ("Deployment", "nightly-scheduler"), ("Deployment", "nightly-watcher"), ("Role", "cronce"),
        ("RoleBinding", "cronce"), ("Service", "nightly-page"), ("ServiceAccount", "cronce"),
    ]  # fmt: skip
    for manifest in made.values():
        kubernetes_validate.validate(manifest, "1.29", strict=True)
    pod = "--image shop:1.4 --namespace shop --store kubernetes://shop"
    (scheduler,) = printed(capsys, f"deployment nightly-scheduler shop.jobs:cron {pod} --replicas 2")
    scheduler["spec"]["template"]["spec"]["containers"][0]["name"] = "scheduler"
    assert made["Deployment", "nightly-scheduler"] == scheduler
    assert [made[kind, "cronce"] for kind in ("ServiceAccount", "Role", "RoleBinding")] == printed(
        capsys, "rbac cronce --namespace shop"
    )
    name, _, options = REPORT.partition(" ")
    (cronjob,) = printed(capsys, f"cronjob {name} {pod} {options}")
    job = cronjob["spec"]["jobTemplate"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    container |= {"name": "cronce", "command": container["command"][:2], "args": container["command"][2:]}
    job["podFailurePolicy"]["rules"][0]["onExitCodes"]["containerName"] = "cronce"
    assert made["CronJob", "report"] == cronjob


def test_by_its_own_values_the_chart_is_one_scheduler_with_a_secret() -> None:
    (scheduler,) = rendered("nightly", "shop", image="shop:1.4")
    pod = scheduler["spec"]["template"]["spec"]
    assert (scheduler["metadata"]["name"], pod["automountServiceAccountToken"]) == ("nightly-scheduler", False)
    assert pod["containers"][0]["env"] == [
        {"name": "CRONCE_URL", "valueFrom": {"secretKeyRef": {"name": "cronce", "key": "url"}}}
    ]


@pytest.mark.parametrize(("file", "words"), [
    ("rbac", "rbac"),
    ("scheduler", "deployment scheduler shop.jobs:cron --image shop:1.4 --replicas 2"),
    ("report", f"cronjob {REPORT.replace(' --schedule', ' --image shop:1.4 --schedule')}"),
])  # fmt: skip
def test_the_base_is_what_the_command_prints(file: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["k8s", *shlex.split(words)]) == 0
    assert Path(DEPLOY / "kustomize" / "base" / f"{file}.yaml").read_text() == capsys.readouterr().out


def test_an_overlay_is_built_by_kubectl() -> None:
    kubectl = tool("kubectl", "https://kubernetes.io/docs/tasks/tools")
    place = str(DEPLOY / "kustomize" / "overlays" / "production")
    built = subprocess.run([kubectl, "kustomize", place], check=True, capture_output=True, text=True).stdout
    made = {one["kind"]: one for one in yaml.safe_load_all(built)}
    assert sorted(made) == ["CronJob", "Deployment", "Role", "RoleBinding", "ServiceAccount"]
    assert {one["metadata"]["namespace"] for one in made.values()} == {"shop"}
    assert made["Deployment"]["spec"]["replicas"] == 3
    for manifest in made.values():
        kubernetes_validate.validate(manifest, "1.29", strict=True)
