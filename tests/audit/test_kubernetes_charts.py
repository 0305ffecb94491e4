"""Templates are read as what they become, and an overlay as a part: what is not told is no finding."""

from pathlib import Path
from textwrap import indent

import pytest

from cronce_audit.kubernetes.facts import plain
from cronce_audit.model import Confidence, Severity
from tests.audit.manifests import CRONJOB, DEPLOYMENT, changed, under, without
from tests.audit.trees import findings_in, report_on

TEMPLATE = """\
{{- if .Values.cron.enabled }}
apiVersion: batch/v1
kind: CronJob
metadata:
  name: {{ include "app.fullname" . }}-report
  labels:
    {{- include "app.labels" . | nindent 4 }}
spec:
  schedule: {{ .Values.cron.schedule | quote }}
  concurrencyPolicy: {{ .Values.cron.policy }}
  startingDeadlineSeconds: {{ .Values.cron.deadline | default 100 }}
  {{- with .Values.cron.zone }}
  timeZone: {{ . }}
  {{- end }}
  jobTemplate:
    spec:
      backoffLimit: 0
      activeDeadlineSeconds: {{ .Values.cron.limit }}
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: report
              image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
              command: [report, --all]
              env:
                {{- range $name, $value := .Values.env }}
                - name: {{ $name }}
                  value: {{ $value | quote }}
                {{- end }}
              {{- if .Values.resources }}
              resources:
                {{- toYaml .Values.resources | nindent 16 }}
              {{- end }}
          {{- with .Values.nodeSelector }}
          nodeSelector:
{{ toYaml . | indent 12 }}
          {{- end }}
{{- end }}
"""
VALUES = """\
cron:
  enabled: true
  schedule: "*/5 * * * *"
  policy: Forbid
  limit: 240
"""


def _chart(root: Path, template: str, values: str = VALUES) -> list[str]:
    tree = {"chart/templates/job.yaml": template, "chart/values.yaml": values}
    report = report_on(root, tree)
    assert list(report.unparsed) == []
    return [f"{one.rule} {one.place}" for one in report.findings]


def test_a_chart_that_says_what_it_means_is_silent(tmp_path: Path) -> None:
    assert _chart(tmp_path, TEMPLATE) == []


def test_a_chart_is_judged_by_its_own_values_where_they_stand(tmp_path: Path) -> None:
    assert _chart(tmp_path, TEMPLATE, changed(VALUES, "Forbid", "Allow")) == ["CR501 chart/values.yaml:4"]


def test_a_default_counts_where_values_say_nothing(tmp_path: Path) -> None:
    text = changed(TEMPLATE, ".Values.cron.policy", 'default "Allow" .Values.cron.other')
    assert _chart(tmp_path, text) == ["CR501 chart/templates/job.yaml:10"]


def test_a_default_that_is_no_literal_is_not_known(tmp_path: Path) -> None:
    text = changed(TEMPLATE, "{{ .Values.cron.policy }}", "{{ .Values.cron.other | default .Values.cron.policy }}")
    assert _chart(tmp_path, text, changed(VALUES, "Forbid", "Allow")) == []


def test_values_that_are_not_told_are_silent(tmp_path: Path) -> None:
    assert _chart(tmp_path, TEMPLATE, "") == []
    assert _chart(tmp_path, TEMPLATE, "not: [yaml\n") == []


def test_values_that_unfold_without_end_cost_little(tmp_path: Path) -> None:
    laughs = "".join(f"a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}}}\n" for n in range(1, 60))
    assert _chart(tmp_path, TEMPLATE, f"a0: &a0 {{}}\n{laughs}{changed(VALUES, 'Forbid', 'Allow')}") == [
        "CR501 chart/values.yaml:64"
    ]


def test_what_a_template_does_not_have_is_missing(tmp_path: Path) -> None:
    found = _chart(tmp_path, without(TEMPLATE, "concurrencyPolicy", "backoffLimit"))
    assert found == ["CR501 chart/templates/job.yaml:9", "CR505 chart/templates/job.yaml:9"]


