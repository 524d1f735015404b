"""Rules on the service itself: the trust in its scores, its progress, cost and losses."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Literal

from collector.alerting.rules import series
from collector.alerting.rules.model import AlertingRule, Fact, RecordingRule, RuleGroup, Severity, Timing
from collector.alerting.rules.promql import any_of, growth, quoted, selector
from collector.alerting.rules.targets import Target
from collector.config.alerts import AlertSettings
from collector.telemetry import series as metrics
from evaluators.cases import Scope
from evaluators.results import LOSSES, SkipReason

SHIFT, STALE = "EvalstreamJudgeShift", "EvalstreamStale"
UNSCORED, WEIGHTS = "EvalstreamUnscored", "EvalstreamWeightsInconsistent"
DOWN, NO_TRAFFIC = "EvalstreamDown", "EvalstreamNoTraffic"
BUDGET, JUDGE_UNAVAILABLE = "EvalstreamOverBudget", "EvalstreamJudgeUnavailable"
LOST, RETENTION = "EvalstreamRecordsLost", "EvalstreamRetentionNear"
REFUSED, OUTRUN = "EvalstreamConfigurationRefused", "EvalstreamConfigurationBehind"
_RETENTION_USED = 0.5
"""The share of a log's retention that a consumer's lag may reach: half of it is left to act."""
SHIFT_EFFECT = (
    "Only the judge can have caused this. If its scores are worse than the references, score alerts on this evaluator "
    "fire only for larger drops until these scores have left the windows; if they are better, they may hide a drop."
)
"""A shift's consequence for the alerts on scores."""
_SHIFT_ERRORS = 4.0
_DUE, _ENDED = metrics.EVALUATIONS_DUE.name, metrics.EVALUATIONS_ENDED.name
_WAITING = 0.05
"""The share of evaluations, or of their weight, that may wait while weights are compared with the traffic."""
_LIMITED, _ANSWERED = '{result="judge_rate_limited"}', '{result=~"ok|judge_reply_.*|judge_refused|judge_rejected"}'
_ENOUGH = 20
"""The fewest subjects for an alert on a share."""
LOST_REASONS = "|".join(LOSSES)
"""The skips that are losses, as a regular expression of PromQL."""


def service_group(targets: Sequence[Target], alerts: AlertSettings, timing: Timing, *, limited: bool) -> RuleGroup:
    """The alerts on trust, progress, cost and loss; `limited`: there is a budget."""
    rules: list[RecordingRule | AlertingRule] = [*_trust(targets, alerts, timing), *_staleness(targets, alerts, timing)]
    rules += [*_judge(alerts, timing, limited=limited), *_progress(alerts, timing), *_losses(timing)]
    return RuleGroup("evalstream-service", timing.seconds(60.0), tuple(rules))


_SUBJECTS = "sum by (evaluator, monitor) (increase(%s%s[%s]))"


def _wanted(timing: Timing) -> str:
    return _SUBJECTS % (metrics.EVALUATIONS.name, '{outcome=~"scored|failed"}', timing.text(3600))


def unscored(alerts: AlertSettings, timing: Timing, where: str = "") -> str:
    """The share of subjects without a score, where it is too large."""
    return f"{series.UNSCORED_SHARE}{where} > {alerts.max_unscored_share:g} and {_wanted(timing)} >= {_ENOUGH}"


def inconsistent_weights(alerts: AlertSettings, window: str, where: str = "") -> str:
    """How far the sum of weights is off the traffic, where it is too far; `window` is six hours."""
    count = f'max by (evaluator, monitor) ({series.SCORE_N_EFF}{{window="6h"}})'
    # By chance alone the sum of weights is off by one over the square root of n, as a standard error. n_eff knows how
    # unequal the weights are that were made, and the number of scores how unequal they might have been.
    scores = _SUBJECTS % (metrics.EVALUATIONS.name, '{outcome="scored"}', window)
    likely = f"({scores} / on (monitor) group_left () {series.BUDGET_SPREAD} < {count} or {count})"
    return (
        f"abs({series.WEIGHT_CHECK}{where} - 1) > {alerts.weight_tolerance:g} + 4 / sqrt({likely})"
        f" and {count} >= {alerts.min_conversations:g}"
    )


