"""Rules about the service itself: whether the scores can be trusted, and whether they come at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from collector.config.alerts import AlertSettings
from collector.rules import series
from collector.rules.model import Alert, Fact, Group, Recording, Severity, Timing, quoted, selector
from collector.rules.targets import Target
from collector.telemetry import (
    BEGUN,
    BUILD_INFO,
    CONVERSATIONS,
    DROPS,
    EVALUATION_WEIGHT,
    EVALUATIONS,
    EXPORT_FAILURES,
    EXPORT_LAG,
    GOLDEN_SHIFT,
    GOLDEN_SHIFT_STDERR,
    JUDGE_COST,
    JUDGE_REQUESTS,
    LEDGER,
    STAGE_AGE,
    STAGE_BACKLOG,
    TURNS,
)
from evaluators.cases import Scope

SHIFT, STALE, UNSCORED, WEIGHTS = (
    "EvalstreamJudgeShift",
    "EvalstreamStale",
    "EvalstreamUnscored",
    "EvalstreamWeightsInconsistent",
)
DOWN, NO_TRAFFIC = "EvalstreamDown", "EvalstreamNoTraffic"
BUDGET = "EvalstreamOverBudget"
_SHIFT_ERRORS = 4.0
_ENOUGH = 20
"""Subjects that a share needs before it alerts."""
_LOST = "over_budget|shed|incomplete"
"""Reasons of skips that are losses: the subject should have got a score."""


def service_group(targets: Sequence[Target], alerts: AlertSettings, timing: Timing, *, limited: bool) -> Group:
    """Everything about trust, progress, money and loss; `limited` says whether there is any budget."""
    rules: list[Recording | Alert] = [*_trust(targets, alerts, timing), *_staleness(targets, alerts, timing)]
    rules += [*_judge(alerts, timing, limited=limited), *_progress(alerts, timing)]
    return Group("evalstream-service", timing.seconds(60.0), tuple(rules))


def _trust(targets: Sequence[Target], alerts: AlertSettings, timing: Timing) -> Iterator[Recording | Alert]:
    hour, long = timing.text(3600), timing.text(6 * 3600)
    subjects = "sum by (evaluator, monitor) (increase(%s%s[%s]))"
    failed = subjects % (EVALUATIONS.name, '{outcome="failed"}', hour)
    lost = subjects % (EVALUATIONS.name, f'{{outcome="skipped",reason=~"{_LOST}"}}', hour)
    wanted = subjects % (EVALUATIONS.name, '{outcome=~"scored|failed"}', hour)
    unscored = f"(({failed}) + ({lost} or {failed} * 0) or {lost})"
    yield Recording(series.UNSCORED_SHARE, f"{unscored} / ((({wanted}) + ({lost} or {wanted} * 0) or {lost}) > 0)")
    yield Alert(
        name=UNSCORED,
        board="trust",
        expr=f"{series.UNSCORED_SHARE} > {alerts.unscored_share:g} and {wanted} >= {_ENOUGH}",
        severity="warning",
        hold=timing.seconds(900),
        summary="{label:evaluator} of {label:monitor}: too many sampled subjects get no score",
        description=(
            "A share of {value} of what was sampled for {label:evaluator} ({label:monitor}) in the last hour has no "
            f"score; {alerts.unscored_share:g} is borne. What fails is rarely like the rest, so the mean is not to be "
            "trusted."
        ),
    )
    if targets:
        yield from _weights(targets, alerts, long)


_POPULATIONS: Mapping[Scope, str] = {
    "turn": f'{TURNS.name}{{outcome=~"sampled|sampled_out"}}',
    "conversation": CONVERSATIONS.name,
}


def _weights(targets: Sequence[Target], alerts: AlertSettings, window: str) -> Iterator[Recording | Alert]:
    checks = [_check(scope, targets, window) for scope in _POPULATIONS if any(each.scope == scope for each in targets)]
    yield Recording(series.WEIGHT_CHECK, " or ".join(checks))
    count = f'max by (evaluator, monitor) ({series.SCORE_N_EFF}{{window="6h"}})'
    yield Alert(
        name=WEIGHTS,
        board="trust",
        # by chance alone the sum of weights is off by one over the square root of n, as a standard error
        expr=f"abs({series.WEIGHT_CHECK} - 1) > {alerts.weight_tolerance:g} + 4 / sqrt({count})"
        f" and {count} >= {alerts.min_n:g}",
        severity="warning",
        hold=0.0,
        summary="{label:evaluator} of {label:monitor}: weights do not add up to the traffic",
        description=(
            "Over six hours the weights of {label:evaluator} ({label:monitor}) add up to {check} times the traffic "
            f"that they stand for, from {{n}} effective conversations; 1 ± {alerts.weight_tolerance:g} is borne. "
            "Sampling or its record is wrong, and so are the means."
        ),
        facts={
            "check": Fact(series.WEIGHT_CHECK, ("evaluator", "monitor")),
            "n": Fact(series.SCORE_N_EFF, ("evaluator", "monitor"), {"window": "6h"}),
        },
    )


def _check(scope: Scope, targets: Sequence[Target], window: str) -> str:
    """The weights of a scope's evaluators over the traffic that came."""
    evaluators = "|".join(dict.fromkeys(target.evaluator for target in targets if target.scope == scope))
    chosen = f"{EVALUATION_WEIGHT.name}{{evaluator=~{_regex(evaluators)}}}"
    population = f"sum by (monitor) (increase({_POPULATIONS[scope]}[{window}]))"
    weight = f"sum by (evaluator, monitor) (increase({chosen}[{window}]))"
    return f"({weight} / on (monitor) group_left () ({population} > 0))"


