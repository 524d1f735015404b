"""The drop detector as recording rules: each refers to its own previous value, so that Prometheus runs the recursion.

The state covers all replicas and is in Prometheus. Increments are exact differences of the counters. Why not
`increase()`: it extrapolates to the ends of the window, and the bound on false alarms needs the exact sums. A replica
that restarted is left out for two intervals. A gap longer than Prometheus looks back (5 minutes) restarts the
recursion, which only loses evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collector.alerting.detection import DropDetector
from collector.alerting.rules import series
from collector.alerting.rules.doubt import explained
from collector.alerting.rules.model import AlertingRule, Fact, RecordingRule, RuleGroup, Timing, selector
from collector.alerting.rules.targets import INTERVAL, Target
from collector.config.alerts import AlertSettings
from collector.telemetry.series import EVIDENCE_W, EVIDENCE_W2, EVIDENCE_W2Y, EVIDENCE_W2Y2, EVIDENCE_WY

DROPPED = "EvalstreamScoreDropped"
COUNTERS = {
    "w": EVIDENCE_W.name,
    "wy": EVIDENCE_WY.name,
    "w2": EVIDENCE_W2.name,
    "w2y": EVIDENCE_W2Y.name,
    "w2y2": EVIDENCE_W2Y2.name,
}
_NOTHING = -100
"""The logarithm of a state without gains: e to this is 0 beside 1."""


def delta_group(timing: Timing, by: Sequence[str], rules: Sequence[RecordingRule | AlertingRule]) -> RuleGroup:
    """The sums' growth and the detectors that use it: one group, so that they are evaluated one after the other."""
    return RuleGroup("evalstream-drops", timing.seconds(INTERVAL), (*_deltas(timing, by), *rules))


def _deltas(timing: Timing, by: Sequence[str]) -> Iterator[RecordingRule]:
    interval, around = timing.text(INTERVAL), timing.text(2 * INTERVAL)
    restarted = f"resets({COUNTERS['w']}[{around}]) + resets({COUNTERS['wy']}[{around}]) > 0"
    for key, counter in COUNTERS.items():
        yield RecordingRule(
            series.EVIDENCE_DELTAS[key],
            f"sum by ({', '.join(by)}) (({counter} - {counter} offset {interval}) unless ({restarted}))",
        )


def detector_rules(
    target: Target, detector: DropDetector, alerts: AlertSettings, by: Sequence[str]
) -> Iterator[RecordingRule | AlertingRule]:
    """The states of all bets, their evidence, and the alert."""
    chosen = {"evaluator": target.evaluator, "monitor": target.monitor}
    for bet in detector.bets:
        label = {"lambda": f"{bet:g}"}
        yield RecordingRule(series.DROP_LOG_E, _recursion(detector, bet, chosen | label, chosen, by), chosen | label)
    here = selector(**chosen)
    yield RecordingRule(series.DROP_EVIDENCE, f"ln(avg by ({', '.join(by)}) (exp({series.DROP_LOG_E}{here})))", chosen)
    yield RecordingRule(series.DROP_THRESHOLD, f"vector({detector.threshold:.4f})", chosen)
    yield _dropped(detector, chosen, by, explained(target, detector.target, alerts, ", ".join(by)))


def _recursion(
    detector: DropDetector, bet: float, mine: dict[str, str], chosen: dict[str, str], by: Sequence[str]
) -> str:
    """Log M ← min(log(1 + M) + bound, ceiling), as in collector.alerting.detection."""
    sums = {key: f"{name}{selector(**chosen)}" for key, name in series.EVIDENCE_DELTAS.items()}
    before = f"(sum by ({', '.join(by)}) ({series.DROP_LOG_E}{selector(**mine)}) or {sums['w']} * 0 - {-_NOTHING})"
    target = detector.target
    short = f"{target:g} * {sums['w']} - {sums['wy']}"
    if detector.lower_is_better:
        short = f"{sums['wy']} - {target:g} * {sums['w']}"
    squares = f"{target**2:.10g} * {sums['w2']} - {2 * target:.10g} * {sums['w2y']} + {sums['w2y2']}"
    quadratic = detector.coefficient(bet) * bet**2
    return (
        f"clamp_max(ln(1 + exp({before})) + {bet:g} * ({short})"
        f" - {quadratic:.10g} * ({squares}), {detector.ceiling:.4f})"
    )


def _dropped(detector: DropDetector, chosen: dict[str, str], by: Sequence[str], doubtful: str) -> AlertingRule:
    evidence = f"{series.DROP_EVIDENCE}{selector(**chosen)}"
    fires = f"ALERTS{selector(alertname=DROPPED, alertstate='firing', **chosen)}"
    return AlertingRule(
        name=DROPPED,
        # hysteresis: what fires continues until the evidence has clearly fallen, or it would notify again and again
        expr=f"({evidence} > {detector.threshold:.4f}"
        f" or ({evidence} > {detector.clear_threshold:.4f} and on ({', '.join(by)}) {fires})) unless {doubtful}",
        severity="page",
        board="quality",
        labels=chosen,
        summary=f"{{label:evaluator}} of {{label:monitor}}: scores have dropped from their target {detector.target:g}",
        description=(
            "The evidence that the mean of {label:evaluator} ({label:monitor}) is on the wrong side of its target of "
            f"{detector.target:g} is {{value}}; the alert fires above {detector.threshold:.1f}. Over the last hour the "
            "mean is {mean} ± {error} from {n} effective conversations. Other alerts that fire for it explain at most "
            "{doubt} of the distance to the target."
        ),
        facts={
            word: Fact(name, tuple(by), {"window": "1h"})
            for word, name in (("mean", series.SCORE_MEAN), ("error", series.SCORE_STDERR), ("n", series.SCORE_N_EFF))
        }
        | {"doubt": Fact(series.SCORE_DOUBT, ("evaluator", "monitor"))},
    )
