"""Means by people: what the rules make of sums is what the plain code makes; and alerts that ask for a proven judge."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from promtool import run, series

from collector.alerting.rules.agreement import UNCALIBRATED
from collector.alerting.rules.falls import DROPPED
from collector.alerting.rules.generate import rules_of
from collector.alerting.rules.model import AlertingRule, RecordingRule
from collector.alerting.rules.series import SCORE_FALL, SCORE_MISS
from collector.config.configured import Config
from collector.config.loading import check
from collector.records.audits import AuditScore
from collector.service.plan_builder import audit_version_in, evaluator_version_in
from collector.statistics.audited_sums import (
    LOGGED,
    SUM_NAMES,
    AuditedClusters,
    AuditedSums,
    CorrectedMean,
    corrected_by_people,
    sums_of_scores,
    totals_of,
)
from collector.statistics.bounded_sums import Clusters, Sums

EVALUATOR = {"kind": "g_eval", "criteria": "Does it help?", "evaluation_params": ["actual_output"], "threshold": 0.77}
MINUTES = 30
ESTIMATOR = ("w", "wy", "w2", "w2y", "w2y2")


def configured(*, audited: bool, **alerts: Any) -> Config:
    audit = {"audit": {"judge": "strong", "share": 0.3}} if audited else {}
    return check(
        {
            "judges": {"luna": {"model": "m"}, "strong": {"model": "n"}},
            "evaluators": {"helpful": {**EVALUATOR, "judge": "luna", **audit}},
            "monitors": {"chatbot": {"evaluators": ["helpful"], "alerts": {}}},
            "page": {},
            "alerts": alerts,
        },
        "test.yaml",
    )


def counted(values: list[float]) -> list[float]:
    """Flat before and after, so that `increase` has nothing to extrapolate to."""
    return [0.0] * 5 + values + [values[-1]] * 10


def labels_and_scores(*, by_mean: bool) -> tuple[AuditedSums, list[list[float]], list[AuditedSums]]:
    """The sums of labels; those of scores and of audits, minute by minute."""
    chance, clusters, audits = random.Random(3), Clusters(), AuditedClusters()
    scores, audited, labelled = [[0.0] * 5], [AuditedSums()], list[list[float]]()
    for minute in range(MINUTES):
        total, by_audits = list(scores[-1]), audited[-1]
        for number in range(60):
            weight, common = chance.choice((1.0, 4.0)), chance.random()
            cheap = min(1.0, max(0.0, 0.6 * common + 0.3 * chance.random()))
            dear = min(1.0, cheap + 0.15)
            key = (minute, number)
            grown = clusters.add(key, weight=weight, score=cheap, time=60.0 * minute)
            total = [a + getattr(grown, name) for a, name in zip(total, ESTIMATOR, strict=True)]
            audit = AuditScore(dear, 0.3) if chance.random() < 0.3 else None
            by_audits += audits.add(key, weight=weight, score=cheap, audit=audit, time=60.0 * minute)
            if chance.random() < 0.1:
                said = AuditScore(float(chance.random() < dear), 0.1)
                labelled.append(
                    list(totals_of(weight, cheap, said))
                    if not by_mean
                    else [*totals_of(weight, cheap, said)[:3], 0.0, 0.0]
                )
        scores.append(total)
        audited.append(by_audits)
    values = zip(SUM_NAMES, AuditedSums.of(labelled).values, strict=True)
    return AuditedSums(tuple(value if "a" in name else 0.0 for name, value in values)), scores, audited


def inputs_of(
    config: Config, *, withheld: bool = False, of_audits: bool = True, not_scraped: float = 0.0
) -> tuple[list[dict[str, str]], CorrectedMean]:
    """Input series and the mean that the plain code makes of them; `of_audits`: labels correct audits if there are any;
    `not_scraped` is the share of the log's scores, by weight, that came before Prometheus did.
    """
    by_audits = audit_version_in(config, "helpful") if of_audits else None
    labels, scores, audited = labels_and_scores(by_mean=by_audits is not None)
    version = by_audits or evaluator_version_in(config, "helpful")
    of = {"evaluator_version": version, "monitor": "chatbot", "segment": "all"}
    made = [
        series("evalstream_people_sums", [value] * (MINUTES + 16), evaluator="helpful:people", **of, sum=name)
        for name, value in zip(SUM_NAMES, labels.values, strict=True)
        if "a" in name
    ]
    logged = scores[-1][0] / (1.0 - not_scraped)
    of_log = series("evalstream_people_sums", [logged] * (MINUTES + 16), evaluator="helpful:people", **of, sum=LOGGED)
    made.append(of_log)
    if withheld:
        said = {"evaluator": "helpful:people", "evaluator_version": version, "monitor": "chatbot", "reason": "drift"}
        made.append(series("evalstream_people_withheld", [1.0] * (MINUTES + 16), **said))
    expected = (labels + sums_of_scores(Sums(*scores[-1]))).corrected()
    if (audit_version := audit_version_in(config, "helpful")) is not None:
        mean = audited[-1].corrected()
        assert mean is not None
        expected = corrected_by_people(labels, mean) if by_audits else expected
        own = of | {"evaluator_version": audit_version}
        for place, name in enumerate(SUM_NAMES):
            numbers = counted([each.values[place] for each in audited])
            made.append(series("evalstream_audited_sums_total", numbers, evaluator="helpful:audit", **own, sum=name))
    for place, name in enumerate(ESTIMATOR):
        own = of | {"evaluator_version": evaluator_version_in(config, "helpful")}
        numbers = counted([each[place] for each in scores])
        made.append(series(f"evalstream_estimator_{name}_total", numbers, evaluator="helpful", **own))
    assert expected is not None
    return made, expected


def is_near(name: str, value: float) -> dict[str, Any]:
    chosen = f'{name}{{evaluator="helpful:people",window="7d"}}'
    return {
        "expr": f"count(abs({chosen} - {value:.10f}) < 0.0001)",
        "eval_time": "45m",
        "exp_samples": [{"labels": "{}", "value": 1}],
    }


@pytest.mark.parametrize(
    ("audited", "of_audits"), [(False, False), (True, True), (True, False)], ids=["only_judge", "audits", "new_audits"]
)
def test_the_rules_make_of_the_sums_what_the_plain_code_makes(audited: bool, of_audits: bool, tmp_path: Path) -> None:
    config = configured(audited=audited)
    inputs, expected = inputs_of(config, of_audits=of_audits)
    figures = {
        "evalstream:score_mean": expected.mean,
        "evalstream:score_stderr": expected.error,
        "0.001 * evalstream:audits": expected.audits / 1000,
        "evalstream:audit_power": expected.power,
        "evalstream:audit_gain": expected.gain,
    }
    assert expected.gain > 1.02
    nothing = {"expr": 'evalstream:score_mean{evaluator="helpful:people"}', "eval_time": "45m", "exp_samples": []}
    run(tmp_path, config, [
        {"inputs": inputs, "values": [is_near(*each) for each in figures.items()]},
        {"inputs": inputs_of(config, withheld=True, of_audits=of_audits)[0], "values": [nothing]},
        {"inputs": inputs_of(config, not_scraped=0.1, of_audits=of_audits)[0], "values": [nothing]},
    ])  # fmt: skip


def test_no_alert_looks_at_the_mean_of_a_week() -> None:
    looking = [
        rule
        for group in rules_of(configured(audited=True)).groups
        for rule in group.rules
        if isinstance(rule, AlertingRule) or rule.record in (SCORE_MISS, SCORE_FALL)
    ]
    assert len([rule for rule in looking if isinstance(rule, RecordingRule)]) == 2
    for rule in looking:
        if "evalstream:score_mean{" in rule.expr:
            assert 'window="' in rule.expr or 'window!="7d"' in rule.expr, rule
            assert ":people" not in rule.expr


@pytest.mark.parametrize(("low", "severities"), [(0.5, ["page"]), (0.3, ["warning"]), (None, ["warning"])])
def test_a_page_needs_a_judge_of_proven_agreement(low: float | None, severities: list[str], tmp_path: Path) -> None:
    config = configured(audited=False, min_agreement=0.4)
    inputs, _ = inputs_of(config)
    version = evaluator_version_in(config, "helpful")
    if low is not None:
        judge = {"evaluator": "helpful", "evaluator_version": version}
        measured = {**judge, "statistic": "kappa", "bound": "low"}
        inputs.append(series("evalstream_people_agreement", [low] * (MINUTES + 16), **measured))
    known = {"evaluator": "helpful", "evaluator_version": version, "monitor": "chatbot"}
    fires = [
        {
            "expr": f'count by (severity) (ALERTS{{alertname="{DROPPED}",fall="1",alertstate="firing"}})',
            "eval_time": "45m",
            "exp_samples": [{"labels": f'{{severity="{each}"}}', "value": 1} for each in severities],
        },
        {
            "expr": f'count by (evaluator_version) (ALERTS{{alertname="{UNCALIBRATED}"}})',
            "eval_time": "45m",
            "exp_samples": []
            if low == 0.5
            else [{"labels": f'{{evaluator_version="{known["evaluator_version"]}"}}', "value": 1}],
        },
    ]
    scores = [series("gen_ai_evaluation_score_count", counted([60.0 * n for n in range(MINUTES + 1)]), **known,
                     segment="all")]  # fmt: skip
    run(tmp_path, config, [{"inputs": inputs + scores, "values": fires}])


def test_only_alerts_of_judges_ask_and_they_say_uncalibrated() -> None:
    config = check(
        {
            "judges": {"luna": {"model": "m"}},
            "evaluators": {
                "helpful": {**EVALUATOR, "judge": "luna"},
                "exact": {"kind": "exact_match", "threshold": 0.5},
            },
            "monitors": {"chatbot": {"evaluators": ["helpful", "exact"]}},
            "alerts": {"min_agreement": 0.4},
        },
        "test.yaml",
    )
    alerts = rules_of(config).alerts()
    asking = [each for each in alerts if "evalstream_people_agreement" in each.expr]
    assert {each.labels["evaluator"] for each in asking} == {"helpful"}
    warned = [each for each in asking if "unless on (evaluator, evaluator_version)" in each.expr]
    assert {each.severity for each in warned} == {"warning"}
    on_scores = [each for each in warned if each.name != UNCALIBRATED]
    assert on_scores
    assert all("uncalibrated" in each.summary and "no proven agreement" in each.description for each in on_scores)