JUDGE_MEMORY = 300.0
"""A judge's shift is remembered for so many seconds: a restart of the service takes its series away for some."""


def judge_shift(alerts: AlertSettings, timing: Timing, sign: Literal["abs", "-", ""] = "abs", where: str = "") -> str:
    """How far a judge has shifted, to either side or to one, where it is significantly too far."""
    shift, error = (
        f"last_over_time({gauge.name}{where}[{timing.text(JUDGE_MEMORY)}])"
        for gauge in (metrics.GOLDEN_SHIFT, metrics.GOLDEN_SHIFT_STDERR)
    )
    size = f"abs({shift})" if sign == "abs" else f"{sign}{shift}"
    return f"{size} > {alerts.judge_shift_tolerance:g} + {_SHIFT_ERRORS:g} * {error}"


def _trust(targets: Sequence[Target], alerts: AlertSettings, timing: Timing) -> Iterator[RecordingRule | AlertingRule]:
    hour, long = timing.text(3600), timing.text(6 * 3600)
    failed = _SUBJECTS % (metrics.EVALUATIONS.name, '{outcome="failed"}', hour)
    lost = _SUBJECTS % (metrics.EVALUATIONS.name, f'{{outcome="skipped",reason=~"{LOST_REASONS}"}}', hour)
    # What replaced a failure leaves the window with it, as half of an age's failures do, up to half a quarter off. It
    # takes no more than there is: a present failure without traffic would else have no share at all.
    replaced = " or ".join(
        f'increase({metrics.EVALUATIONS_REPLACED.name}{{age="{age}"}}[{timing.text(3600 - age_of_half)}])'
        for age, age_of_half in zip(metrics.REPLACED_AGES, count(metrics.QUARTER / 2, metrics.QUARTER), strict=False)
    )
    without = f"(({failed}) + ({lost} or {failed} * 0) or {lost})"
    left = f"clamp_min({without} - (sum by (evaluator, monitor) ({replaced}) or {without} * 0), 0)"
    scored = _SUBJECTS % (metrics.EVALUATIONS.name, '{outcome="scored"}', hour)
    yield RecordingRule(series.UNSCORED_SHARE, f"{left} / ((({scored}) + {left} or {left}) > 0)")
    unshown = f"{_SUBJECTS % (metrics.UNSHOWN.name, '', hour)} / ({_wanted(timing)} > 0)"
    share = series.UNSCORED_SHARE
    yield RecordingRule(series.UNCOVERED_SHARE, f"clamp_max({share} + ({unshown} or {share} * 0), 1)")
    yield AlertingRule(
        name=UNSCORED, board="trust", expr=unscored(alerts, timing), hold=timing.seconds(900),
        summary="{label:evaluator} of {label:monitor}: too many evaluations have no score",
        description=(
            "In the last hour a share of {value} of the evaluations by {label:evaluator} ({label:monitor}) has no "
            f"score; the limit is {alerts.max_unscored_share:g}. Failures are rarely random, so the mean may "
            "be off by up to this share. Until this ends, score alerts fire only for larger differences."
        ),
    )  # fmt: skip
    # Evaluations that wait for batches get their weights up to a day after their traffic: over hours they do not add
    # up.
    if prompt := [target for target in targets if not target.deferred]:
        yield from _weights(prompt, alerts, long)


_POPULATIONS: Mapping[Scope, str] = {
    "turn": f'{metrics.TURNS.name}{{outcome=~"sampled|sampled_out"}}',
    "conversation": metrics.CONVERSATIONS.name,
}


