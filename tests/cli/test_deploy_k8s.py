"""cronce k8s: what is said beside the manifests. What they say: tests/integrations/test_manifests.py."""

import pytest

from cronce.cli import main

CRONJOB = ("k8s", "cronjob", "report", "--image", "shop:1", "--schedule", "@daily")


@pytest.mark.parametrize(("namespace", "apart"), [("other", True), ("shop", False)])
def test_an_account_in_another_namespace_than_its_rights_is_told(
    namespace: str, apart: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--store", "kubernetes://shop?prefix=x", "--namespace", namespace, "--", "./report.sh")
    assert main([*CRONJOB, *words]) == 0
    told = capsys.readouterr().err
    assert ("the pods are in other, and slots in shop" in told) is apart
    assert bool(told) is apart


def test_options_of_run_go_behind_two_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["k8s", "deployment", "scheduler", "app:cron", "--image", "shop:1", "--workers", "20"])
    assert "--workers 20; options of the command, and of `cronce run`, go after two dashes" in capsys.readouterr().err
