"""Every expression of every dashboard, run by a real Prometheus on metrics as the service makes them."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scraped import AUDITED, LOWER, OF_TURNS, WATCHED, WHOLE, Prometheus, PrometheusUnavailable, scraped

from collector.alerting.rules import series
from collector.alerting.rules.formats import prometheus as prometheus_rules
from collector.alerting.rules.generate import rules_of
from collector.alerting.rules.model import Timing
from collector.alerting.rules.series import UNSCORED_SHARE
from collector.config.loading import check

FOLDER = Path(__file__).parents[2] / "deploy" / "grafana" / "dashboards"
BOARDS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
VARIABLES = {
    "$__rate_interval": "5s",
    "offset 5m": "offset 2s",
    "$__range": "5s",
    "$window": "5s",
    "$monitor": "chatbot|search",
    "$evaluator": ".*",
    "$segment": ".*",
}
IN_INCIDENTS = {
    series.DROP_FIRST_BEGIN,
    series.DROP_LAST_BEGIN,
    series.DROP_SINCE,
    series.DROP_EARLIEST,
    series.DROP_LATEST,
    series.DROP_MEAN,
    series.VERSION_REPLACED,
    series.DROP_BEFORE,
    series.DROP_LEVEL,
    series.DROP_AFTER,
    series.DROP_SETTLED,
    series.SCORE_FALL,
    series.FALL_SHIFT,
    series.DROP_RECOVERED,
    series.RECOVERY_NULL,
    series.RECOVERY_LOG_E,
    series.RECOVERY_EVIDENCE,
    series.FURTHER_LOG_E,
    series.WINDOW_OVERLAPS,
    series.DROP_CAUSE,
    series.JUDGE_VERDICT,
}
"""Series of an alert's life, which are there while a drop lasts; test_alert_life.py looks at them."""

PANELS = [
    pytest.param(panel["type"], target, id=f"{name}-{panel['title']}-{target['refId']}".replace(" ", "_"))
    for name, board in BOARDS.items()
    for panel in board["panels"]
    for target in panel.get("targets", [])
]


def _rules() -> dict[str, Any]:
    """What `evalstream rules` makes, at sixty times the speed, and an alert that fires."""
    evaluator = {"kind": "g_eval", "criteria": "Good.", "evaluation_params": ["actual_output"], "threshold": 0.7}
    monitors: dict[str, Any] = {}
    for each in OF_TURNS:
        monitor = monitors.setdefault(each.monitor, {"evaluators": [], "alerts": {"objectives": {}}})
        monitor["evaluators"].append(each.evaluator)
        monitor["alerts"]["objectives"][each.evaluator] = 0.8
    monitors[AUDITED.monitor]["evaluators"].append(AUDITED.evaluator)
    audited = {**evaluator, "judge": "main", "audit": {"judge": "dear", "share": 0.5}}
    values = {
        "judges": {"main": {"model": "a-model"}, "dear": {"model": "another"}},
        "evaluators": {
            **{each.evaluator: {**evaluator, "judge": "main"} for each in OF_TURNS},
            AUDITED.evaluator: audited,
        },
        "monitors": monitors,
    }
    groups = prometheus_rules(rules_of(check(values, "test"), Timing(speed=60)))["groups"]
    alert = {"alert": "EvalstreamTest", "expr": "evalstream_target_score > 0", "labels": {"severity": "page"}}
    return {"groups": [*groups, {"name": "test", "rules": [alert]}]}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    try:
        with scraped(tmp_path_factory.mktemp("prometheus"), _rules()) as running:
            yield running
    except PrometheusUnavailable as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


def _filled_in(expr: str) -> str:
    for name, value in VARIABLES.items():
        expr = expr.replace(name, value)
    assert "$" not in expr, expr
    return expr


def _labels(legend: str) -> set[str]:
    return set(re.findall(r"\{\{(\w+)\}\}", legend))


@pytest.mark.parametrize(("kind", "target"), PANELS)
def test_a_panel_shows_data_with_the_labels_its_legend_names(prometheus: Prometheus, kind: str, target: Any):
    expr = _filled_in(target["expr"])
    found = prometheus.now(expr) if kind == "table" else prometheus.over_time(expr)
    values = [float(value) for each in found for _, value in each.get("values") or [each["value"]]]
    assert any(map(math.isfinite, values)), expr
    assert all(_labels(target["legendFormat"]) <= set(each["metric"]) for each in found)