def _weights(targets: Sequence[Target], alerts: AlertSettings, window: str) -> Iterator[RecordingRule | AlertingRule]:
    scopes = {target.scope for target in targets}
    checks = [_check(scope, targets, window) for scope in _POPULATIONS if scope in scopes]
    # evaluations that wait for their judge have no weight yet; each process counts its own, so no restart leaves any
    due, ended = (f"sum by (evaluator, monitor) ({name})" for name in (_DUE, _ENDED))
    many = f"{due} - {ended} > {_WAITING:g} * {_SUBJECTS % (metrics.EVALUATIONS.name, '', window)}"
    # few may stand for much, as when a budget has just lowered the rates
    weight = f"sum by (evaluator, monitor) ({metrics.WAITING_WEIGHT.name})"
    heavy = f"{weight} > {_WAITING:g} * {_SUBJECTS % (metrics.EVALUATION_WEIGHT.name, '', window)}"
    # turns from before an evaluator was added, or from while it was removed, have no weight
    in_use = f"sum_over_time(max by (%s) ({metrics.EVALUATOR_INFO.name})[{window}:])"
    # one that is new has no value at the steps of the range yet
    known = f"({in_use % 'evaluator, monitor'} or 0 * max by (evaluator, monitor) ({metrics.EVALUATOR_INFO.name}))"
    part = f"{known} < on (monitor) group_left () 0.95 * {in_use % 'monitor'}"
    # what nobody drew at a low rate is in no score: n alone knows nothing of its chance
    factor = f"min by (monitor) ({metrics.BUDGET_FACTOR.name} >= 0)"  # one NaN would make the average NaN
    spread = f"avg_over_time({factor}[{window}:]) * avg_over_time((1 / {factor})[{window}:])"
    yield RecordingRule(series.BUDGET_SPREAD, spread)
    yield RecordingRule(series.WEIGHT_CHECK, f"({' or '.join(checks)}) unless ({many} or {heavy} or {part})")
    yield AlertingRule(
        name=WEIGHTS,
        board="trust",
        expr=inconsistent_weights(alerts, window),
        summary="{label:evaluator} of {label:monitor}: sampling weights do not add up to the traffic",
        description=(
            "Over six hours the weights of {label:evaluator} ({label:monitor}) add up to {check} times the traffic "
            "that they represent, from {n} effective conversations; the limit is "
            f"{alerts.weight_tolerance:g} more or less than one. If `sample` did not change, the means are wrong."
        ),
        facts={
            "check": Fact(series.WEIGHT_CHECK, ("evaluator", "monitor")),
            "n": Fact(series.SCORE_N_EFF, ("evaluator", "monitor"), {"window": "6h"}),
        },
    )


def _check(scope: Scope, targets: Sequence[Target], window: str) -> str:
    """The weights of a scope's evaluators over the traffic that came."""
    evaluators = dict.fromkeys(target.evaluator for target in targets if target.scope == scope)
    chosen = f"{metrics.EVALUATION_WEIGHT.name}{{evaluator=~{any_of(evaluators)}}}"
    population = growth(_POPULATIONS[scope], window, ("monitor",))
    weight = growth(chosen, window, ("evaluator", "monitor"))
    return f"({weight} / on (monitor) group_left () ({population} > 0))"


def _staleness(targets: Sequence[Target], alerts: AlertSettings, timing: Timing) -> Iterator[AlertingRule]:
    yield AlertingRule(
        name=DOWN,
        expr=f"absent({metrics.BUILD_INFO.name})",
        severity="page",
        hold=timing.seconds(300),
        summary="evalstream is down: Prometheus scrapes no process of it",
        description="Prometheus has no process of evalstream to scrape, so there are no scores and no other alerts.",
    )
    yield from (_stale(target, timing) for target in targets)
    nothing = timing.text(alerts.no_traffic_after)
    yield AlertingRule(
        name=NO_TRAFFIC,
        expr=f'sum by (monitor) (increase({metrics.TURNS.name}{{outcome=~"sampled|sampled_out"}}[{nothing}])) == 0'
        f" and sum by (monitor) ({metrics.TURNS.name} offset {nothing}) >= 0",
        summary="{label:monitor}: no turns received",
        description=f"{{label:monitor}} has matched no turn for {Timing().text(alerts.no_traffic_after)}.",
    )


