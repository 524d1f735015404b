"""Rules on the processes: a stage that nobody runs, rules of another configuration, alerting itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collector.alerting.rules.model import AlertingRule, RuleGroup, Timing, selector
from collector.config.alerts import AlertSettings
from collector.telemetry.series import RULES_INFO, STAGE_UP

STAGE_DOWN = "EvalstreamStageDown"
OUTDATED = "EvalstreamRulesOutdated"
WATCHDOG = "EvalstreamWatchdog"


def process_group(stages: Sequence[str], rules_hash: str, alerts: AlertSettings, timing: Timing) -> RuleGroup:
    """The alerts on `stages` that must run, and on rules that are not those with `rules_hash`."""
    rules = [*(_missing(stage, timing) for stage in stages), _outdated(rules_hash, timing), *_watchdog(alerts)]
    return RuleGroup("evalstream-process", timing.seconds(60.0), tuple(rules))


def _missing(stage: str, timing: Timing) -> AlertingRule:
    """A process that ended cannot say so; others miss its stage. Where none is left, EvalstreamDown says so."""
    return AlertingRule(
        name=STAGE_DOWN,
        expr=f"absent({STAGE_UP.name}{selector(stage=stage)}) and on () count({STAGE_UP.name}) > 0",
        severity="page",
        hold=timing.seconds(300.0),
        labels={"stage": stage},
        summary="No process runs the stage {label:stage}",
        description=(
            "Prometheus scrapes processes of evalstream, and none of them runs the stage {label:stage}. What comes "
            "waits in the log before it: nothing is lost until the log's retention ends, and no score arrives."
        ),
    )


def _outdated(rules_hash: str, timing: Timing) -> AlertingRule:
    return AlertingRule(
        name=OUTDATED,
        expr=f"count by (hash) ({RULES_INFO.name}{{hash!={rules_hash!r}}}) > 0".replace("'", '"'),
        severity="warning",
        hold=timing.seconds(900.0),
        summary="The alert rules were written for another configuration",
        description=(
            "{value} processes run a configuration whose alert rules have the hash {label:hash}; the rules that "
            f"Prometheus has loaded have {rules_hash}. An evaluator may be watched by no rule, or by one with an old "
            "target: write the rules again with `evalstream rules` and load them."
        ),
    )


def _watchdog(alerts: AlertSettings) -> Iterator[AlertingRule]:
    if alerts.heartbeat is not None:
        yield AlertingRule(
            name=WATCHDOG,
            expr="vector(1)",
            severity="heartbeat",
            summary="Alerting works",
            description="Fires always. When it stops arriving, Prometheus, Alertmanager or the way between is broken.",
        )