@pytest.mark.parametrize("name", BOARDS)
def test_a_new_version_is_marked_once(prometheus: Prometheus, name: str):
    new = _marks(name)["New versions"]
    marked = prometheus.over_time(_filled_in(new["expr"]))
    assert {(each["metric"]["monitor"], each["metric"]["evaluator"]) for each in marked} == {
        (each.monitor, each.evaluator) for each in WATCHED
    }
    assert not prometheus.now(_filled_in(new["expr"]))


def _marks(name: str) -> dict[str, Any]:
    return {each["name"]: each for each in BOARDS[name]["annotations"]["list"]}


@pytest.mark.parametrize("mark", ["Configuration", "Deploys", "Releases"])
@pytest.mark.parametrize("name", BOARDS)
def test_deploys_and_changes_of_the_configuration_are_marked_once(prometheus: Prometheus, name: str, mark: str):
    expr = _filled_in(_marks(name)[mark]["expr"])
    (marked,) = prometheus.over_time(expr)
    assert _labels(_marks(name)[mark]["titleFormat"]) == set(marked["metric"])
    assert not prometheus.now(expr)


def _panel(board: str, title: str) -> Any:
    (panel,) = [each for each in BOARDS[board]["panels"] if each["title"] == title]
    return panel


def _values(prometheus: Prometheus, expr: str, *labels: str) -> dict[tuple[str, ...], float]:
    found = prometheus.now(_filled_in(expr))
    return {tuple(each["metric"][label] for label in labels): float(each["value"][1]) for each in found}


def test_the_worst_segments_are_those_with_the_highest_means_where_lower_is_better(prometheus: Prometheus):
    panel = _panel("evalstream-quality", "Worst segments")
    badness, means, errors = (
        _values(prometheus, each["expr"], "monitor", "evaluator", "segment") for each in panel["targets"]
    )
    assert set(badness) == set(means) == set(errors)
    assert panel["options"]["sortBy"] == [{"desc": True, "displayName": "badness"}]
    paid, free = ((LOWER.monitor, LOWER.evaluator, segment) for segment in ("paid", "free"))
    assert badness[paid] > 0.85
    assert badness.get(free, 0.0) < 0.35, "where it is among the ten worst at all"
    for key, mean in means.items():
        worse = mean if key in (paid, free) else 1 - mean
        assert badness[key] == pytest.approx(worse, abs=0.1)  # asked a moment later


def test_the_weights_of_turns_and_of_conversations_are_checked_apart(prometheus: Prometheus):
    turns, conversations = (
        _values(prometheus, _panel("evalstream-trust", title)["targets"][0]["expr"], "monitor", "evaluator")
        for title in ("Weight check", "Weight check of conversations")
    )
    assert set(turns) == {(each.monitor, each.evaluator) for each in (*OF_TURNS, LOWER, AUDITED)}
    assert set(conversations) == {(WHOLE.monitor, WHOLE.evaluator)}


def test_the_unscored_share_is_that_of_its_alert(prometheus: Prometheus):
    """Each batch has six scores, one failure, and one skip as a field is missing, which is no loss. The failures of
    evaluators of turns are made again with a score, as by `rejudge`.
    """
    shown = _values(
        prometheus, _panel("evalstream-trust", "Unscored share")["targets"][0]["expr"], "monitor", "evaluator"
    )
    assert shown == _values(prometheus, UNSCORED_SHARE, "monitor", "evaluator")
    again = {(each.monitor, each.evaluator) for each in OF_TURNS}
    assert shown == {
        (each.monitor, each.evaluator): pytest.approx(
            0.0 if (each.monitor, each.evaluator) in again else 1 / 7, abs=0.02
        )
        for each in WATCHED
    }