def _stale(target: Target, timing: Timing) -> AlertingRule:
    """Evaluations start and no score arrives. If nothing is sampled, no score is expected.

    Why not by the monitor's sampled turns: each evaluator may have a rate of its own.
    """
    window, by = timing.text(900.0 + target.delay), "evaluator, monitor"
    where = {"evaluator": target.evaluator, "monitor": target.monitor}
    begun = f"{metrics.EVALUATIONS_STARTED.name}{selector(**where)}"
    # a skip because of the turn itself (a missing field) shows that the evaluator works
    named = ",".join(f"{name}={quoted(value)}" for name, value in where.items())
    worked = f'{{{named},outcome=~"scored|skipped",reason!~"{LOST_REASONS}"}}'
    refused = f'{{{named},reason="{SkipReason.OVER_BUDGET}"}}'
    # the first must have started a window ago: scores take time
    before = f"(sum by ({by}) (increase({begun}[{window}] offset {window})) > 0)"
    return AlertingRule(
        name=STALE,
        board="trust",
        expr=f"sum by ({by}) (increase({begun}[{window}])) > 0 and {before}"
        f" unless sum by ({by}) (increase({metrics.EVALUATIONS.name}{worked}[{window}])) > 0"
        # a budget's hard cap has an alert of its own
        f" unless 2 * sum by ({by}) (increase({metrics.EVALUATIONS.name}{refused}[{window}]))"
        f" > sum by ({by}) (increase({begun}[{window}]))",
        severity="page",
        labels=where,
        summary="{label:evaluator} of {label:monitor}: evaluations start, but none is scored",
        description=(
            "Evaluations by {label:evaluator} started for {label:monitor} in the last "
            f"{Timing().text(900.0 + target.delay)} (about {{count}}), and none was scored. The means shown are old."
        ),
    )


def _judge(alerts: AlertSettings, timing: Timing, *, limited: bool) -> Iterator[RecordingRule | AlertingRule]:
    yield _shifted(alerts, timing)
    yield _failing(timing)
    yield from _unavailable(timing)
    if limited:
        yield _refused(timing)
    if alerts.expected_usd_per_hour is not None:
        yield _expensive(alerts.expected_usd_per_hour, timing)


def _shifted(alerts: AlertSettings, timing: Timing) -> AlertingRule:
    by, memory = ("evaluator", "evaluator_version", "judge"), timing.text(JUDGE_MEMORY)
    return AlertingRule(
        name=SHIFT,
        board="trust",
        expr=judge_shift(alerts, timing),
        summary="{label:evaluator}: the judge has shifted",
        description=(
            "On the golden set the scores of {label:evaluator} by {label:judge} differ by {shift} (95 %: ± {error}) "
            f"from their references; the limit is {alerts.judge_shift_tolerance:g}. {SHIFT_EFFECT}"
        ),
        facts={
            "shift": Fact(metrics.GOLDEN_SHIFT.name, by, within=memory),
            "error": Fact(metrics.GOLDEN_SHIFT_STDERR.name, by, within=memory, is_margin=True),
        },
    )


def _failing(timing: Timing) -> AlertingRule:
    window = timing.text(900)
    total = f"sum by (judge) (increase({metrics.JUDGE_REQUESTS.name}[{window}]))"
    bad = f'sum by (judge) (increase({metrics.JUDGE_REQUESTS.name}{{result!="ok"}}[{window}]))'
    return AlertingRule(
        name="EvalstreamJudgeErrors",
        expr=f"{bad} / ({total} > {_ENOUGH}) > 0.2",
        hold=timing.seconds(600),
        summary="{label:judge}: many requests to the judge fail",
        description="A share of {value} of the requests to {label:judge} failed in the last 15 minutes.",
    )


_OUTAGES = {
    "judge_denied": "Its endpoint refuses the key, the model or the account",
    "judge_rate_limited": "Its endpoint limits requests (429)",
    "judge_no_completion": "Its endpoint answers with something that is not a completion",
    "judge_timeout": "Its endpoint does not answer in time",
    "judge_unavailable": "Its endpoint does not answer, or answers with an error of its own",
}
"""The sentences of the alert by the results of requests."""