@pytest.mark.parametrize(
    "line",
    [
        "  {{- toYaml .Values.cron.more | nindent 2 }}",
        '  {{- include "app.cron" . | nindent 2 }}',
        '{{ include "app.cron" . | indent 2 }}',
        '  {{- include "app.cron" . }}',
        "  {{- with .Values.more }}\n  {{- toYaml . | nindent 2 }}\n  {{- end }}",
    ],
)
def test_lines_that_are_put_in_may_have_what_is_missing(tmp_path: Path, line: str) -> None:
    text = under(without(TEMPLATE, "concurrencyPolicy", "startingDeadline", "backoffLimit"), "schedule:", line)
    assert _chart(tmp_path, text) == ["CR505 chart/templates/job.yaml:9"]


def test_lines_under_a_key_may_have_more_below_them(tmp_path: Path) -> None:
    labels = '  labels: {{- include "app.labels" . | nindent 4 }}\n    app: report\n'
    text = changed(TEMPLATE, '  labels:\n    {{- include "app.labels" . | nindent 4 }}\n', labels)
    assert _chart(tmp_path, without(text, "concurrencyPolicy")) == ["CR501 chart/templates/job.yaml:9"]
    text = changed(
        without(text, "concurrencyPolicy"), "spec:\n  sch", 'spec: {{ include "app.cron" . | nindent 2 }}\n  sch'
    )
    assert _chart(tmp_path, without(text, "backoffLimit")) == ["CR505 chart/templates/job.yaml:9"]


def test_a_branch_that_may_not_be_taken_is_silent(tmp_path: Path) -> None:
    both = "  {{- if .Values.a }}\n  concurrencyPolicy: Allow\n  {{- else }}\n  concurrencyPolicy: Forbid\n  {{- end }}"
    text = changed(TEMPLATE, "  concurrencyPolicy: {{ .Values.cron.policy }}", both)
    assert _chart(tmp_path, text) == []
    assert _chart(tmp_path, changed(changed(text, "Forbid", "A"), "Policy: A", "Policy: Allow")) == []
    inline = "  concurrencyPolicy: {{ if .Values.a }}Allow{{ else }}Forbid{{ end }}"
    assert _chart(tmp_path, changed(TEMPLATE, "  concurrencyPolicy: {{ .Values.cron.policy }}", inline)) == []


def test_lines_stay_where_they_are() -> None:
    text = 'a: 1\n{{- /* two\nlines */}}\nb: {{ include "x"\n  . }}\nc: 3\n'
    assert plain(text).text.split("\n")[5] == "c: 3"
    assert plain(TEMPLATE).text.count("\n") == TEMPLATE.count("\n")


@pytest.mark.parametrize("script", ["echo ${#NAME}", "echo '{{'", "echo ${NAME%%.*} '{%'"])
def test_a_brace_in_a_script_swallows_nothing(tmp_path: Path, script: str) -> None:
    text = changed(CRONJOB, "[report, --all]", f'[sh, -c, "{script}"]')
    other = changed(CRONJOB, "  name: report", "  name: other")
    other = changed(other, "[report, --all]", '[sh, -c, "{{ x }} {% y %} ${Z%#} #}"]')
    text = f"{changed(text, 'Forbid', 'Allow')}---\n{other}"
    assert findings_in(tmp_path, {"job.yaml": text}) == ["CR501 job.yaml:7"]


def test_a_template_that_does_not_become_yaml_is_silent(tmp_path: Path) -> None:
    assert _chart(tmp_path, changed(TEMPLATE, "spec:\n  schedule", "spec: [\n  schedule")) == []


def test_jinja_is_a_template_too(tmp_path: Path) -> None:
    text = changed(CRONJOB, '"*/5 * * * *"', '"{{ cookiecutter.schedule }}"')
    text = changed(text, "  concurrencyPolicy: Forbid\n", "")
    text = under(text, "schedule:", "  {% if zone %}\n  timeZone: {{ zone }}\n  {% endif %}\n  {# a comment #}")
    assert findings_in(tmp_path, {"job.yaml.j2": text}) == ["CR501 job.yaml.j2:6"]
    text = under(text, "schedule:", "  {% if policy %}\n  concurrencyPolicy: {{ policy }}\n  {% endif %}")
    assert findings_in(tmp_path, {"job.yaml.j2": text}) == []