def test_an_alert_in_the_table_says_whose_it_is_and_leads_there(prometheus: Prometheus):
    panel = _panel("evalstream-quality", "Alerts")
    firing = {each["metric"]["alertname"]: each["metric"] for each in prometheus.now(panel["targets"][0]["expr"])}
    assert {"monitor", "evaluator"} <= set(firing["EvalstreamTest"])
    (override,) = panel["fieldConfig"]["overrides"]
    assert override["matcher"] == {"id": "byName", "options": "alertname"}
    (links,) = [each["value"] for each in override["properties"] if each["id"] == "links"]
    columns = re.findall(r"__data\.fields\.(\w+)", " ".join(each["url"] for each in links))
    assert set(columns) == {"monitor", "evaluator", "alertname"} <= set(firing["EvalstreamTest"])


def test_a_worse_release_alerts_with_its_difference(prometheus: Prometheus):
    (rule,) = [
        rule
        for group in prometheus.get("rules")["groups"]
        for rule in group["rules"]
        if rule["name"] == "EvalstreamReleaseWorse"
    ]
    told = {each["labels"]["monitor"]: each["annotations"]["description"] for each in rule["alerts"]}
    assert set(told) == {"chatbot", "search"}
    assert re.search(
        r"with some some differs from that with some by [\d.]+, between [\d.]+ and [\d.]+\.", told["search"]
    )
    panel = _panel("evalstream-quality", "Releases")
    assert [set(_values(prometheus, each["expr"], "evaluator")) for each in panel["targets"]] == [
        {("helpful",), ("grounded",)}
    ] * 4


def test_the_variables_offer_what_is_watched(prometheus: Prometheus):
    for board in BOARDS.values():
        for variable in board["templating"]["list"]:
            if variable["type"] != "query":
                continue
            match = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"])
            assert match
            assert prometheus.get(f"label/{match[2]}/values", **{"match[]": _filled_in(match[1])})


def test_dots_lead_to_traces(prometheus: Prometheus):
    """Panels with exemplars have some, with the trace ids of scores."""
    asking = [target for _, target in (each.values for each in PANELS) if target.get("exemplar")]
    assert len(asking) >= 2
    for target in asking:
        found = prometheus.exemplars(_filled_in(target["expr"]))
        traces = [exemplar["labels"]["trace_id"] for each in found for exemplar in each["exemplars"]]
        assert traces
        assert all(re.fullmatch(r"[0-9a-f]{32}", trace) for trace in traces)


def test_the_band_holds_the_mean_and_is_narrow_where_much_is_judged(prometheus: Prometheus):
    (targets,) = [
        panel["targets"] for panel in BOARDS["evalstream-quality"]["panels"] if panel["title"] == "$evaluator"
    ]
    mean, low, high, target = (
        {each["metric"]["evaluator"]: float(each["value"][1]) for each in prometheus.now(_filled_in(target["expr"]))}
        for target in targets
    )
    assert set(mean) == set(low) == set(high) == {each.evaluator for each in WATCHED}
    assert set(target) == {*mean, f"{AUDITED.evaluator}:audit"}
    assert 0.35 < mean.pop(LOWER.evaluator) < 0.75
    for evaluator, value in mean.items():
        assert 0.55 < value < 0.85  # two thirds of 0.9, one of 0.3, give 0.7
        assert low[evaluator] < value < high[evaluator]
        assert high[evaluator] - low[evaluator] < 0.4


def test_an_evaluator_without_scores_has_no_mean_and_not_zero(prometheus: Prometheus):
    (target, *_) = next(
        panel["targets"] for panel in BOARDS["evalstream-quality"]["panels"] if panel["title"] == "$evaluator"
    )
    silent = target["expr"].replace("$segment", "other")
    assert prometheus.now(_filled_in(silent)) == []


def test_every_rule_is_evaluated_and_every_recorded_series_is_there(prometheus: Prometheus):
    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert len(rules) > 50
    assert {rule["health"] for rule in rules} == {"ok"}, [rule for rule in rules if rule["health"] != "ok"]
    recorded = {rule["name"] for rule in rules if rule["type"] == "recording"}
    missing = {name for name in recorded if not prometheus.over_time(name)}
    # counters that began at 0 held nothing at their first scrape
    assert missing <= IN_INCIDENTS | {series.NEW_SCORES, *series.EARLY.values()}, sorted(missing)
