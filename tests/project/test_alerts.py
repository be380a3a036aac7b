"""The rules for Prometheus speak of metrics that there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from server.metrics import OUTCOMES, Described, Metrics
from server.settings import leaves

ROOT = Path(__file__).parents[2]
RULES: list[dict[str, Any]] = yaml.safe_load((ROOT / "docs/alerts.yml").read_text())["groups"][0]["rules"]
SELECTOR = re.compile(r'\b((?:reelserve|process)_[a-z_]+)(?:\{((?:[^"}]|"[^"]*")*)\})?')
MATCHER = re.compile(r'(\w+)(=~|!=|=)"([^"]*)"')
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}
KNOWN_BY_PROMETHEUS = {"job", "instance", "le"}
PROCESS = {"process_open_fds", "process_max_fds"}


def known() -> dict[str, Described]:
    """Metrics by each name that a query can have."""
    return {
        metric.name + suffix: metric for metric in Metrics().described() for suffix in SUFFIXES[metric.kind]
    }


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_a_rule_is_whole_and_speaks_of_metrics_that_there_are(rule: dict[str, Any]) -> None:
    """What Prometheus asks of a rule, what whoever is woken needs, and no name or label made up."""
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"Reelserve[A-Z]\w+", rule["alert"])
    assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert set(rule["annotations"]) == {"summary", "action"}
    named = SELECTOR.findall(rule["expr"])
    assert named or "up{" in rule["expr"]
    for name, matchers in named:
        if name in PROCESS:
            continue
        assert name in known(), name
        for label, _, value in MATCHER.findall(matchers):
            assert label in {*known()[name].labels, *KNOWN_BY_PROMETHEUS}, (name, label)
            if label == "outcome" and name == "reelserve_jobs_ended_total":
                assert set(value.split("|")) <= set(OUTCOMES), value


SERIES = [
    (sample.name, sample.labels)
    for family in Metrics(["wan"]).registry.collect()
    for sample in family.samples
]


def test_what_an_alert_counts_is_there_before_it_happens() -> None:
    """Prometheus sees no increase from nothing to 1."""
    for rule in RULES:
        for name, matchers in SELECTOR.findall(rule["expr"]):
            if name in PROCESS or known()[name].kind == "gauge" or "http_request" in name:
                continue
            wanted = [match for match in MATCHER.findall(matchers) if match[0] not in KNOWN_BY_PROMETHEUS]
            found = [
                labels
                for series, labels in SERIES
                if series == name and all(matches(labels, *match) for match in wanted)
            ]
            assert found, (rule["alert"], name, matchers)


def matches(labels: dict[str, str], label: str, operator: str, value: str) -> bool:
    """As Prometheus does it."""
    match operator:
        case "=":
            return labels[label] == value
        case "!=":
            return labels[label] != value
        case _:
            return re.fullmatch(value, labels[label]) is not None


def test_alerts_have_names_of_their_own() -> None:
    """And there are some."""
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names) > 10


def test_what_to_do_names_settings_that_there_are() -> None:
    """Of the form `section.name`."""
    settings = {name for name, _ in leaves()}
    sections = {name.partition(".")[0] for name in settings}
    for rule in RULES:
        for said in re.findall(r"`([a-z_]+\.[a-z_]+)`", rule["annotations"]["action"]):
            assert said in settings or said.partition(".")[0] not in sections, said


def test_counters_and_histograms_are_named_as_prometheus_asks() -> None:
    """`_total` for counters, a base unit for what has one; no label is an id."""
    for metric in Metrics().described():
        assert metric.name.startswith("reelserve_")
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert metric.kind != "histogram" or metric.name.endswith(("_seconds", "_ratio")), metric.name
        assert not {label for label in metric.labels if "id" in label.split("_")}, metric.name
        assert metric.text, metric.name