# --- kustomize -----------------------------------------------------------------------------------------------------

BASE = without(CRONJOB, "concurrencyPolicy")
PATCH = "apiVersion: batch/v1\nkind: CronJob\nmetadata:\n  name: report\nspec:\n"


def test_a_patch_lacks_nothing(tmp_path: Path) -> None:
    tree = {
        "a.yaml": f"{PATCH}  schedule: '* * * * *'\n",
        "b.yaml": f"{PATCH}  jobTemplate: {{spec: {{template: {{spec: {{containers: [{{name: report}}]}}}}}}}}\n",
    }
    assert findings_in(tmp_path, tree) == []


def test_a_patch_that_a_kustomization_names_lacks_nothing(tmp_path: Path) -> None:
    whole = without(CRONJOB, "concurrencyPolicy", "restartPolicy")
    named = "patches:\n  - path: ../patches/job.yaml\n"
    assert findings_in(tmp_path, {"patches/job.yaml": whole, "over/kustomization.yaml": named}) == []
    assert findings_in(tmp_path, {"patches/job.yaml": whole, "over/kustomization.yaml": ""}, "CR501") == [
        "CR501 patches/job.yaml:6"
    ]


def test_a_patch_has_what_it_has(tmp_path: Path) -> None:
    text = f"{PATCH}  concurrencyPolicy: Allow\n  jobTemplate: {{spec: {{concurrencyPolicy: Forbid}}}}\n"
    assert findings_in(tmp_path, {"patch.yaml": text}) == ["CR501 patch.yaml:6"]


GIVEN = f"{PATCH}  concurrencyPolicy: Forbid\n"
OPERATIONS = "- op: add\n  path: /spec/concurrencyPolicy\n  value: Forbid\n"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("over/policy.yaml", GIVEN),
        ("kustomization.yaml", f"patches:\n  - patch: |-\n{indent(GIVEN, ' ' * 6)}"),
        (
            "kustomization.yaml",
            f"patches:\n  - target: {{kind: CronJob}}\n    patch: |-\n{indent(OPERATIONS, ' ' * 6)}",
        ),
        ("kustomization.yaml", f"patchesStrategicMerge:\n  - |-\n{indent(GIVEN, ' ' * 4)}"),
    ],
    ids=["a file", "inline", "operations", "merge"],
)
def test_a_base_does_not_lack_what_a_patch_gives(tmp_path: Path, path: str, text: str) -> None:
    assert findings_in(tmp_path, {"base/job.yaml": BASE}) == ["CR501 base/job.yaml:6"]
    assert findings_in(tmp_path, {"base/job.yaml": BASE, path: text}) == []


def test_a_patch_for_another_gives_nothing(tmp_path: Path) -> None:
    other = changed(GIVEN, "report", "other")
    assert findings_in(tmp_path, {"base/job.yaml": BASE, "over/policy.yaml": other}) == ["CR501 base/job.yaml:6"]


# --- schedulers ----------------------------------------------------------------------------------------------------


def _beat(old: str, new: str) -> str:
    return changed(DEPLOYMENT, old, new)


def test_a_pod_on_every_node(tmp_path: Path) -> None:
    assert findings_in(tmp_path, {"beat.yaml": _beat("Deployment", "DaemonSet")}) == ["CR520 beat.yaml:2"]


def test_an_autoscaler(tmp_path: Path) -> None:
    scaler = (
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: beat}\nspec:\n"
        "  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: beat}\n  maxReplicas: 5\n"
    )
    assert findings_in(tmp_path, {"beat.yaml": DEPLOYMENT, "hpa.yaml": scaler}) == ["CR520 hpa.yaml:6"]
    assert findings_in(tmp_path, {"hpa.yaml": changed(scaler, "maxReplicas: 5", "maxReplicas: 1")}) == []
    assert findings_in(tmp_path, {"hpa.yaml": changed(scaler, "name: beat}\n  max", "name: web}\n  max")}) == []