def _staleness(targets: Sequence[Target], alerts: AlertSettings, timing: Timing) -> Iterator[Alert]:
    yield Alert(
        name=DOWN,
        expr=f"absent({BUILD_INFO.name})",
        severity="page",
        hold=timing.seconds(300),
        summary="evalstream is gone: nothing of it is scraped",
        description="Prometheus has no process of evalstream to scrape, so no score and no other alert can come.",
    )
    for target in targets:
        yield _stale(target, timing)
    nothing = timing.text(alerts.no_traffic)
    yield Alert(
        name=NO_TRAFFIC,
        expr=f'sum by (monitor) (increase({TURNS.name}{{monitor!="",outcome=~"sampled|sampled_out"}}[{nothing}])) == 0'
        f" and sum by (monitor) ({TURNS.name} offset {nothing}) >= 0",
        severity="warning",
        summary="{label:monitor}: no turn has come",
        description=f"No turn that {{label:monitor}} watches has come for {Timing().text(alerts.no_traffic)}.",
    )


def _stale(target: Target, timing: Timing) -> Alert:
    """Evaluations are begun and no score comes of them. Where nothing is sampled, nothing is expected.

    What a monitor samples for one evaluator says nothing of the others: each may have a rate of its own, and what two
    monitors give to one evaluator is judged for the first.
    """
    window = timing.text(900.0 + target.delay)
    where = {"evaluator": target.evaluator, "monitor": target.monitor}
    begun = f"{BEGUN.name}{selector(**where)}"
    # a skip that the turn itself accounts for shows that the evaluator is at work
    named = ",".join(f"{name}={quoted(value)}" for name, value in where.items())
    worked = f'{{{named},outcome=~"scored|skipped",reason!~"{_LOST}"}}'
    # the first must have been begun a window ago: scores take their time
    before = f"(sum by (monitor) (increase({begun}[{window}] offset {window})) > 0)"
    return Alert(
        name=STALE,
        board="trust",
        expr=f"sum by (monitor) (increase({begun}[{window}])) > 0 and {before}"
        f" unless on (monitor) sum by (monitor) (increase({EVALUATIONS.name}{worked}[{window}])) > 0",
        severity="page",
        labels=where,
        summary="{label:evaluator} of {label:monitor}: turns are sampled, but no score comes",
        description=(
            "About {value} evaluations by {label:evaluator} were begun for {label:monitor} in the last "
            f"{Timing().text(900.0 + target.delay)}, and no score came. Its last mean is not today's."
        ),
    )


def _judge(alerts: AlertSettings, timing: Timing, *, limited: bool) -> Iterator[Alert]:
    yield _shifted(alerts)
    yield _failing(timing)
    if limited:
        yield _refused(timing)
    if alerts.usd_per_hour is not None:
        yield _dear(alerts.usd_per_hour, timing)


def _shifted(alerts: AlertSettings) -> Alert:
    shift, error = GOLDEN_SHIFT.name, GOLDEN_SHIFT_STDERR.name
    return Alert(
        name=SHIFT,
        board="trust",
        expr=f"abs({shift}) > {alerts.judge_shift:g} + {_SHIFT_ERRORS:g} * {error}",
        severity="warning",
        summary="{label:evaluator}: the judge has moved",
        description=(
            "On the golden set the scores of {label:evaluator} by {label:judge} have moved by {shift} ± {error} from "
            f"their references; {alerts.judge_shift:g} is borne. Nothing but the judge can have moved them: alerts "
            "about scores of this evaluator are silent meanwhile."
        ),
        facts={
            "shift": Fact(shift, ("evaluator", "evaluator_version", "judge")),
            "error": Fact(error, ("evaluator", "evaluator_version", "judge")),
        },
    )


