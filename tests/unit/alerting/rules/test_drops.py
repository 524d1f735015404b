"""The drop detector in PromQL: what of its arithmetic stands in the rules. `tests/prometheus` runs them."""

from __future__ import annotations

import pytest

from collector.alerting.detection import DropDetector
from collector.alerting.rules import series
from collector.alerting.rules.drops import COUNTERS, delta_group, detector_rules
from collector.alerting.rules.model import AlertingRule, RecordingRule, Timing
from collector.alerting.rules.targets import Target
from collector.config.alerts import AlertSettings

BY = ("monitor", "evaluator")
OF = '{evaluator="e",monitor="m"}'
HIGH = DropDetector(target=0.75, threshold=9.0)
LOW = DropDetector(target=0.25, threshold=9.0, lower_is_better=True)


def rules(detector: DropDetector) -> list[RecordingRule | AlertingRule]:
    target = Target(monitor="m", evaluator="e", scope="turn", mean=detector.target)
    return list(detector_rules(target, detector, AlertSettings(), BY))


@pytest.mark.parametrize(
    ("detector", "short", "squares"),
    [
        (HIGH, f"0.75 * {{w}}{OF} - {{wy}}{OF}", f"0.5625 * {{w2}}{OF} - 1.5 * {{w2y}}{OF} + {{w2y2}}{OF}"),
        (LOW, f"{{wy}}{OF} - 0.25 * {{w}}{OF}", f"0.0625 * {{w2}}{OF} - 0.5 * {{w2y}}{OF} + {{w2y2}}{OF}"),
    ],
)
def test_a_state_follows_from_its_own_last_value_and_the_growth_of_the_sums(
    detector: DropDetector, short: str, squares: str
) -> None:
    """The bet 0.8: 0.8 of the shortfall, and c(0.2) * 0.64 = (ln 1.25 - 0.2) * 16 of the squares."""
    rule = next(each for each in rules(detector) if each.labels.get("lambda") == "0.8")
    mine = '{evaluator="e",monitor="m",lambda="0.8"}'
    last = f"(sum by (monitor, evaluator) ({series.DROP_LOG_E}{mine}) or {{w}}{OF} * 0 - 100)"
    expected = f"clamp_max(ln(1 + exp({last})) + 0.8 * ({short}) - 0.370296821 * ({squares}), 17.1972)"
    for key in COUNTERS:
        expected = expected.replace(f"{{{key}}}", series.EVIDENCE_DELTAS[key])
    assert isinstance(rule, RecordingRule)
    assert rule == RecordingRule(series.DROP_LOG_E, expected, {"evaluator": "e", "monitor": "m", "lambda": "0.8"})


def test_every_bet_is_a_rule_and_their_mean_the_evidence() -> None:
    *bets, mean, limit, _ = rules(HIGH)
    assert [each.labels["lambda"] for each in bets] == [f"{bet:g}" for bet in HIGH.bets]
    assert (mean.expr, limit.expr) == (
        f"ln(avg by (monitor, evaluator) (exp({series.DROP_LOG_E}{OF})))",
        "vector(9.0000)",
    )


def test_the_alert_fires_above_the_threshold_and_ends_four_below_it() -> None:
    alert = rules(HIGH)[-1]
    evidence = f"{series.DROP_EVIDENCE}{OF}"
    firing = 'ALERTS{alertname="EvalstreamScoreDropped",alertstate="firing",evaluator="e",monitor="m"}'
    fires = f"({evidence} > 9.0000 or ({evidence} > 5.0000 and on (monitor, evaluator) {firing}))"
    assert alert.expr.startswith(f"{fires} unless max by (monitor, evaluator) ")


def test_growth_is_the_exact_difference_over_a_minute_without_replicas_that_restarted() -> None:
    group = delta_group(Timing(), BY, ())
    w, wy = COUNTERS["w"], COUNTERS["wy"]
    restarted = f"(resets({w}[2m]) + resets({wy}[2m]) > 0)"
    assert group.interval == 60.0
    assert {rule.record: rule.expr for rule in group.rules if isinstance(rule, RecordingRule)} == {
        series.EVIDENCE_DELTAS[key]: f"sum by (monitor, evaluator) (({name} - {name} offset 1m) unless {restarted})"
        for key, name in COUNTERS.items()
    }