def test_replicas_of_an_overlay(tmp_path: Path) -> None:
    patch = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: beat\nspec:\n  replicas: 3\n"
    tree = {"base/beat.yaml": DEPLOYMENT, "over/patch.yaml": patch}
    assert findings_in(tmp_path, tree) == ["CR520 over/patch.yaml:6"]
    (tmp_path / "over/patch.yaml").unlink()
    named = "replicas:\n  - name: beat\n    count: 2\n  - name: web\n    count: 9\n"
    assert findings_in(tmp_path, {"over/kustomization.yaml": named}) == ["CR520 over/kustomization.yaml:3"]


def test_replicas_of_a_charts_values(tmp_path: Path) -> None:
    tree = {"c/templates/beat.yaml": _beat("replicas: 1", "replicas: {{ .Values.beat.replicas }}")}
    assert findings_in(tmp_path, tree | {"c/values.yaml": "beat:\n  replicas: 2\n"}) == ["CR520 c/values.yaml:2"]
    assert findings_in(tmp_path, tree | {"c/values.yaml": "beat:\n  replicas: 1\n"}) == []


def test_values_on_top_of_a_charts_own(tmp_path: Path) -> None:
    tree = {
        "c/templates/beat.yaml": _beat("replicas: 1", "replicas: {{ .Values.beat.replicas }}"),
        "c/values.yaml": "beat:\n  replicas: 1\n",
        "c/values-prod.yaml": "beat:\n  replicas: 2\n",
        "c/values.staging.yaml": "web:\n  replicas: 2\n",
        "c/values-dev.yaml": "beat:\n  replicas: 2\n",
        "other/values-prod.yaml": "beat:\n  replicas: 2\n",
    }
    assert findings_in(tmp_path, tree) == ["CR520 c/values-prod.yaml:2"]


def test_an_autoscaler_says_how_many_there_may_be(tmp_path: Path) -> None:
    name = '{{ include "shop.fullname" . }}-beat'
    scaler = (
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: beat}\nspec:\n"
        f"  scaleTargetRef:\n    kind: Deployment\n    name: {name}\n  maxReplicas: 10\n"
    )
    tree = {"c/templates/beat.yaml": _beat("name: beat\nspec", f"name: {name}\nspec"), "c/templates/hpa.yaml": scaler}
    (found,) = report_on(tmp_path, tree).findings
    assert (found.rule, str(found.place)) == ("CR520", "c/templates/hpa.yaml:8")
    assert found.message.startswith("Deployment `…-beat` runs `celery beat`, and this makes up to 10 of it")


def test_a_workload_whose_name_a_template_says_goes_by_its_file(tmp_path: Path) -> None:
    named = _beat("name: beat\nspec", 'name: {{ include "shop.fullname" . }}\nspec')
    named = changed(named, "Recreate", "RollingUpdate")
    (found,) = report_on(tmp_path, {"c/templates/beat.yaml": named}).findings
    assert found.message.startswith("The Deployment of templates/beat.yaml runs `celery beat`")


def test_a_beat_in_each_worker_of_a_chart(tmp_path: Path) -> None:
    worker = _beat("replicas: 1", "replicas: {{ .Values.replicaCount }}").replace("beat]", "worker, -B]")
    worker = changed(worker, "name: beat\nspec", "name: {{ .Release.Name }}\nspec")
    tree = {"c/templates/worker.yaml": worker, "c/values.yaml": "replicaCount: 3\n"}
    (found,) = report_on(tmp_path, tree).findings
    assert (found.rule, found.severity) == ("CR211", Severity.ERROR)
    assert found.message.startswith("each of the 3 workers of `Deployment of templates/worker.yaml` (c/values.yaml:1)")
    (found,) = report_on(tmp_path, {"c/values.yaml": "replicaCount: 1\n"}).findings
    assert (found.rule, found.severity) == ("CR211", Severity.INFO)


def test_a_beat_and_a_worker_with_a_beat_in_one_chart_or_folder(tmp_path: Path) -> None:
    worker = _beat("name: beat\nspec", "name: worker\nspec").replace("beat]", "worker, -B]")
    both = {"c/templates/beat.yaml": DEPLOYMENT, "c/templates/worker.yaml": worker}
    (found,) = [one for one in report_on(tmp_path, both).findings if one.rule == "CR212"]
    assert (str(found.place), found.confidence) == ("c/templates/worker.yaml:18", Confidence.MEDIUM)
    assert found.message.startswith("`Deployment/beat` (c/templates/beat.yaml:18) and `Deployment/worker` both run")
    (tmp_path / "c/templates/worker.yaml").unlink()
    assert findings_in(tmp_path, {"d/worker.yaml": worker}, "CR212") == []


