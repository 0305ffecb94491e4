"""The manifests that `cronce k8s` prints: valid by Kubernetes' own schema, right in what they say, run as printed."""

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cronce.cli import main, parser_of
from cronce.cli.exec import declared
from cronce.integrations.manifests import PODS_WITHOUT_STORE, AnnotatedValue, dump
from cronce.runtime.declare import declare
from tests.integrations.kubernetes.kubelet import BODY, Cluster, Status
from tests.integrations.kubernetes.test_pods import JOB, KEY

VERSIONS = ("1.31", "1.37")
CRONJOB = ("cronjob", "report", "--image", "shop:1.4", "--schedule", "0 9 * * *")
DEPLOYMENT = ("deployment", "scheduler", "shop.jobs:cron", "--image", "shop:1.4")


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    def k8s(*words: str) -> list[dict[str, Any]]:
        assert main(["k8s", *words]) == 0
        return list(yaml.safe_load_all(capsys.readouterr().out))

    return k8s


def expanded(word: str) -> str:
    """What Kubernetes makes of a word of a command, where no variable is set: $$ is one, $(NAME) stays."""
    return re.sub(r"\$(\$|\([^)]*\)?|)", lambda found: "$" if found[1] == "$" else found[0], word)


# --- valid ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        (*CRONJOB, "--", "./report.sh"),
        (
            *CRONJOB, "--tz", "Europe/Berlin", "--timeout", "1h", "--retries", "2", "--on-lost", "rerun", "--overlap",
            "replace", "--start-within", "5m", "--restart", "OnFailure", "--suspend", "--namespace", "shop",
            "--cpu", "0.5", "--memory", "1Gi", "--secret", "store", "--", "sh", "-c", "echo 'Grüße' \"$HOME\"\n",
        ),
        DEPLOYMENT,
        (*DEPLOYMENT, "--store", "kubernetes://shop", "--replicas", "3", "--", "-n", "2", "--grace", "90s"),
        ("rbac",),
        ("rbac", "shop", "--namespace", "shop"),
    ],
)  # fmt: skip
def test_all_of_them_are_valid(printed: Any, words: tuple[str, ...]) -> None:
    manifests = printed(*words)
    assert len(manifests) == (3 if words[0] == "rbac" else 1)
    for manifest in manifests:
        for version in VERSIONS:
            kubernetes_validate.validate(manifest, version, strict=True)


def test_the_schema_would_find_what_is_wrong(printed: Any) -> None:
    (manifest,) = printed(*CRONJOB, "--", "./report.sh")
    manifest["spec"]["jobTemplate"]["spec"]["backOffLimit"] = 2
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest, VERSIONS[0], strict=True)


