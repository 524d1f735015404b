"""The drop detector as recording rules: each refers to its own previous value, so that Prometheus runs the recursion.

The state is summed over all replicas and lives in Prometheus. Increments are exact differences of the counters, not
`increase()`, which extrapolates; a replica that restarted is left out for two intervals. A gap longer than Prometheus
looks back (5 minutes) restarts the recursion, which only loses evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collector.detection import Detector
from collector.rules import series
from collector.rules.model import Alert, Fact, Group, Recording, Timing, selector
from collector.rules.scores import COUNTERS
from collector.rules.targets import INTERVAL, Target

DROPPED = "EvalstreamScoreDropped"
_NOTHING = -100
"""The logarithm of a state that has won nothing: e to this is 0 beside 1."""


def delta_group(timing: Timing, by: Sequence[str], rules: Sequence[Recording | Alert]) -> Group:
    """The sums' growth and the detectors that use it: one group, so that they are evaluated one after the other."""
    return Group("evalstream-drops", timing.seconds(INTERVAL), (*_deltas(timing, by), *rules))


def _deltas(timing: Timing, by: Sequence[str]) -> Iterator[Recording]:
    interval, around = timing.text(INTERVAL), timing.text(2 * INTERVAL)
    restarted = f"resets({COUNTERS['w']}[{around}]) + resets({COUNTERS['wy']}[{around}]) > 0"
    for key, counter in COUNTERS.items():
        yield Recording(
            series.ESTIMATOR_DELTAS[key],
            f"sum by ({', '.join(by)}) (({counter} - {counter} offset {interval}) unless ({restarted}))",
        )


def detector_rules(target: Target, detector: Detector, by: Sequence[str]) -> Iterator[Recording | Alert]:
    """The states of all bets, their evidence, and the alert."""
    chosen = {"evaluator": target.evaluator, "monitor": target.monitor}
    for bet in detector.bets:
        label = {"lambda": f"{bet:g}"}
        yield Recording(series.DROP_LOG_E, _recursion(detector, bet, chosen | label, chosen, by), chosen | label)
    here = selector(**chosen)
    yield Recording(series.DROP_EVIDENCE, f"ln(avg by ({', '.join(by)}) (exp({series.DROP_LOG_E}{here})))", chosen)
    yield Recording(series.DROP_THRESHOLD, f"vector({detector.threshold:.4f})", chosen)
    yield _dropped(detector, chosen, by)


def _recursion(detector: Detector, bet: float, mine: dict[str, str], chosen: dict[str, str], by: Sequence[str]) -> str:
    """Log M ← min(log(1 + M) + bound, ceiling), as in collector.detection."""
    sums = {key: f"{name}{selector(**chosen)}" for key, name in series.ESTIMATOR_DELTAS.items()}
    before = f"(sum by ({', '.join(by)}) ({series.DROP_LOG_E}{selector(**mine)}) or {sums['w']} * 0 - {-_NOTHING})"
    target = detector.target
    short = f"{target:g} * {sums['w']} - {sums['wy']}"
    if detector.lower_is_better:
        short = f"{sums['wy']} - {target:g} * {sums['w']}"
    squares = f"{target**2:.10g} * {sums['w2']} - {2 * target:.10g} * {sums['w2y']} + {sums['w2y2']}"
    quadratic = detector.coefficient(bet) * (bet / detector.scale) ** 2
    return (
        f"clamp_max(ln(1 + exp({before})) + {bet / detector.scale:.10g} * ({short})"
        f" - {quadratic:.10g} * ({squares}), {detector.ceiling:.4f})"
    )


def _dropped(detector: Detector, chosen: dict[str, str], by: Sequence[str]) -> Alert:
    evidence = f"{series.DROP_EVIDENCE}{selector(**chosen)}"
    fires = f"ALERTS{selector(alertname=DROPPED, alertstate='firing', **chosen)}"
    return Alert(
        name=DROPPED,
        # what fires goes on until the evidence has fallen by a good deal
        expr=f"{evidence} > {detector.threshold:.4f}"
        f" or ({evidence} > {detector.release:.4f} and on ({', '.join(by)}) {fires})",
        severity="page",
        board="quality",
        labels=chosen,
        summary="{label:evaluator} of {label:monitor}: scores have left their target of " + f"{detector.target:g}",
        description=(
            "The evidence that the mean of {label:evaluator} ({label:monitor}) has left its target of "
            f"{detector.target:g} is {{value}}; it takes {detector.threshold:.1f} to alert. Over the last hour the "
            "mean is {mean} ± {error} from {n} effective conversations. If EvalstreamJudgeShift fires as well, it is "
            "the judge that has moved."
        ),
        facts={
            word: Fact(name, tuple(by), {"window": "1h"})
            for word, name in (("mean", series.SCORE_MEAN), ("error", series.SCORE_STDERR), ("n", series.SCORE_N_EFF))
        },
    )