def _failing(timing: Timing) -> Alert:
    window = timing.text(900)
    total = f"sum by (judge) (increase({JUDGE_REQUESTS.name}[{window}]))"
    bad = f'sum by (judge) (increase({JUDGE_REQUESTS.name}{{result!="ok"}}[{window}]))'
    return Alert(
        name="EvalstreamJudgeErrors",
        expr=f"{bad} / ({total} > {_ENOUGH}) > 0.2",
        severity="warning",
        hold=timing.seconds(600),
        summary="{label:judge}: many requests fail",
        description="A share of {value} of the requests to {label:judge} failed in the last 15 minutes.",
    )


def _refused(timing: Timing) -> Alert:
    refused = f'increase({LEDGER.name}{{what="over_budget"}}[{timing.text(900)}])'
    return Alert(
        name=BUDGET,
        board="cost",
        expr=f"sum by (monitor) ({refused}) > 0",
        severity="warning",
        summary="{label:monitor}: its budget is used up to the hard cap",
        description=(
            "About {value} evaluations of {label:monitor} were refused in the last 15 minutes: a budget's hard cap "
            "was reached. Which are missing depends on when they came, so means are biased until it ends."
        ),
    )


def _dear(usd_per_hour: float, timing: Timing) -> Alert:
    spent = f"sum(increase({JUDGE_COST.name}[{timing.text(3600)}]))"
    return Alert(
        name=BUDGET,
        board="cost",
        expr=f"{spent} > {1.2 * usd_per_hour:g}",
        severity="warning",
        summary="Judges cost more than they should",
        description=f"The judges cost {{value}} USD in the last hour; {usd_per_hour:g} were expected.",
    )


def _progress(alerts: AlertSettings, timing: Timing) -> Iterator[Alert]:
    window = timing.text(900)

    def alert(name: str, expr: str, summary: str, description: str, severity: Severity = "warning") -> Alert:
        hold = 0.0 if name == "EvalstreamDrops" else timing.seconds(600)
        return Alert(name=name, expr=expr, severity=severity, hold=hold, summary=summary, description=description)

    lag = f"max by (exporter) ({EXPORT_LAG.name}) > {alerts.max_lag:g}"
    yield alert(
        "EvalstreamExportLag",
        lag,
        "{label:exporter}: evaluations go out late",
        f"The newest evaluation that {{label:exporter}} took out was {{value}} s old; {alerts.max_lag:g} s are borne.",
    )
    yield alert(
        "EvalstreamExportFails",
        f"sum by (exporter, reason) (increase({EXPORT_FAILURES.name}[{window}])) > 0",
        "{label:exporter}: its destination does not answer",
        "{label:exporter} has failed {value} times in 15 minutes ({label:reason}). It goes on trying; nothing is lost.",
    )
    behind = f"sum by (reader) ({STAGE_BACKLOG.name}) > {alerts.max_backlog:g}"
    old = f"max by (reader) ({STAGE_AGE.name}) > {alerts.max_lag:g}"
    yield alert(
        "EvalstreamBehind",
        f"{behind} or {old}",
        "{label:reader} does not keep up",
        f"{{label:reader}} is behind: {{value}} (records, or seconds); {alerts.max_backlog:g} records and "
        f"{alerts.max_lag:g} s are borne.",
    )
    yield alert(
        "EvalstreamDrops",
        # increase() does not see the first one: its series begins at 1
        f"sum by (stage, reason) (increase({DROPS.name}[{window}])) > 0"
        f" or sum by (stage, reason) ({DROPS.name} unless {DROPS.name} offset {window}) > 0",
        "{label:stage} dropped records ({label:reason})",
        "{label:stage} left out about {value} records in 15 minutes ({label:reason}).",
    )


def _regex(alternatives: str) -> str:
    """Names joined by `|` as the string of a matcher; names are of a closed set, dots and the like escaped."""
    import re

    escaped = "|".join(re.escape(name).replace("\\-", "-") for name in alternatives.split("|"))
    return '"' + escaped.replace("\\", "\\\\").replace('"', '\\"') + '"'
