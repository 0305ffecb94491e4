"""Templates are read as what they become, and an overlay as a part: what is not told is no finding."""

from pathlib import Path
from textwrap import indent

import pytest

from cronce_audit.kubernetes.facts import plain
from tests.audit.manifests import CRONJOB, changed, under, without
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


BASE = without(CRONJOB, "concurrencyPolicy")
PATCH = "apiVersion: batch/v1\nkind: CronJob\nmetadata:\n  name: report\nspec:\n"


def test_a_patch_lacks_nothing(tmp_path: Path) -> None:
    tree = {
        "a.yaml": f"{PATCH}  schedule: '* * * * *'\n",
        "b.yaml": f"{PATCH}  jobTemplate: {{spec: {{template: {{spec: {{containers: [{{name: report}}]}}}}}}}}\n",
    }
    assert findings_in(tmp_path, tree) == []


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
