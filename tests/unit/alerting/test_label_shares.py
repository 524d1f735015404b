"""The share of a label is watched like a mean: its metrics, its targets, its rules and its alerts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from configurations import checked
from evaluation_samples import scored
from prometheus_client import generate_latest

from collector.alerting.rules import series
from collector.alerting.rules.detectability import alert_lines
from collector.alerting.rules.generate import rules_hash, rules_of
from collector.alerting.rules.model import AlertingRule, RecordingRule
from collector.alerting.rules.targets import Target, detector, targets
from collector.alerting.watch.stage import WatchRules, WatchStage
from collector.commands.check.check import report
from collector.config.configured import Config
from collector.config.loading import check
from collector.errors import ConfigError
from collector.export.exporter import ExportContext, MonitoredEvaluator
from collector.export.prometheus import PrometheusExporter, PrometheusSettings
from collector.logs.log import Record
from collector.logs.memory import MemoryLog
from collector.records.json import evaluation_to_json
from collector.statistics.incident import DropDetector
from collector.telemetry.registry import Telemetry
from evaluators.results import Evaluation, Sampling

LABELS = {
    "resolved": {"meaning": "It ended well.", "pass": True},
    "escalated": {"meaning": "A person took over.", "pass": False},
}
OUTCOME = {"kind": "classifier", "scope": "conversation", "question": "How did it end?", "labels": LABELS}
SHARE = "outcome=escalated"


def configured(shares: Any = None, **alerts: Any) -> Config:
    return check(
        {
            "judges": {"main": {"model": "m"}},
            "evaluators": {"outcome": OUTCOME, "exact": {"kind": "exact_match"}},
            "monitors": {
                "chatbot": {
                    "evaluators": ["outcome", "exact"],
                    "alerts": {**alerts, **({"shares": shares} if shares else {})},
                }
            },
        },
        "test.yaml",
    )


AT_MOST = {"outcome": {"escalated": {"at_most": 0.05}}}


def of_label(label: str, number: int, *, probability: float = 1.0) -> Evaluation:
    return scored(
        number,
        evaluator="outcome",
        monitor="chatbot",
        scope="conversation",
        score=1.0,
        label=label,
        subject=replace(scored().subject, conversation_id=str(number)),
        sampling=Sampling(probability=probability),
    )


async def test_labels_are_counted_with_their_weights_and_watched_shares_are_means() -> None:
    telemetry = Telemetry()
    watched = MonitoredEvaluator(
        evaluator="outcome",
        evaluator_version=of_label("x", 0).evaluator_version,
        monitor="chatbot",
        labels=("resolved", "escalated"),
        watched_labels={"escalated": True},
    )
    exporter = PrometheusExporter(PrometheusSettings(), ExportContext(telemetry=telemetry, evaluators=(watched,)))
    generate_latest(telemetry.registry)
    await exporter.export(
        [
            of_label("resolved", 1, probability=0.25),
            of_label("escalated", 2, probability=0.5),
            of_label("escalated", 3, probability=0.5),
            of_label("handed over", 4, probability=0.5),  # of an earlier definition
        ]
    )
    where = {"evaluator_version": watched.evaluator_version, "monitor": "chatbot", "segment": "all"}

    def value(name: str, evaluator: str = "outcome", **labels: str) -> float | None:
        return telemetry.registry.get_sample_value(name, {**where, "evaluator": evaluator, **labels})

    weights = {
        label: value("evalstream_label_weight_total", label=label) for label in ("resolved", "escalated", "other")
    }
    assert weights == {"resolved": 4.0, "escalated": 4.0, "other": 2.0}
    assert value("evalstream_labels_total", label="escalated") == 2.0
    assert value("evalstream_estimator_w_total", SHARE) == 10.0
    assert value("evalstream_estimator_wy_total", SHARE) == 4.0
    assert value("evalstream_estimator_w2_total", SHARE) == 4.0**2 + 3 * 2.0**2
    assert value("evalstream_estimator_w2y2_total", SHARE) == 2 * 2.0**2
    assert value("gen_ai_evaluation_score_count", SHARE) == 4.0
    assert value("evalstream_estimator_w_total", "outcome=resolved") is None


def share_of(config: Config) -> Target:
    [target] = [each for each in targets(config) if each.label is not None]
    return target


def test_a_share_is_a_target_beside_that_of_the_mean() -> None:
    config = configured(AT_MOST, targets={"outcome": 0.9})
    target = share_of(config)
    assert (target.evaluator, target.source, target.mean, target.lower_is_better) == (SHARE, "outcome", 0.05, True)
    at_least = share_of(configured({"outcome": {"resolved": {"at_least": 0.8}}}))
    assert (at_least.evaluator, at_least.mean, at_least.lower_is_better) == ("outcome=resolved", 0.8, False)
    both = targets(config)
    lone = targets(configured(targets={"outcome": 0.9}))
    alerts = config.settings.alerts
    assert detector(both[0], both, alerts, 1).threshold > detector(lone[0], lone, alerts, 1).threshold, (
        "false alarms are shared by all series"
    )


def test_rules_hold_the_share_to_its_target_and_ask_after_the_evaluator_itself() -> None:
    rules = rules_of(configured(AT_MOST))
    every = [rule for group in rules.groups for rule in group.rules]
    alerting = [rule for rule in every if isinstance(rule, AlertingRule) and rule.labels.get("evaluator") == SHARE]
    assert {rule.name for rule in alerting} == {"EvalstreamScoreBelowTarget", "EvalstreamScoreDropped"}
    assert all("share of the label" in rule.summary for rule in alerting)
    [miss] = [
        rule
        for rule in every
        if isinstance(rule, RecordingRule) and (rule.record, rule.labels.get("evaluator")) == (series.SCORE_MISS, SHARE)
    ]
    assert miss.expr.startswith(f'(evalstream:score_mean{{evaluator="{SHARE}",monitor="chatbot"}} - 0.05 - ')
    doubts = {
        rule.record: rule.expr
        for rule in every
        if isinstance(rule, RecordingRule) and rule.record.endswith("_doubt") and rule.labels["evaluator"] == SHARE
    }
    assert 'evaluator="outcome"' in doubts[series.SCORE_DOUBT]
    assert doubts[series.JUDGE_DOUBT] == "vector(0)", "how a judge's shift moves a share is unknown"
    assert doubts[series.SCORE_DOUBT].count(SHARE) == 1, "of this alone"
    assert not any(SHARE in str(rule) for rule in every if getattr(rule, "name", "") == "EvalstreamStale")


def test_rules_of_several_targets_are_told_apart_by_name_and_labels() -> None:
    """As Prometheus reads them again, it takes two of one name and labels for one: an alert ended at a reload."""
    config = configured(AT_MOST, targets={"exact": 0.9, "outcome": 0.9})
    rules = [rule for group in rules_of(config).groups for rule in group.rules]
    names = [(rule.record, *sorted(rule.labels.items())) for rule in rules if isinstance(rule, RecordingRule)]
    assert len(names) == len(set(names))


def test_a_configuration_without_shares_has_the_rules_that_it_had() -> None:
    assert rules_hash(configured()) == rules_hash(configured({}))


def test_check_says_which_rise_pages() -> None:
    [line] = [each for each in alert_lines(configured(AT_MOST)) if SHARE in each]
    assert line.startswith(
        f"alerts     chatbot/{SHARE}: target 0.05; at an assumed 100 evaluations/h a lasting rise to 0."
    )


@pytest.mark.parametrize(
    ("shares", "sentence"),
    [
        ({"outcom": {"escalated": {"at_most": 0.1}}}, "'outcom' is not an evaluator of this monitor"),
        ({"outcome": {"escaladed": {"at_most": 0.1}}}, "escalated"),
        ({"exact": {"right": {"at_most": 0.1}}}, "has no labels; write alerts.targets."),
        ({"outcome": {"escalated": {}}}, "exactly one of at_most and at_least"),
        ({"outcome": {"escalated": {"at_most": 0.1, "at_least": 0.2}}}, "exactly one of at_most and at_least"),
        ({"outcome": {"escalated": {"at_most": 1.0}}}, "must be below 1"),
    ],
)
def test_wrong_shares_are_refused(shares: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        configured(shares)


@pytest.mark.parametrize(("scope", "kind"), [("conversation", "conversational_classifier"), ("turn", "classifier")])
def test_scope_chooses_between_two_kinds_of_a_name(scope: str, kind: str) -> None:
    config = checked({"e": {**OUTCOME, "scope": scope}}, judges={"main": {"model": "m"}})
    assert config.evaluators["e"].evaluator.kind == kind


def test_a_scope_that_a_kind_has_not_is_refused() -> None:
    with pytest.raises(ConfigError, match="exact_match scores a turn, so scope cannot be 'conversation'"):
        checked({"e": {"kind": "exact_match", "scope": "conversation"}})


@pytest.mark.parametrize(("share", "fires"), [(0.02, False), (0.4, True)])
async def test_the_watcher_pages_when_a_share_rises(share: float, fires: bool) -> None:
    config, log = configured(AT_MOST), MemoryLog("evaluations", partitions=1)
    every = targets(config)
    held: dict[tuple[str, str], DropDetector] = {
        (each.monitor, each.evaluator): detector(each, every, config.settings.alerts, 1)
        for each in every
        if each.mean is not None
    }
    assert held.keys() == {("chatbot", SHARE)}
    watched = {("chatbot", "outcome"): ("escalated",)}
    stage = WatchStage(WatchRules(held, config.settings.alerts, watched), Telemetry())
    now = datetime.now(UTC)
    count = round(200 * share)
    await log.append(
        [
            Record(
                b"k",
                evaluation_to_json(
                    replace(of_label("escalated" if n < count else "resolved", n), started_at=now, ended_at=now)
                ),
                partition=0,
            )
            for n in range(200)
        ]
    )
    async with stage.open_fold(0, None) as fold:
        async for batch in log.read(0, 0):
            await fold.deliver(batch)
            then = batch[-1].timestamp
        alerts = stage.update(then + 120.0)
    assert bool(alerts) == fires
    for each in alerts:
        assert each.labels["evaluator"] == SHARE
        assert "the share of the label" in each.annotations["summary"]
        assert "its target" in each.annotations["summary"]


def test_check_lists_the_labels() -> None:
    assert any("labels: resolved (passes), escalated (fails)" in line for line in report(configured(AT_MOST)))
