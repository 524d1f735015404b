"""The drop detector in PromQL: what of its arithmetic stands in the rules. `tests/prometheus` runs them."""

from __future__ import annotations

import pytest

from collector.alerting.rules import series
from collector.alerting.rules.drops import COUNTERS, delta_group, detector_rules
from collector.alerting.rules.falls import fall_rules
from collector.alerting.rules.model import RecordingRule, Timing
from collector.alerting.rules.promql import any_of
from collector.alerting.rules.targets import Target
from collector.config.alerts import AlertSettings
from collector.statistics.incident import ROOM, DropDetector

BY = ("monitor", "evaluator")
OF = '{evaluator="e",monitor="m"}'
HIGH = DropDetector(target=0.75, threshold=9.0)
LOW = DropDetector(target=0.25, threshold=9.0, lower_is_better=True)


def rules(detector: DropDetector) -> list[RecordingRule]:
    target = Target(monitor="m", evaluator="e", scope="turn", mean=detector.target)
    return list(detector_rules(target, detector, AlertSettings(), Timing(), BY))


def named(record: str, detector: DropDetector = HIGH, **labels: str) -> RecordingRule:
    """The rule that writes a series."""
    [rule] = [each for each in rules(detector) if each.record == record and labels.items() <= each.labels.items()]
    return rule


def last(series_of: str, *labels: str) -> str:
    selected = ",".join(('evaluator="e"', 'monitor="m"', *labels))
    return f"sum by (monitor, evaluator) (last_over_time({series_of}{{{selected}}}[1h]))"


@pytest.mark.parametrize(
    ("detector", "short", "squares"),
    [
        (HIGH, f"0.75 * {{w}}{OF} - {{wy}}{OF}", f"0.75 ^ 2 * {{w2}}{OF} - 2 * 0.75 * {{w2y}}{OF} + {{w2y2}}{OF}"),
        (LOW, f"{{wy}}{OF} - 0.25 * {{w}}{OF}", f"0.25 ^ 2 * {{w2}}{OF} - 2 * 0.25 * {{w2y}}{OF} + {{w2y2}}{OF}"),
    ],
)
def test_a_state_follows_from_its_own_last_value_and_the_growth_of_the_sums(
    detector: DropDetector, short: str, squares: str
) -> None:
    """The bet 0.8: 0.8 of the shortfall, and c(0.2) * 0.8², c(0.2) = (ln 1.25 - 0.2) * 25, of the squares."""
    over = f"({series.DROP_STARTS_OVER}{OF} > 0)"
    mine = last(series.DROP_LOG_E, 'lambda="0.8"')
    before = f"({mine} unless {over} or {{w}}{OF} * 0 + -100)"
    grown = f"ln(exp({before}) + {series.DROP_INTERVALS}{OF}) + 0.8 * ({short}) - 0.5785887829 * 0.8 ^ 2 * ({squares})"
    expected = f"clamp({grown}, -100, 17.1972) unless ({series.DROP_INCIDENT}{OF} > 0)"
    for key in COUNTERS:
        expected = expected.replace(f"{{{key}}}", series.EVIDENCE_DELTAS[key])
    assert named(series.DROP_LOG_E, detector, **{"lambda": "0.8"}).expr == expected


def test_a_further_fall_is_tested_up_to_the_threshold_of_the_first_and_a_little_more() -> None:
    for expr in (each.expr for each in rules(HIGH) if each.record == series.FURTHER_LOG_E):
        assert f", -100, {HIGH.threshold + ROOM:.4f})" in expr


@pytest.mark.parametrize("record", [series.DROP_SHORTFALL, series.DROP_WEIGHT])
def test_what_is_summed_up_since_the_fall_began_begins_with_nothing(record: str) -> None:
    assert f"{series.EVIDENCE_DELTAS['w']}{OF} * 0 + 0)" in named(record).expr


@pytest.mark.parametrize("key", [*series.SUMS, "intervals"])
def test_what_is_summed_up_since_the_alert_began_begins_with_nothing(key: str) -> None:
    """A score or an interval too many would settle a fall's level by less than is known of it."""
    label = f'sum="{key}"'
    before = f"{last(series.DROP_AFTER, label)} unless ({series.DROP_STARTS_OVER}{OF} > 0)"
    begun = f"({before} or {series.EVIDENCE_DELTAS['w']}{OF} * 0 + 0) + "
    assert named(series.DROP_AFTER, sum=key).expr.startswith(f"({begun}")


