"""Rules on feedback: it has become worse than in the week before, or some is lost.

Those who give feedback are not the users, so there is no target: it is compared with itself. The mean of a day is worse
if it is below the mean of the week before by `_ERRORS` standard errors of the difference; sums and error are those of
scores, with conversations as clusters.
"""

from collections.abc import Iterator

from collector.alerting.rules import series
from collector.alerting.rules.model import AlertingRule, Fact, RecordingRule, RuleGroup, Timing
from collector.config.alerts import DAY, AlertSettings
from collector.statistics.bounded_sums import VARIANCE_FLOOR
from collector.telemetry.series import FEEDBACK, FEEDBACK_SUMS

WORSE, LOST = "EvalstreamFeedbackWorse", "EvalstreamFeedbackLost"
BY = FEEDBACK_SUMS[0].labels
_ERRORS = 4.0
_NOW, _BEFORE = "24h", "week before"


def feedback_group(alerts: AlertSettings, timing: Timing) -> RuleGroup:
    """The means of feedback with their errors, and the alerts."""
    return RuleGroup("evalstream-feedback", timing.seconds(60.0), tuple(_rules(alerts, timing)))


def _rules(alerts: AlertSettings, timing: Timing) -> Iterator[RecordingRule | AlertingRule]:
    day, week = timing.text(DAY), timing.text(7 * DAY)
    for window, over in ((_NOW, f"[{day}]"), (_BEFORE, f"[{week}] offset {day}")):
        grouped = f"sum by ({', '.join(BY)})"
        w, wy, w2, w2y, w2y2 = (f"{grouped} (increase({counter.name}{over}))" for counter in FEEDBACK_SUMS)
        mean, here = f"({wy} / ({w} > 0))", {"window": window}
        squares = f"clamp_min({w2y2} - 2 * {mean} * {w2y} + {mean} ^ 2 * {w2}, 0) + {VARIANCE_FLOOR:.4f} * {w2}"
        yield RecordingRule(series.FEEDBACK_MEAN, mean, here)
        yield RecordingRule(series.FEEDBACK_STDERR, f"sqrt({squares}) / ({w} > 0)", here)
        yield RecordingRule(series.FEEDBACK_N_EFF, f"{w} ^ 2 / ({w2} > 0)", here)

    def of(name: str, window: str) -> str:
        return f'sum without (window) ({name}{{window="{window}"}})'

    error = f"sqrt({of(series.FEEDBACK_STDERR, _NOW)} ^ 2 + {of(series.FEEDBACK_STDERR, _BEFORE)} ^ 2)"
    enough = [f"{of(series.FEEDBACK_N_EFF, each)} >= {alerts.min_conversations:g}" for each in (_NOW, _BEFORE)]
    yield AlertingRule(
        name=WORSE,
        board="quality",
        expr=f"{of(series.FEEDBACK_MEAN, _BEFORE)} - {of(series.FEEDBACK_MEAN, _NOW)} > {_ERRORS:g} * {error}"
        f" and {' and '.join(enough)}",
        hold=timing.seconds(900.0),
        summary="{label:monitor}: feedback {label:feedback} of {label:source} is worse than in the week before",
        description=(
            "Over a day the mean of {label:feedback} ({label:source}, {label:monitor}) is {mean} (95 %: ± {error}) "
            "from {n} effective conversations; in the week before it was {before}. "
            f"It fell by more than {_ERRORS:g} standard errors. The mean covers only the users who gave feedback."
        ),
        facts={
            "mean": Fact(series.FEEDBACK_MEAN, BY, {"window": _NOW}),
            "error": Fact(series.FEEDBACK_STDERR, BY, {"window": _NOW}, is_margin=True),
            "n": Fact(series.FEEDBACK_N_EFF, BY, {"window": _NOW}),
            "before": Fact(series.FEEDBACK_MEAN, BY, {"window": _BEFORE}),
        },
    )
    lost, window = f'{FEEDBACK.name}{{outcome=~"crowded_out|unreadable"}}', timing.text(900.0)
    yield AlertingRule(
        name=LOST,
        expr=f"sum by (outcome) (increase({lost}[{window}])) > 0",
        summary="feedback is lost ({label:outcome})",
        description="About {count} pieces of feedback were given up in 15 minutes ({label:outcome}).",
    )
