"""The rule on releases: a version is worse than the one before it, for sure."""

from collections.abc import Sequence

from collector.alerting.rules.model import AlertingRule, Fact, RuleGroup, Timing
from collector.alerting.rules.promql import any_of
from collector.config.alerts import AlertSettings
from collector.telemetry.series import RELEASE_BOUND, RELEASE_DIFFERENCE, RELEASE_WORSE

WORSE = "EvalstreamReleaseWorse"


def release_group(monitors: Sequence[str], alerts: AlertSettings, timing: Timing) -> RuleGroup:
    """The alert on the releases of monitors; the comparison itself is the service's."""
    by = RELEASE_WORSE.labels
    rule = AlertingRule(
        name=WORSE,
        board="quality",
        expr=f"max by ({', '.join(by)}) ({RELEASE_WORSE.name}{{monitor=~{any_of(monitors)}}}) > 0",
        summary="{label:evaluator} of {label:monitor}: {label:version} is worse than {label:baseline}",
        description=(
            "The mean of {label:evaluator} ({label:monitor}) with {label:attribute} {label:version} differs from that "
            "with {label:baseline} by {difference}, between {low} and {high}. The interval holds at any time: "
            f"of {int(1 / alerts.release_error_rate + 1e-9)} releases that change nothing, at most one is ever "
            "reported as worse. The two versions may have had different traffic: see the runbook."
        ),
        facts={
            "difference": Fact(RELEASE_DIFFERENCE.name, by),
            "low": Fact(RELEASE_BOUND.name, by, {"bound": "low"}),
            "high": Fact(RELEASE_BOUND.name, by, {"bound": "high"}),
        },
    )
    return RuleGroup("evalstream-releases", timing.seconds(60.0), (rule,) if monitors else ())
