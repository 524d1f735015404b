"""How much of a miss the warnings on trust can explain, so that they silence that much of it and no more.

With 6 % of the subjects unscored, the mean of all is known to within 0.06: a mean that is 0.05 below its target may be
at it, and one that is 0.5 below is not. So alerts on scores fire where the mean misses its target by more than what the
firing warnings explain together. Why not an inhibition of Alertmanager's: it cannot compare sizes.
"""

from collector.alerting.rules import series
from collector.alerting.rules.model import Fact, Listing, RecordingRule, Timing, selector
from collector.alerting.rules.service import inconsistent_weights, judge_shift, unscored
from collector.alerting.rules.targets import Target
from collector.config.alerts import AlertSettings
from collector.telemetry.series import DROP_EXPLAINED, GOLDEN_SHIFT_STDERR, JUDGE_MOVED

CAUSES = Fact(
    DROP_EXPLAINED.name,
    ("evaluator", "monitor"),
    only="> 0",
    listed=Listing(
        label="slice",
        form="humanizePercentage",
        unit=" of the change",
        intro="It is explained by ",
        otherwise="No part of the traffic is known to explain it.",
        elsewhere="`evalstream diagnose` says what explains it.",
    ),
)
"""The parts of the traffic that explain a drop, as a process that watches scores has found them."""
JUDGE_CHANGED, JUDGE_UNCHANGED = (
    Fact(JUDGE_MOVED.name, series.BY, {"verdict": verdict}, phrase=phrase)
    for verdict, phrase in (
        ("changed", "The judge has changed: its scores of the same cases moved by {}. "),
        ("unchanged", "The judge has not changed: its scores of the same cases moved by {} at most. "),
    )
)
"""The verdict on the judge by cases that were judged before, as a process that watches scores has it."""
SHIFT_ERRORS = 2.0
"""Standard errors by which a judge's shift may be larger than it was measured."""


def doubt_rule(target: Target, alerts: AlertSettings, timing: Timing) -> RecordingRule:
    """The doubt in a target's mean: 0 while no warning on trust fires."""
    where = {"evaluator": target.evaluator, "monitor": target.monitor}
    here, of_judge = selector(evaluator=target.source, monitor=target.monitor), selector(evaluator=target.source)
    # scores off by so much to the bad side; a judge that has become kinder explains no drop
    worse = judge_shift(alerts, "" if target.lower_is_better else "-", of_judge)
    shifted = f"({worse}) + {SHIFT_ERRORS:g} * {GOLDEN_SHIFT_STDERR.name}{of_judge}"
    parts = [f"sum({unscored(alerts, timing, here)})", f"max({inconsistent_weights(alerts, here)})"]
    # of a label's share nobody knows how a judge has shifted it, and audits correct a shift of the cheap one
    if not target.is_derived:
        parts.insert(1, f"max({shifted})")
    return RecordingRule(series.SCORE_DOUBT, " + ".join(f"({part} or vector(0))" for part in parts), where)


def alerted(target: Target) -> str:
    """The selector of the means of a target that alerts look at."""
    chosen = selector(evaluator=target.evaluator, monitor=target.monitor)
    return chosen.replace("}", f',window!="{series.WEEK}"}}') if target.audited else chosen


def explained(target: Target, mean: float, alerts: AlertSettings, by: str) -> str:
    """PromQL that is there while the warnings explain the target's whole miss, in every window with enough scores."""
    here = selector(evaluator=target.evaluator, monitor=target.monitor)
    known = f"{series.SCORE_MEAN}{alerted(target)}"
    miss = f"{known} - {mean:g}" if target.lower_is_better else f"{mean:g} - {known}"
    surely = f"{miss} - {SHIFT_ERRORS:g} * {series.SCORE_STDERR}{here}"
    enough = f"{series.SCORE_N_EFF}{here} >= {alerts.min_conversations:g}"
    doubt = f"({series.SCORE_DOUBT}{here} > 0)"
    return f"max by ({by}) ({surely} and {enough}) <= on (evaluator, monitor) group_left () {doubt}"