def test_replicas_that_are_written_are_told_once(tmp_path: Path) -> None:
    found = findings_in(tmp_path, {"beat.yaml": _beat("replicas: 1", "replicas: 3")})
    assert found == ["CR212 beat.yaml:18"]


@pytest.mark.parametrize(
    ("strategy", "found"),
    [
        ("", ["CR521 beat.yaml:2"]),
        ("  strategy: {}\n", ["CR521 beat.yaml:2"]),
        ("  strategy:\n    type: RollingUpdate\n", ["CR521 beat.yaml:8"]),
        ("  strategy:\n    rollingUpdate:\n      maxUnavailable: 0\n", ["CR521 beat.yaml:2"]),
        ("  strategy:\n    rollingUpdate:\n      maxSurge: 0\n", []),
        ("  strategy:\n    rollingUpdate:\n      maxSurge: 0%\n", []),
        ("  strategy:\n    type: Recreate\n", []),
        ("  strategy:\n    rollingUpdate:\n      maxSurge: {{ .Values.surge }}\n", []),
        ("  strategy: {{ .Values.strategy }}\n", []),
        ("  {{- toYaml .Values.more | nindent 2 }}\n", []),
    ],
)
def test_a_rollout_with_a_surge_runs_two(tmp_path: Path, strategy: str, found: list[str]) -> None:
    text = _beat("  strategy:\n    type: Recreate\n", strategy)
    assert findings_in(tmp_path, {"beat.yaml": text}) == found


@pytest.mark.parametrize(("old", "new"), [("Deployment", "StatefulSet"), ("replicas: 1", "replicas: 0")])
def test_what_is_not_rolled_out_with_a_surge_is_silent(tmp_path: Path, old: str, new: str) -> None:
    text = without(DEPLOYMENT, "strategy", "Recreate")
    assert findings_in(tmp_path, {"beat.yaml": changed(text, old, new)}) == []


@pytest.mark.parametrize(
    "command",
    [
        "[celery, -A, app, worker]",
        "[celery, -A, app, beat, -S, redbeat.RedBeatScheduler]",
        "[celery, -A, app, beat, -S, cronce]",
        "[airflow, scheduler]",
        "[cronce, run, jobs.py]",
        "[rqscheduler]",
        "[gunicorn, app:app]",
        '[sh, -c, "exec celery -A app worker"]',
        "{{ .Values.command }}",
    ],
)
def test_what_fires_nothing_or_agrees_may_be_two(tmp_path: Path, command: str) -> None:
    text = without(_beat("[celery, -A, app, beat]", command), "strategy", "Recreate")
    assert findings_in(tmp_path, {"beat.yaml": text}, "CR520", "CR521") == []
    assert findings_in(tmp_path, {"beat.yaml": changed(text, "Deployment", "DaemonSet")}, "CR520", "CR521") == []


@pytest.mark.parametrize(
    "command",
    [
        '[sh, -c, "exec celery -A app beat -l info"]',
        "[crond, -f]",
        "[supercronic, /etc/crontab]",
        "[taskiq, scheduler, a:b]",
    ],
)
def test_schedulers_of_other_kinds(tmp_path: Path, command: str) -> None:
    text = without(_beat("[celery, -A, app, beat]", command), "strategy", "Recreate")
    assert findings_in(tmp_path, {"beat.yaml": text}, "CR521") == ["CR521 beat.yaml:2"]


def test_redbeat_in_the_settings_lets_several_agree(tmp_path: Path) -> None:
    tree = {
        "beat.yaml": _beat("Deployment", "DaemonSet"),
        "app.py": 'from celery import Celery\napp = Celery("a")\napp.conf.beat_scheduler = "redbeat.Scheduler"\n',
    }
    assert findings_in(tmp_path, tree, "CR520") == []
