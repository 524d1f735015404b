"""Means by audits: what the rules make of the counters is what the plain code makes of the scores."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from promtool import run, series

from collector.alerting.rules.falls import BELOW, DROPPED
from collector.alerting.rules.generate import rules_of
from collector.alerting.rules.model import RecordingRule
from collector.config.configured import Config, without_audits
from collector.config.loading import check
from collector.records.audits import AuditScore
from collector.service.plan_builder import audit_version_in
from collector.statistics.audited_sums import SUM_NAMES, AuditedClusters, AuditedSums, CorrectedMean
from collector.statistics.intervals import mean_interval

EVALUATOR = {"kind": "g_eval", "criteria": "Does it help?", "evaluation_params": ["actual_output"], "threshold": 0.77}


def configured(**audit: Any) -> Config:
    return check(
        {
            "judges": {"luna": {"model": "m"}, "strong": {"model": "n"}},
            "evaluators": {"helpful": {**EVALUATOR, "judge": "luna", "audit": {"judge": "strong", **audit}}},
            "monitors": {"chatbot": {"evaluators": ["helpful"], "alerts": {}}},
        },
        "test.yaml",
    )


def test_the_rules_make_of_the_sums_what_the_plain_code_makes(tmp_path: Path) -> None:
    """Forty minutes at 60 conversations a minute, weighted, a tenth audited by a judge that sees 0.15 more."""
    chance, clusters = random.Random(3), AuditedClusters()
    minutes: list[AuditedSums] = [AuditedSums()]
    for minute in range(40):
        total = minutes[-1]
        for number in range(60):
            weight, common = chance.choice((1.0, 4.0)), chance.random()
            for _ in range(chance.choice((1, 3))):
                cheap = min(1.0, max(0.0, 0.6 * common + 0.3 * chance.random()))
                dear = min(1.0, cheap + 0.15 + chance.gauss(0, 0.05))
                audit = AuditScore(dear, 0.1) if chance.random() < 0.1 else None
                total += clusters.add((minute, number), weight=weight, score=cheap, audit=audit, time=60.0 * minute)
        minutes.append(total)
    expected = minutes[-1].corrected()
    assert expected is not None
    assert expected.gain > 3
    version = audit_version_in(configured(), "helpful")
    assert version is not None
    labels = {"evaluator": "helpful:audit", "evaluator_version": version, "monitor": "chatbot", "segment": "all"}
    inputs = [
        # flat before and after, so that `increase` over the hour has nothing to extrapolate to
        series("evalstream_audited_sums_total", [0.0] * 5 + [each.values[place] for each in minutes]
               + [minutes[-1].values[place]] * 6, **labels, sum=name)
        for place, name in enumerate(SUM_NAMES)
    ]  # fmt: skip
    run(
        tmp_path,
        configured(),
        [{"inputs": inputs, "values": [_is_near(*each) for each in _figures(expected)]}],
    )


def _figures(mean: CorrectedMean) -> list[tuple[str, float]]:
    return [
        ("evalstream:score_mean", mean.mean),
        ("evalstream:score_stderr", mean.error),
        ("evalstream:score_n_eff / 1000", mean.audits / 1000),
        ("evalstream:score_margin", _margin(mean)),
        ("evalstream:audit_power", mean.power),
        ("evalstream:audit_gain / 10", mean.gain / 10),
        ("evalstream:audits / 1000", mean.audits / 1000),
    ]


def _margin(mean: CorrectedMean) -> float:
    low, high = mean_interval(mean.mean, mean.error, mean.audits)
    return max(mean.mean - low, high - mean.mean)


def _is_near(expr: str, value: float) -> dict[str, Any]:
    name, _, scale = expr.partition(" ")
    chosen = f'{name}{{evaluator="helpful:audit",window="6h"}} {scale}'
    return {
        "expr": f"count(abs({chosen} - {value:.10f}) < 0.0002)",
        "eval_time": "50m",
        "exp_samples": [{"labels": "{}", "value": 1}],
    }


def test_targets_are_those_of_the_audits() -> None:
    records = {rule.record for group in rules_of(configured()).groups for rule in group.rules
               if isinstance(rule, RecordingRule)}  # fmt: skip
    assert "evalstream:audit_power" in records
    on_scores = [each for each in rules_of(configured()).alerts() if each.name in (BELOW, DROPPED)]
    assert {each.labels["evaluator"] for each in on_scores} == {"helpful:audit"}
    plain = [each.record for group in rules_of(without_audits(configured())).groups for each in group.rules
             if isinstance(each, RecordingRule)]  # fmt: skip
    assert not [each for each in plain if "audit" in each]


def test_refused_audits_leave_bounds_of_the_days_mean(tmp_path: Path) -> None:
    """A tenth of the audits brings no score."""
    version = audit_version_in(configured(), "helpful")
    assert version is not None
    labels = {"evaluator": "helpful:audit", "evaluator_version": version, "monitor": "chatbot", "segment": "all"}
    of_one = dict.fromkeys(("a", "a_a", "a_w"), 2.0) | dict.fromkeys(("w", "w_w", "wx", "w_wx", "wx_wx"), 20.0)
    inputs = [series("evalstream_audited_sums_total", f"0+{of_one.get(name, 1.0)}x100", **labels, sum=name)
              for name in SUM_NAMES]  # fmt: skip
    for outcome, rate in (("scored", 9), ("refused", 1)):
        where = {"evaluator": "helpful", "monitor": "chatbot", "outcome": outcome}
        inputs.append(series("evalstream_audits_total", f"0+{rate}x100", **where))
    exprs = ("evalstream:score_highest - evalstream:score_lowest - 0.1",
             'evalstream:score_lowest - 0.9 * evalstream:score_mean{window="24h"}')  # fmt: skip
    chosen = '{evaluator="helpful:audit",window="24h"}'
    values = [
        {
            "expr": f"count(abs(({expr}) and evalstream:score_mean{chosen}) < 0.001)",
            "eval_time": "90m",
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
        for expr in exprs
    ]
    run(tmp_path, configured(), [{"inputs": inputs, "values": values}])