def _unavailable(timing: Timing) -> Iterator[RecordingRule | AlertingRule]:
    requests = f"sum by (%s) (increase({metrics.JUDGE_REQUESTS.name}%s[{timing.text(300)}]))"
    # a rate limit opens no breaker, as the endpoint works
    only_limited = f"{requests % ('judge', _LIMITED)} >= 5 unless {requests % ('judge', _ANSWERED)} > 0"
    results = growth(metrics.JUDGE_REQUESTS.name, timing.text(900), ("judge", "result"))
    yield RecordingRule(series.JUDGE_RESULTS, f"ceil({results}) > 0")
    yield AlertingRule(
        name=JUDGE_UNAVAILABLE,
        expr=f'max by (judge) ({metrics.BREAKER_STATE.name}{{state=~"open|half_open"}}) > 0 or ({only_limited})',
        severity="page",
        hold=timing.seconds(120),
        summary="{label:judge}: the judge is unavailable, or refuses every request",
        description=(
            f"{{label:judge}} answers no question. {''.join(f'{{{result}}}' for result in _OUTAGES)}"
            "Evaluations wait; the log of the service says what to correct."
        ),
        facts={
            result: Fact(
                series.JUDGE_RESULTS, ("judge",), {"result": result},
                phrase=f"{meaning} ({result}: about {{}} requests in a quarter of an hour). ",
            )
            for result, meaning in _OUTAGES.items()
        },
    )  # fmt: skip


def _refused(timing: Timing) -> AlertingRule:
    refused = f'increase({metrics.EVALUATIONS_ENDED.name}{{reason="{SkipReason.OVER_BUDGET}"}}[{timing.text(900)}])'
    return AlertingRule(
        name=BUDGET,
        board="cost",
        expr=f"sum by (monitor) ({refused}) > 0",
        summary="{label:monitor}: the hard cap of a budget is reached",
        description=(
            "About {count} evaluations of {label:monitor} were skipped in the last 15 minutes, as its budget "
            "or the budget of all monitors (evaluate.budget) has reached its hard cap. The missing ones are "
            "all of the same time, so means over that time are biased."
        ),
    )


def _expensive(usd_per_hour: float, timing: Timing) -> AlertingRule:
    return AlertingRule(
        name=BUDGET,
        board="cost",
        expr=f"sum(increase({metrics.JUDGE_COST.name}[{timing.text(3600)}])) > {1.2 * usd_per_hour:g}",
        summary="Judges cost more than expected",
        description=f"Judges cost {{value}} USD in the last hour; alerts.expected_usd_per_hour is {usd_per_hour:g}.",
    )


