"""Rules on the processes: a stage that no process runs, rules of another configuration, alerting itself.

The alert on evaluations that wait for batches tells when they wait longer than a provider takes. A provider answers a
batch within a day or gives it up, and then its requests go into one more batch. So an evaluation that has waited longer
than one batch takes was given up once, or no process follows it: a warning.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from collector.alerting.rules.model import AlertingRule, RuleGroup, Timing
from collector.alerting.rules.promql import selector
from collector.config.alerts import AlertSettings
from collector.config.settings import Settings
from collector.config.urgency import LONGEST_WAIT, due_after
from collector.telemetry.series import DEFERRED_OLDEST, RULES_INFO, STAGE_UP

STAGE_DOWN = "EvalstreamStageDown"
OUTDATED = "EvalstreamRulesOutdated"
WATCHDOG = "EvalstreamWatchdog"


def process_group(stages: Sequence[str], rules_hash: str, alerts: AlertSettings, timing: Timing) -> RuleGroup:
    """The alerts on `stages` that must run, and on rules that are not those with `rules_hash`."""
    rules = [*(_missing(stage, timing) for stage in stages), _outdated(rules_hash, timing), *_watchdog(alerts)]
    return RuleGroup("evalstream-process", timing.seconds(60.0), tuple(rules))


def _missing(stage: str, timing: Timing) -> AlertingRule:
    """A process that ended cannot say so; others miss its stage. If no process is left, EvalstreamDown says so."""
    return AlertingRule(
        name=STAGE_DOWN,
        expr=f"absent({STAGE_UP.name}{selector(stage=stage)}) and on () count({STAGE_UP.name}) > 0",
        severity="page",
        hold=timing.seconds(300.0),
        labels={"stage": stage},
        summary="No process runs the stage {label:stage}",
        description=(
            "Prometheus scrapes evalstream, but no process runs the stage {label:stage}. "
            "Until one does, no score arrives. Its input waits, and is lost only if the log's retention deletes it."
        ),
    )


def _outdated(rules_hash: str, timing: Timing) -> AlertingRule:
    return AlertingRule(
        name=OUTDATED,
        expr=f"count by (hash) ({RULES_INFO.name}{{hash!={rules_hash!r}}}) > 0".replace("'", '"'),
        hold=timing.seconds(900.0),
        summary="The alert rules were written for another configuration",
        description=(
            f"Prometheus has loaded rules with the hash {rules_hash}; a configuration needs {{label:hash}} "
            "(processes that run it: {value}). An evaluator may be watched by no rule, or by one with an old target: "
            "write the rules again with `evalstream rules` and load them."
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


LATE = "EvalstreamDeferredLate"
_HOUR = 3600.0


def deferred_groups(settings: Settings, timing: Timing) -> Sequence[RuleGroup]:
    """The alert, where a monitor's evaluations may wait."""
    if all(monitor.urgency == "now" for monitor in settings.monitors.values()):
        return ()
    once, twice = (due_after(settings, batches) for batches in (1, 2))
    oldest = f"max({DEFERRED_OLDEST.name})"
    late = partial(AlertingRule, name=LATE, hold=timing.seconds(600.0))
    warning = late(
        expr=f"{oldest} > {timing.seconds(once):g} <= {timing.seconds(twice):g}",
        summary="an evaluation waits for its judge's batches for longer than a day",
        description=(
            f"The oldest evaluation that waits for batches has waited for {{value}} s; a batch is answered within "
            f"{once / _HOUR:.1f} h. Either the batch expired and was submitted once more, or the evaluator "
            "asks in several rounds, or the provider does not answer. The score comes late; nothing is lost yet."
        ),
    )
    page = late(
        expr=f"{oldest} > {timing.seconds(twice):g}",
        severity="page",
        summary="an evaluation waits for its judge's batches for longer than two batches take",
        description=(
            f"The oldest evaluation that waits for batches has waited for {{value}} s; "
            f"after {twice / _HOUR:.1f} h it should have a score or have failed. "
            f"From {LONGEST_WAIT / _HOUR:g} h on, the log may delete its turn, which then gets no score."
        ),
    )
    return (RuleGroup("evalstream-deferred", timing.seconds(60.0), (warning, page)),)
