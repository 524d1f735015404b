"""The drop detector as recording rules: each refers to its own previous value, so that Prometheus runs the recursion.

The state covers all replicas and is in Prometheus. Increments are exact differences of the counters. Why not
`increase()`: it extrapolates to the ends of the window, and the bound on false alarms needs the exact sums. A replica
that restarted is left out for two intervals. The meaning of a state, the restart of evidence and the end of an
alert are as in `collector.statistics.incident`; the states within an incident are `incidents.py`, the alert `falls.py`.
"""

from collections.abc import Iterator, Sequence

from collector.alerting.rules import series
from collector.alerting.rules.incidents import ending_rules, following_rules, incident_rules
from collector.alerting.rules.model import AlertingRule, RecordingRule, RuleGroup, Timing
from collector.alerting.rules.states import States
from collector.alerting.rules.targets import INTERVAL, Target
from collector.config.alerts import DAY, AlertSettings
from collector.statistics.drop_detector import MOST_INTERVALS, DropDetector
from collector.statistics.incident import recovery_threshold
from collector.telemetry.series import EVIDENCE_SUMS

COUNTERS = {key: counter.name for key, counter in zip(series.SUMS, EVIDENCE_SUMS, strict=True)}

SETTLED = 10.0
"""Seconds after which a scrape that began is in, or has failed: Prometheus' default `scrape_timeout`.

One that came in between two of the rules would count in the sums that are read after it and, as the next interval
begins with it, never in the others: values without their weights.
"""


def delta_group(timing: Timing, by: Sequence[str], rules: Sequence[RecordingRule | AlertingRule]) -> RuleGroup:
    """The sums' growth and the detectors that use it: one group, so that they are evaluated one after the other."""
    return RuleGroup("evalstream-drops", timing.seconds(INTERVAL), (*_deltas(timing, by), *rules))


def _deltas(timing: Timing, by: Sequence[str]) -> Iterator[RecordingRule]:
    around = timing.text(2 * INTERVAL)
    until, since = timing.text(SETTLED), timing.text(SETTLED + INTERVAL)
    restarted = " + ".join(f"resets({COUNTERS[key]}[{around}] offset {until})" for key in ("w", "wy")) + " > 0"
    for key, counter in COUNTERS.items():
        yield RecordingRule(
            series.EVIDENCE_DELTAS[key],
            f"sum by ({', '.join(by)}) (({counter} offset {until} - {counter} offset {since}) unless ({restarted}))",
        )


def detector_rules(
    target: Target, detector: DropDetector, alerts: AlertSettings, timing: Timing, by: Sequence[str]
) -> Iterator[RecordingRule]:
    """The states of all bets, their evidence, and the state of the alert."""
    states = States(target.monitor, target.evaluator, tuple(by), timing)
    recovers = recovery_threshold(alerts.false_recovery_days * DAY, INTERVAL)
    # Rules run in their order: the last value of a state is that of the interval before until its own rule has run.
    yield states.rule(
        series.DROP_STARTS_OVER,
        states.only_with_scrapes(
            f"({states.last(series.DROP_EVIDENCE)} > bool {detector.threshold:.4f})"
            f" + ({states.last(series.RECOVERY_EVIDENCE)} > bool {recovers:.4f})",
            otherwise=0.0,
        ),
    )
    yield states.rule(series.DROP_INCIDENT, states.only_with_scrapes(states.last(series.DROP_FALLS), otherwise=0.0))
    idle, scored = states.before_or(series.DROP_IDLE, 0.0), f"({states.scraped} > bool 0)"
    yield states.rule(series.DROP_INTERVALS, f"(1 + {idle}) * {scored}")
    yield states.rule(
        series.DROP_IDLE, f"clamp_max((1 + {idle}) * (1 - {scored}), {MOST_INTERVALS - 1}) and {states.scraped}"
    )
    for bet in detector.bets:
        label = {"lambda": f"{bet:g}"}
        quiet = f"{_recursion(detector, bet, states, label)} unless {states.in_incident}"
        yield states.rule(series.DROP_LOG_E, quiet, label)
    yield from incident_rules(detector, states, recovers)
    yield states.rule(
        series.DROP_EVIDENCE,
        f"({states.evidence(series.DROP_LOG_E)} and {states.scraped} unless {states.in_incident})"
        f" or ({states.evidence(series.FURTHER_LOG_E)} and {states.scraped} and {states.in_incident})",
    )
    yield RecordingRule(series.DROP_THRESHOLD, f"vector({detector.threshold:.4f})", states.where)
    yield from following_rules(detector, states)
    yield from ending_rules(states, detector, recovers)


def _recursion(detector: DropDetector, bet: float, states: States, label: dict[str, str]) -> str:
    """Log M ← min(log(1 + M) + bound, ceiling), as in collector.statistics.drop_detector."""
    w, wy, w2, w2y, w2y2 = states.deltas()
    target = detector.target
    short = f"{target:g} * {w} - {wy}"
    if detector.lower_is_better:
        short = f"{wy} - {target:g} * {w}"
    squares = f"{target**2:.10g} * {w2} - {2 * target:.10g} * {w2y} + {w2y2}"
    quadratic = detector.coefficient(bet) * bet**2
    gain = f"{bet:g} * ({short}) - {quadratic:.10g} * ({squares})"
    return states.advance(series.DROP_LOG_E, label, gain, detector.ceiling)