def _progress(alerts: AlertSettings, timing: Timing) -> Iterator[AlertingRule]:
    window = timing.text(900)

    def alert(name: str, expr: str, summary: str, description: str, severity: Severity = "warning") -> AlertingRule:
        hold = 0.0 if name == "EvalstreamDrops" else timing.seconds(600)
        return AlertingRule(
            name=name, expr=expr, severity=severity, hold=hold, summary=summary, description=description
        )

    yield alert(
        "EvalstreamExportLag",
        f"max by (exporter) ({metrics.EXPORT_LAG.name}) > {alerts.max_lag:g}",
        "{label:exporter}: evaluations are exported late",
        f"The newest evaluation exported by {{label:exporter}} was {{value}} s old; the limit is {alerts.max_lag:g} s.",
    )
    yield alert(
        "EvalstreamExportFails",
        f"sum by (exporter, reason) (increase({metrics.EXPORT_FAILURES.name}[{window}])) > 0",
        "{label:exporter}: exports fail",
        "About {count} attempts of {label:exporter} failed in 15 minutes ({label:reason}). Nothing is lost.",
    )
    for which, severity, meaning in _CHECKS:
        yield alert(
            "EvalstreamHealthCheck",
            f"min by (check) ({metrics.HEALTH_CHECK.name}{{{which}}}) < 1",
            "{label:check}: a health check fails",
            f"The check {{label:check}} of a process has failed for minutes. {meaning} "
            "/readyz of that process has the problem.",
            severity,
        )
    yield alert(
        REFUSED,
        f"max({metrics.CONFIGURATION_REFUSED.name}) > 0",
        "a changed configuration is refused",
        "A changed configuration was refused; the previous one stays in force. "
        "The log, /readyz and the page of evalstream give the reason.",
    )
    yield alert(
        OUTRUN,
        # refused requests have their own alert
        f"max({metrics.CONFIGURATION_NUMBER.name}) - min({metrics.CONFIGURATION_NUMBER.name}) > 0"
        f" unless max({metrics.CONFIGURATION_REFUSED.name}) > 0",
        "a process has not taken the newest configuration",
        "A process has not refused the newest configuration, but runs an older one (changes since: {value}). "
        "The process judges its partitions by the older configuration.",
    )
    behind = f"sum by (consumer) ({metrics.CONSUMER_LAG_RECORDS.name}) > {alerts.max_backlog:g}"
    yield alert(
        "EvalstreamBehind",
        f"{behind} or max by (consumer) ({metrics.CONSUMER_LAG_SECONDS.name}) > {alerts.max_lag:g}",
        "{label:consumer} does not keep up",
        f"{{label:consumer}} lags by {{value}} (records, or seconds); "
        f"the limits are {alerts.max_backlog:g} records and {alerts.max_lag:g} s.",
    )
    yield alert(
        "EvalstreamDrops",
        # increase() does not see the first one: its series begins at 1
        f"sum by (stage, reason) (increase({metrics.DROPS.name}[{window}])) > 0"
        f" or sum by (stage, reason) ({metrics.DROPS.name} unless {metrics.DROPS.name} offset {window}) > 0",
        "{label:stage} dropped records ({label:reason})",
        "{label:stage} dropped about {count} records in 15 minutes ({label:reason}).",
    )


_CHECKS: Sequence[tuple[str, Severity, str]] = (
    ('check="log"', "page", "Senders may get 503, and stages wait: a log cannot be written or read."),
    # EvalstreamUnscored tells of failing evaluators
    ('check!~"log|configuration|evaluators"', "warning", "Accepted data waits in the log."),
)
"""The health checks by what their failing means."""


def _losses(timing: Timing) -> Iterator[AlertingRule]:
    """Records that retention deleted before they were read, and records that it will delete soon."""
    labels, window = "consumer, log, reason", timing.text(900)
    yield AlertingRule(
        name=LOST,
        # increase() does not see a first loss that comes before the first scrape
        expr=f"sum by ({labels}) (increase({metrics.RECORDS_LOST.name}[{window}])) > 0"
        f" or sum by ({labels}) ({metrics.RECORDS_LOST.name} unless {metrics.RECORDS_LOST.name} offset {window}) > 0",
        severity="page",
        summary="{label:consumer}: retention deleted records of {label:log} that it needed",
        description=(
            "About {count} records of {label:log} were deleted by the topic's retention in the last 15 "
            "minutes although {label:consumer} still needed them ({label:reason}). Turns in them may get no scores. "
            "Raise retention.ms of the topic now: more will follow while {label:consumer} lags."
        ),
    )
    yield AlertingRule(
        name=RETENTION,
        expr=f"max by (consumer, log) ({metrics.OLDEST_NEEDED.name}) / on (log) group_left ()"
        f" max by (log) ({metrics.LOG_RETENTION.name}) > {_RETENTION_USED:g}",
        severity="page",
        summary="{label:consumer}: retention of {label:log} is about to delete what it needs",
        description=(
            "The oldest record of {label:log} that {label:consumer} needs has reached a share of {value} of the age "
            "at which the topic's retention deletes it. "
            "At 1 it is lost: raise retention.ms of the topic, then let {label:consumer} catch up."
        ),
    )