values = st.recursive(
    st.text()
    | st.integers()
    | st.booleans()
    | st.sampled_from(["no", "1e3", "12:30", "~", "- a", "a: b", "#", "", "N"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(max_examples=50)
@given(st.dictionaries(st.text(), values))
def test_any_reader_of_yaml_reads_what_was_meant(document: dict[str, Any]) -> None:
    documents = [document, {"noted": [AnnotatedValue(document, "a note: of two\nlines # and a mark")]}]
    assert list(yaml.safe_load_all(dump(*documents))) == [document, {"noted": [document]}]


# --- right ----------------------------------------------------------------------------------------------------------


def test_a_cronjob_says_what_the_job_says(printed: Any) -> None:
    (manifest,) = printed(*CRONJOB, "--tz", "Europe/Berlin", "--retries", "2", "--timeout", "10m", "--", "./report.sh")
    spec, job = manifest["spec"], manifest["spec"]["jobTemplate"]["spec"]
    said = {key: value for key, value in spec.items() if key != "jobTemplate"}
    assert said == {
        "schedule": "0 9 * * *",
        "timeZone": "Europe/Berlin",
        "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": 23 * 3600,  # when clocks are put forward, the next one comes an hour earlier
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 3,
    }
    assert job["backoffLimit"] == 2 + PODS_WITHOUT_STORE
    assert job["activeDeadlineSeconds"] == 3 * 610 + (10 + 20 + 40 + 80 + 160) + 300
    assert [rule["action"] for rule in job["podFailurePolicy"]["rules"]] == ["FailJob", "Ignore"]
    pod = job["template"]["spec"]
    assert (pod["restartPolicy"], pod["terminationGracePeriodSeconds"]) == ("Never", 15)
    assert (pod["automountServiceAccountToken"], "serviceAccountName" in pod) == (False, False)
    (container,) = pod["containers"]
    url, name = container["env"]
    assert url == {"name": "CRONCE_URL", "valueFrom": {"secretKeyRef": {"name": "cronce", "key": "url"}}}
    label = {"fieldPath": "metadata.labels['batch.kubernetes.io/job-name']"}
    assert name == {"name": "CRONCE_JOB_NAME", "valueFrom": {"fieldRef": label}}
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize(
    ("options", "path", "value"),
    [
        (["--overlap", "allow"], "concurrencyPolicy", "Allow"),
        (["--overlap", "wait"], "concurrencyPolicy", "Allow"),
        (["--overlap", "replace"], "concurrencyPolicy", "Replace"),
        (["--start-within", "5m"], "startingDeadlineSeconds", 300),
        (["--suspend"], "suspend", True),
        ([], "timeZone", "Etc/UTC"),
        ([], "jobTemplate.spec.activeDeadlineSeconds", None),
        (["--on-lost", "rerun"], "jobTemplate.spec.backoffLimit", 1 + PODS_WITHOUT_STORE),
        (["--restart", "OnFailure"], "jobTemplate.spec.podFailurePolicy", None),
        (["--restart", "OnFailure"], "jobTemplate.spec.template.spec.restartPolicy", "OnFailure"),
        (["--grace", "90s"], "jobTemplate.spec.template.spec.terminationGracePeriodSeconds", 95),
        (["--store", "kubernetes://shop"], "jobTemplate.spec.template.spec.serviceAccountName", "cronce"),
        (["--store", "kubernetes://shop"], "jobTemplate.spec.template.spec.automountServiceAccountToken", True),
    ],
)
def test_what_is_asked_for_is_said(printed: Any, options: list[str], path: str, value: object) -> None:
    (manifest,) = printed(*CRONJOB, *options, "--", "./report.sh")
    found: Any = manifest["spec"]
    for key in path.split("."):
        found = found.get(key)
    assert found == value


@pytest.mark.parametrize("command", ["echo $$ $(date) $HOME $$$(x)", "a$", "$$$$", "$($)", "100$", "plain"])
def test_a_shell_gets_what_was_written_for_it(printed: Any, command: str) -> None:
    (manifest,) = printed(*CRONJOB, "--", "sh", "-c", command)
    (container,) = manifest["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert expanded(container["command"][-1]) == command


def test_exec_hears_all_policies_that_were_said(printed: Any) -> None:
    said = [
        "--tz", "America/New_York", "--gap", "skip", "--fold", "both", "--on-lost", "rerun", "--overlap", "wait",
        "--start-within", "1h", "--jitter", "5m", "--retries", "2", "--backoff", "3s", "--timeout", "1h", "--grace",
        "20s", "--lease", "40s", "--keep", "100",
    ]  # fmt: skip
    (manifest,) = printed(*CRONJOB, *said, "--", "./report.sh", "--all")
    (container,) = manifest["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["command"][:3] == ["cronce", "exec", "report"]
    assert container["command"][-3:] == ["--", "./report.sh", "--all"]
    heard = parser_of("exec").parse_args(container["command"][2:-3])
    assert declared(heard) == declare(
        "report", "0 9 * * *", tz="America/New_York", gap="skip", fold="both", on_lost="rerun", overlap="wait",
        start_within="1h", jitter="5m", retries=2, backoff="3s", timeout="1h", lease="40s", keep=100,
    )  # fmt: skip
    assert heard.grace == "20s"


def test_one_scheduler_or_more_of_which_the_old_ones_end_first(
    printed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (manifest,) = printed(*DEPLOYMENT, "--", "--grace", "90s")
    spec, pod = manifest["spec"], manifest["spec"]["template"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    assert pod["terminationGracePeriodSeconds"] == 95
    (container,) = pod["containers"]
    heard = parser_of("run").parse_args(container["command"][2:])
    assert (heard.app, heard.grace, heard.health) == ("shop.jobs:cron", "90s", "0.0.0.0:8080")
    assert container["ports"] == [{"name": "health", "containerPort": 8080}]
    asked = [container[probe]["httpGet"] for probe in ("livenessProbe", "readinessProbe")]
    assert asked == [{"path": path, "port": "health"} for path in ("/healthz", "/readyz")]
    assert main(["k8s", *DEPLOYMENT]) == 0
    text = capsys.readouterr().out
    assert "a PodDisruptionBudget limits evictions only" in text
    assert "maxSurge: 0 does not\n" in text


def test_the_rights_are_those_of_the_store_and_no_more(printed: Any) -> None:
    account, role, binding = printed("rbac", "shop", "--namespace", "prod")
    verbs = ["get", "list", "watch", "create", "update", "delete"]
    assert role["rules"] == [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs}]
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "shop"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "shop", "namespace": "prod"}]
    assert account["automountServiceAccountToken"] is False


def test_a_name_with_dots_is_legal_but_for_a_container(printed: Any) -> None:
    (manifest,) = printed("cronjob", "shop.report", *CRONJOB[2:], "--secret", "shop.url", "--", "x")
    job = manifest["spec"]["jobTemplate"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    assert (manifest["metadata"]["name"], container["name"]) == ("shop.report", "shop-report")
    assert job["podFailurePolicy"]["rules"][0]["onExitCodes"] == {
        "containerName": "shop-report", "operator": "In", "values": [76, 78, 126, 127],
    }  # fmt: skip


@pytest.mark.parametrize(("options", "says"), [
    ([], "that pod runs nothing; with --on-lost rerun or --retries it runs again."),
    (["--retries", "1"], "Kubernetes starts another pod. It runs the slot again."),
    (["--on-lost", "rerun"], "Kubernetes starts another pod. It runs the slot again."),
])  # fmt: skip
def test_what_becomes_of_an_eviction_is_noted(
    options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said that an eviction is no failure, and at defaults it is one."""
    assert main(["k8s", *CRONJOB, *options, "--", "x"]) == 0
    assert says in capsys.readouterr().out


# --- refused --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ("cronjob", "Report", *CRONJOB[2:], "--", "x"),
            "'Report' cannot be a name in Kubernetes: use 1 to 52 characters of a–z 0–9 - and .",
        ),
        (("cronjob", "r" * 53, *CRONJOB[2:], "--", "x"), "cannot be a name in Kubernetes: use 1 to 52 characters of"),
        (("cronjob", "r-", *CRONJOB[2:], "--", "x"), "with no - or . at the start or the end"),
        (("cronjob", "a..b", *CRONJOB[2:], "--", "x"), "with no - or . at the start or the end"),
        (("deployment", "s" * 64, *DEPLOYMENT[2:]), "cannot be a name in Kubernetes: use 1 to 63 characters of"),
        ((*CRONJOB, "--namespace", "a_b", "--", "x"), "'a_b' cannot be a namespace in Kubernetes"),
        ((*CRONJOB, "--namespace", "a.b", "--", "x"), "'a.b' cannot be a namespace in Kubernetes"),
        ((*CRONJOB, "--secret", "a_b", "--", "x"), "'a_b' cannot be a secret in Kubernetes"),
        ((*CRONJOB, "--memory", "much", "--", "x"), "--memory must be a quantity such as 100m or 256Mi"),
        ((*CRONJOB, "--memory", "512m", "--", "x"), "--memory 512m is in thousandths of a byte; write 512Mi"),
        ((*CRONJOB, "--retries", "2147483645", "--", "x"), "are more than Kubernetes counts: at most 2,147,483,643"),
        ((*CRONJOB[:4], "--schedule", "0 07 * * *", "--", "x"), "Kubernetes takes no number with a leading zero"),
        ((*CRONJOB[:4], "--schedule", "0 9 1,07 * *", "--", "x"), "Kubernetes takes no number with a leading zero"),
        ((*CRONJOB[:4], "--schedule", "0 9 3,* * 1", "--", "x"), "Kubernetes reads * differently from cron"),
        ((*CRONJOB[:4], "--schedule", "0 9 * * */7,1-6/2", "--", "x"), "Kubernetes reads * differently from cron"),
        (CRONJOB, "the command or its schedule is missing"),
        ((*CRONJOB[:4], "--", "x"), "the command or its schedule is missing"),
        ((*CRONJOB[:4], "--schedule", "every 90m", "--", "x"), "let cronce fire it: `cronce deploy k8s deployment`"),
        ((*CRONJOB[:4], "--schedule", "0 0 9 * * *", "--", "x"), "has seconds, and a CronJob fires by the minute"),
        ((*CRONJOB[:4], "--schedule", "0 9 L * *", "--", "x"), "Kubernetes knows no L and no # in days"),
        ((*CRONJOB[:4], "--schedule", "0 9 * * MON#2", "--", "x"), "Kubernetes knows no L and no # in days"),
        ((*CRONJOB[:4], "--schedule", "0 9 * * 5-7", "--", "x"), "the weekdays of Kubernetes are 0 to 6; Sunday is 0"),
        ((*CRONJOB[:4], "--schedule", "0 9 * * 0,7", "--", "x"), "the weekdays of Kubernetes are 0 to 6; Sunday is 0"),
        ((*CRONJOB[:4], "--schedule", "0 9 * * MON/2", "--", "x"), "and a range has an end (1-6/2)"),
        ((*CRONJOB[:4], "--schedule", "0 9 */2 * MON", "--", "x"), "Kubernetes on days that match either"),
        ((*CRONJOB, "--start-within", "5s", "--", "x"), "Kubernetes checks every 10 s which Jobs are due"),
        ((*CRONJOB, "--store", "postgresql://me:secret@db", "--", "x"), "the URL of a store may contain a password"),
        (
            (*CRONJOB[:2], "--image", "", *CRONJOB[4:], "--", "x"),
            "--image must be the name of an image with cronce in it",
        ),
        (("deployment", "s", "app", *DEPLOYMENT[3:]), "write MODULE:OBJECT"),
        ((*DEPLOYMENT, "--", "--health", "80"), "leave out --health"),
        ((*DEPLOYMENT, "--replicas", "-1"), "--replicas must be 0 or more"),
        (("rbac", "--", "x"), "`rbac` starts no command"),
    ],
)
def test_what_kubernetes_would_refuse_or_misread_is_refused(
    words: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["k8s", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, "secret@" in err) == ("", False)
    assert why in " ".join(err.split())


@pytest.mark.parametrize(
    "schedule", ["*/15 * * * *", "@hourly", "0 9 * * MON-FRI", "0 0 1,15 * 3", "0 9 * * 1-6/2", "0 10,20 * * 0"]
)
def test_what_both_read_alike_is_let_through(printed: Any, schedule: str) -> None:
    (manifest,) = printed(*CRONJOB[:4], "--schedule", schedule, "--", "x")
    assert manifest["spec"]["schedule"] == {"@hourly": "0 * * * *"}.get(schedule, schedule)


# --- run as printed -------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


@pytest.fixture(params=["sqlite", "kubernetes"])
def on_any_store(request: pytest.FixtureRequest, cluster: Cluster) -> Cluster:
    if request.param == "kubernetes":
        cluster.url = request.getfixturevalue("kubernetes").url(f"pods{time.monotonic_ns()}")
    return cluster


def test_the_printed_cronjob_does_what_it_says_under_a_kubelet(printed: Any, on_any_store: Cluster) -> None:
    (manifest,) = printed(
        "cronjob", "report", "--image", "shop:1.4", "--schedule", "@yearly", "--retries", "1", "--backoff", "1ms",
        "--on-lost", "rerun", "--", "sh", "-c", BODY,
    )  # fmt: skip
    cluster, job = on_any_store, manifest["spec"]["jobTemplate"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    closed, _evicted = job["podFailurePolicy"]["rules"]
    words = [sys.executable, "-m", *map(expanded, container["command"])]
    how = {"backoff_limit": job["backoffLimit"], "fail_on": closed["onExitCodes"]["values"]}
    cluster.order("fail", "succeed")
    assert cluster.run(JOB, words, **how) == Status("Complete", [3, 0])
    assert cluster.run(JOB, words, **how) == Status("Complete", [0])
    assert cluster.bodies() == [f"{KEY} 1", f"{KEY} 2"]
    cluster.order("fail", "fail")
    by_hand, bodies = cluster.run("by-hand", words, **how), len(cluster.bodies())
    if cluster.url.startswith("kubernetes"):  # it has no room for runs beside the slots, and says so
        assert (by_hand, bodies) == (Status("Failed", [78]), 2)
    else:
        assert (by_hand, bodies) == (Status("Failed", [3, 3, 76]), 4)


def test_a_command_that_cannot_be_started_burns_no_retries(printed: Any, cluster: Cluster) -> None:
    """Each retry was spent on it."""
    (manifest,) = printed(*CRONJOB[:4], "--schedule", "@yearly", "--retries", "2", "--", "/no/such/command")
    job = manifest["spec"]["jobTemplate"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    words = [sys.executable, "-m", *map(expanded, container["command"])]
    how = {
        "backoff_limit": job["backoffLimit"],
        "fail_on": job["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"],
    }
    assert cluster.run(JOB, words, **how) == Status("Failed", [127])
