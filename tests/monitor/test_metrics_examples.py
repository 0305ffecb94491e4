"""What is ready to use with the metrics, the dashboard and the rules, is about metrics and labels that there are."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cronce.monitor.metrics import METRICS, Metric

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "monitoring"
OF_TARGETS = {"instance"}
"""Labels that Prometheus adds."""

SELECTOR = re.compile(r"\b(cronce_\w+)\s*(?:\{([^}]*)\})?\s*(\[)?")
MATCHER = re.compile(r'\s*(\w+)\s*(?:=~|!~|!=|=)\s*"[^"]*"\s*')
GROUPED = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")
RATED = re.compile(r"\b(?:rate|increase)\(\s*(cronce_\w+)")
WORDS = re.compile(r"\{\{ *\$labels\.(\w+) *\}\}|\{\{(\w+)\}\}")


def metric_of(name: str) -> tuple[Metric, set[str]]:
    """A metric by the name of one of its samples, and the labels that those have."""
    if name in METRICS and METRICS[name].kind != "histogram":
        return METRICS[name], {*METRICS[name].labels}
    base, _, part = name.rpartition("_")
    metric = METRICS[base]
    assert (metric.kind, part in ("bucket", "sum", "count")) == ("histogram", True), name
    return metric, {*metric.labels, *(["le"] if part == "bucket" else [])}


def uses(expression: str) -> Iterator[Metric]:
    """Which metrics an expression selects, each with labels that it has; whatever else it says must be so, too."""
    found = SELECTOR.findall(expression)
    assert found, f"{expression} selects nothing of ours"
    there: set[str] = set()
    for name, matchers, _ in found:
        metric, labels = metric_of(name)
        matched = {part and MATCHER.fullmatch(part)[1] for part in matchers.split(",") if part}  # type: ignore[index]
        assert matched <= labels | OF_TARGETS, f"{name} has no {matched - labels}"
        there |= labels
        yield metric
    for names in GROUPED.findall(expression):
        assert {name.strip() for name in names.split(",")} <= there | OF_TARGETS, f"{expression} groups by {names}"
    for name in RATED.findall(expression):
        assert metric_of(name)[0].kind != "gauge", f"{name} is no counter"
    for name, _, ranged in found:
        if metric_of(name)[0].kind == "gauge":
            assert not ranged


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "grafana.json").read_text())
    return found


def panels() -> list[dict[str, Any]]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule["alert"]) for rule in rules()])
def test_a_rule_is_about_metrics_that_there_are_and_says_what_to_do(rule: dict[str, Any]) -> None:
    list(uses(rule["expr"]))
    assert re.fullmatch(r"Cronce[A-Za-z]+", rule["alert"])
    assert rule["labels"] in ({"severity": "critical"}, {"severity": "warning"})
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"\d+m", rule.get("for", "1m"))
    kept = {name.strip() for names in GROUPED.findall(rule["expr"]) for name in names.split(",")} or OF_TARGETS
    text = f"{rule['annotations']['summary']} {rule['annotations']['description']}"
    assert {first or second for first, second in WORDS.findall(text)} <= kept - {"le"}


def test_there_is_a_rule_for_each_thing_that_people_must_hear_of() -> None:
    about = {metric.name for rule in rules() for metric in uses(rule["expr"])}
    assert len({rule["alert"] for rule in rules()}) == len(rules())
    assert about >= {
        "cronce_schedulers_live",
        "cronce_store_up",
        "cronce_slots_lost_total",
        "cronce_slots_unknown_total",
        "cronce_slots_missed_total",
        "cronce_lease_left_ratio",
        "cronce_lease_age_seconds",
        "cronce_clock_skew_seconds",
        "cronce_slot_to_start_seconds",
    }


def test_rules_about_counters_see_the_first_thing_that_is_counted() -> None:
    """It is the counter's first sample, of which `increase` knows nothing."""
    for rule in rules():
        for name in re.findall(r"increase\((cronce_\w+)", rule["expr"]):
            assert f"unless {name} offset" in rule["expr"]


def test_prometheus_keeps_our_label_and_finds_the_rules() -> None:
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    (scrape,) = config["scrape_configs"]
    assert scrape["honor_labels"] is True
    assert [(FOLDER / file).exists() for file in config["rule_files"]] == [True]


@pytest.mark.parametrize("panel", [pytest.param(panel, id=panel["title"]) for panel in panels()])
def test_a_panel_is_about_metrics_that_there_are(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        kept = {label for metric in uses(target["expr"]) for label in metric.labels} | OF_TARGETS
        assert {first or second for first, second in WORDS.findall(target["legendFormat"])} <= kept | {"le"}
        assert target["datasource"]["uid"] == "${datasource}"
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    assert {"unit"} <= set(panel["fieldConfig"]["defaults"])


def test_the_dashboard_shows_every_metric_and_its_panels_lie_side_by_side() -> None:
    board = dashboard()
    shown = {metric.name for panel in panels() for target in panel["targets"] for metric in uses(target["expr"])}
    assert shown == set(METRICS)
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in board["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) == 23
    named = {variable["name"] for variable in board["templating"]["list"]}
    used = {name for panel in panels() for one in panel["targets"] for name in re.findall(r"\$(\w+)", one["expr"])}
    assert used - {"__rate_interval"} == named - {"datasource"}
    for variable in board["templating"]["list"][1:]:
        metric, label = re.findall(r"label_values\((\w+), (\w+)\)", variable["query"]["query"])[0]
        assert label in {*METRICS[metric].labels, *OF_TARGETS}


@pytest.mark.parametrize(
    "wrong",
    [
        "up == 0",
        "cronce_nothing_total > 0",
        "rate(cronce_store_up[5m])",
        "max_over_time(cronce_store_up[5m])",
        'cronce_late_total{kind="run"}',
        "sum by (kind) (cronce_late_total)",
        "cronce_run_duration_seconds > 1",
        "sum by (le) (cronce_run_duration_seconds_sum)",
    ],
)
def test_what_is_wrong_is_caught(wrong: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        list(uses(wrong))