def test_every_bet_is_a_rule_and_their_mean_the_evidence() -> None:
    bets = [each.labels["lambda"] for each in rules(HIGH) if "lambda" in each.labels]
    assert bets == [f"{bet:g}" for bet in HIGH.bets]
    own = OF.replace("}", f",lambda=~{any_of(bets)}}}")  # not what another target has left
    of_all = f"ln(avg by (monitor, evaluator) (exp({series.DROP_LOG_E}{own})))"
    assert named(series.DROP_EVIDENCE).expr.startswith(f"({of_all} and ")
    assert named(series.DROP_THRESHOLD).expr == "vector(9.0000)"


@pytest.mark.parametrize(("detector", "worse"), [(HIGH, "-"), (LOW, "+")])
def test_within_an_incident_levels_are_tested_half_way_to_the_target_and_as_far_beyond(
    detector: DropDetector, worse: str
) -> None:
    level = last(series.DROP_LEVEL)
    fallen = f"{level} - 0.25" if detector is LOW else f"0.75 - {level}"
    margin = f"clamp_max(({fallen}) / 2, 0.1)"
    over = f"({series.DROP_STARTS_OVER}{OF} > 0)"
    settled = f"({last(series.DROP_SETTLED)} unless {over} or {series.EVIDENCE_DELTAS['w']}{OF} * 0 + 0)"
    tested = f"(clamp({level} {worse} {margin} {worse} (1 - {settled}), 0, 1) and "
    assert named(series.DROP_NULL, detector).expr.startswith(tested)
    assert named(series.RECOVERY_NULL, detector).expr.startswith(f"({detector.target} {worse} {margin}) and ")


def test_each_fall_of_an_incident_is_an_alert_of_its_own() -> None:
    target = Target(monitor="m", evaluator="e", scope="turn", mean=HIGH.target)
    _, _, fall, _, _, alert, _ = fall_rules(target, HIGH, AlertSettings(), Timing(), BY)
    assert fall.expr.startswith(f"({last(series.DROP_FALLS)} > 0 unless on (monitor, evaluator) (((")
    assert alert.expr == f'count_values by (monitor, evaluator) ("fall", {series.SCORE_FALL}{OF})'


def test_evidence_of_recovery_has_its_own_error_rate() -> None:
    """Once in 7 days of minutes."""
    assert f"{series.RECOVERY_EVIDENCE}{OF} > bool 9.2183" in named(series.DROP_FALLS).expr


def test_growth_is_the_exact_difference_over_a_minute_of_settled_scrapes_without_replicas_that_restarted() -> None:
    group = delta_group(Timing(), BY, ())
    w, wy = COUNTERS["w"], COUNTERS["wy"]
    restarted = f"(resets({w}[2m] offset 10s) + resets({wy}[2m] offset 10s) > 0)"
    assert group.interval == 60.0
    assert {rule.record: rule.expr for rule in group.rules if isinstance(rule, RecordingRule)} == {
        series.EVIDENCE_DELTAS[key]: (
            f"sum by (monitor, evaluator) (({name} offset 10s - {name} offset 70s) unless {restarted})"
        )
        for key, name in COUNTERS.items()
    }


def test_another_target_starts_over_and_ends_the_incident_of_the_old_one() -> None:
    """A target that was raised for a test told a fall with levels that no score had, and paged on when it was back."""
    here = f"{series.EVIDENCE_DELTAS['w']}{OF}"
    changed = f"on (evaluator, monitor) (last_over_time({series.DROP_TARGET}{OF}[1h]) != 0.75)"
    assert named(series.DROP_STARTS_OVER).expr.startswith(f"({here} * 0 + 1 and {changed}) or ")
    assert f"{last(series.DROP_FALLS)} unless {changed}" in named(series.DROP_INCIDENT).expr
    assert f"({here} * 0 + nan and {changed})" in named(series.DROP_USUAL).expr
    assert rules(HIGH)[-1].expr == "vector(0.75)"
