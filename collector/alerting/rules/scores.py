"""Rules on scores: means with their standard errors, and the alerts on their targets."""

from collections.abc import Iterator, Sequence

from collector.alerting.rules import series
from collector.alerting.rules.agreement import by_proof, uncalibrated_alert
from collector.alerting.rules.audits import audit_rules, clipped_rules, mean_rules
from collector.alerting.rules.doubt import CAUSES, alerted, doubt_rule
from collector.alerting.rules.model import AlertingRule, Fact, RecordingRule, RuleGroup, Severity, Timing, selector
from collector.alerting.rules.people import people_rules
from collector.alerting.rules.states import MEMORY
from collector.alerting.rules.targets import Target
from collector.config.alerts import AlertSettings, BurnRate
from collector.statistics.audited_sums import PEOPLE_WINDOW
from collector.statistics.estimator import VARIANCE_FLOOR
from collector.telemetry import series as metrics

COUNTERS = {
    "w": metrics.ESTIMATOR_W.name,
    "wy": metrics.ESTIMATOR_WY.name,
    "w2": metrics.ESTIMATOR_W2.name,
    "w2y": metrics.ESTIMATOR_W2Y.name,
    "w2y2": metrics.ESTIMATOR_W2Y2.name,
}
WINDOWS = {"15m": 900.0, "1h": 3600.0, "6h": 21600.0, "24h": 86400.0}
BELOW, BURN, DOMINATED = "EvalstreamScoreBelowTarget", "EvalstreamPassBudgetBurn", "EvalstreamMeanDominated"
_FEW, _MANY_SCORES = 5, 100
"""Effective conversations that are too few for so many scores: one of them has at least a fifth of the weight."""
_BOUNDS = "With what has no score, the mean of all of the last hour is between {lowest} and {highest}. "
_MUCH_CLIPPED = 0.1
"""Share of the weight that may be left out of a mean."""


def score_groups(
    targets: Sequence[Target],
    alerts: AlertSettings,
    timing: Timing,
    by: Sequence[str],
    *,
    cascades: bool = False,
    people: bool = False,
) -> Iterator[RuleGroup]:
    """Means and pass shares of every window, and the alerts on them.

    Corrected means where there are `cascades`, and means by people where `people` label.
    """
    rules: list[RecordingRule | AlertingRule] = [
        *_increases(timing, by),
        *_means(by),
        *(_corrected_means(timing, by) if cascades else ()),
        *_audits(targets, timing, by, people=people),
        *_pass_shares(targets, timing, by),
    ]
    rules += _overlaps(timing, by)
    for target in targets:
        rules += _target_rules(target, alerts, by, timing)
    rules.append(_dominated(timing, by))
    yield RuleGroup("evalstream-scores", timing.seconds(60.0), tuple(rules))


def _increases(timing: Timing, by: Sequence[str]) -> Iterator[RecordingRule]:
    for window, length in WINDOWS.items():
        for name, counter in (
            *((series.ESTIMATOR_INCREASES[key], counter) for key, counter in COUNTERS.items()),
            (series.ESTIMATOR_CLIPPED_INCREASE, metrics.ESTIMATOR_CLIPPED.name),
            (series.SCORES_INCREASE, f"{metrics.SCORE.name}_count"),
        ):
            yield RecordingRule(
                name,
                f"sum by ({', '.join(by)}) (increase({counter}[{timing.text(length)}]))",
                {"window": window},
            )


def _means(by: Sequence[str]) -> Iterator[RecordingRule]:
    """Means and their standard errors, as in collector.statistics.mean_error."""
    sums = series.ESTIMATOR_INCREASES
    mean = series.SCORE_MEAN
    yield RecordingRule(mean, f"{sums['wy']} / ({sums['w']} > 0)")  # no scores: no mean
    variance = f"{sums['w2y2']} - 2 * {mean} * {sums['w2y']} + {mean} ^ 2 * {sums['w2']}"
    squares, scores, day = series.SCORE_SQUARES, series.SCORES_INCREASE, selector(window="24h")
    yield RecordingRule(squares, f"clamp_min({variance}, 0) + {VARIANCE_FLOOR:.4f} * {sums['w2']}")
    expected = f"{scores} * on ({', '.join(by)}) group_left () ({squares}{day} / ({scores}{day} > 0))"
    yield RecordingRule(
        series.SCORE_STDERR, f"sqrt(({squares} > {expected}) or {expected} or {squares}) / ({sums['w']} > 0)"
    )
    hour, here = f"{mean}{selector(window='1h')}", "on (evaluator, monitor) group_left ()"
    yield RecordingRule(series.SCORE_LOWEST, f"{hour} * {here} (1 - {series.UNSCORED_SHARE})")
    yield RecordingRule(series.SCORE_HIGHEST, f"{series.SCORE_LOWEST} + {here} {series.UNSCORED_SHARE}")
    clipped = series.ESTIMATOR_CLIPPED_INCREASE
    yield RecordingRule(series.SCORE_CLIPPED, f"{clipped} / ({sums['w']} + {clipped} > 0)")
    yield RecordingRule(series.SCORE_N_EFF, f"{sums['w']} ^ 2 / ({sums['w2']} > 0)")


def _corrected_means(timing: Timing, by: Sequence[str]) -> Iterator[RecordingRule]:
    """The means of cascades, corrected by what their second judges say, as in collector.export.corrected_sums."""
    sums, of = series.CORRECTED_INCREASES, series.ESTIMATOR_INCREASES
    for window, length in WINDOWS.items():
        for key, counter in (
            ("wy", metrics.CORRECTED_WY),
            ("w2y", metrics.CORRECTED_W2Y),
            ("w2y2", metrics.CORRECTED_W2Y2),
        ):
            increase = f"sum by ({', '.join(by)}) (increase({counter.name}[{timing.text(length)}]))"
            yield RecordingRule(sums[key], increase, {"window": window})
    shifted = f"{sums['wy']} / ({of['w']} > 0)"
    shift = f"max by ({', '.join(series.BY)}) ({metrics.CORRECTED_SHIFT.name})"
    yield RecordingRule(series.CORRECTED_MEAN, f"{shifted} - on ({', '.join(series.BY)}) group_left () {shift}")
    squares = f"{sums['w2y2']} - 2 * ({shifted}) * {sums['w2y']} + ({shifted}) ^ 2 * {of['w2']}"
    yield RecordingRule(series.CORRECTED_STDERR, f"sqrt(clamp_min({squares}, 0)) / ({of['w']} > 0)")


def _audits(targets: Sequence[Target], timing: Timing, by: Sequence[str], *, people: bool) -> Iterator[RecordingRule]:
    """Means that audits and people correct. People do once a mean is there to be corrected: the one of a minute ago."""
    audited = any(target.audited for target in targets)
    people = people and bool(targets)
    if audited:
        windows = WINDOWS | ({series.WEEK: PEOPLE_WINDOW} if people else {})
        yield from audit_rules(windows, timing, by)
        yield from clipped_rules(windows, timing, by)
    if people:
        yield from people_rules(targets, timing, by)
    if audited or people:
        yield from mean_rules()


def _pass_shares(targets: Sequence[Target], timing: Timing, by: Sequence[str]) -> Iterator[RecordingRule]:
    windows = dict(WINDOWS)
    for burn in _burns(targets):
        windows |= {_window(burn.long): burn.long, _window(burn.short): burn.short}
    for window, length in windows.items():
        counter = f"{metrics.VERDICT_WEIGHT.name}%s[{timing.text(length)}]"
        grouped = f"sum by ({', '.join(by)})"
        passing = f"{grouped} (increase({counter % selector(verdict='pass')}))"
        yield RecordingRule(
            series.PASS_SHARE, f"{passing} / ({grouped} (increase({counter % ''})) > 0)", {"window": window}
        )


def _overlaps(timing: Timing, by: Sequence[str]) -> Iterator[RecordingRule]:
    """The windows that hold scores of an incident that is over: their mean says nothing of now."""
    recovered = f"max by ({', '.join(by)}) (last_over_time({series.DROP_RECOVERED}[{timing.text(MEMORY)}]))"
    for window, length in WINDOWS.items():
        age = f"time() - {recovered} < {timing.seconds(length):g}"
        yield RecordingRule(series.WINDOW_OVERLAPS, age, {"window": window})


def _dominated(timing: Timing, by: Sequence[str]) -> AlertingRule:
    """Very few conversations decide what a mean is, by their length or by the weights that their sender claims."""
    labels = (*by, "window")
    few = f"{series.SCORE_N_EFF} < {_FEW} and {series.SCORES_INCREASE} >= {_MANY_SCORES}"
    return AlertingRule(
        name=DOMINATED,
        board="trust",
        expr=f'({few}) or {series.SCORE_CLIPPED}{{window="6h"}} > {_MUCH_CLIPPED:g}',
        severity="warning",
        hold=timing.seconds(300.0),
        summary="{label:evaluator} of {label:monitor}: very few conversations decide the mean",
        description=(
            "Over {label:window} the mean of {label:evaluator} ({label:monitor}) is {mean} from {n} effective "
            "conversations. A share of {clipped} of the weight is left out of it, as no conversation may outweigh the "
            "others. Either one is very long, or a trusted tracestate claims a very low sampling rate."
        ),
        facts={
            "mean": Fact(series.SCORE_MEAN, labels),
            "n": Fact(series.SCORE_N_EFF, labels),
            "clipped": Fact(series.SCORE_CLIPPED, labels),
        },
    )


def _burns(targets: Sequence[Target]) -> list[BurnRate]:
    return [burn for target in targets if target.objective is not None for burn in target.burns]


def _window(seconds: float) -> str:
    return Timing().text(seconds)


def _target_rules(
    target: Target, alerts: AlertSettings, by: Sequence[str], timing: Timing
) -> Iterator[RecordingRule | AlertingRule]:
    where = {"evaluator": target.evaluator, "monitor": target.monitor}
    if target.mean is not None:
        yield RecordingRule(series.SCORE_TARGET, f"vector({target.mean:g})", where)
        yield doubt_rule(target, alerts, timing)
        errors: dict[Severity, float] = {"page": alerts.page_standard_errors, "warning": alerts.warn_standard_errors}
        below = [_below(target, target.mean, error, how, alerts.min_conversations, by) for how, error in errors.items()]
        yield from by_proof(target, below)
        yield from uncalibrated_alert(target, timing)
    if target.objective is not None:
        yield RecordingRule(series.PASS_OBJECTIVE, f"vector({target.objective:g})", where)
        burns = [_burn(target, target.objective, burn, alerts.min_conversations, by, timing) for burn in target.burns]
        yield from by_proof(target, burns)


def _below(target: Target, mean: float, errors: float, severity: Severity, n: float, by: Sequence[str]) -> AlertingRule:
    """The mean is on the wrong side of its target by so many standard errors, in any window."""
    chosen = selector(evaluator=target.evaluator, monitor=target.monitor)
    sign, compared = ("+", ">") if target.lower_is_better else ("-", "<")
    margin = f"{errors:g} * {series.SCORE_STDERR}{chosen}"
    doubt = f"on (evaluator, monitor) group_left () {series.SCORE_DOUBT}{chosen}"
    wrong = f"{compared} {mean:g} {sign} {margin} {sign} {doubt}"
    side = "above" if target.lower_is_better else "below"
    return AlertingRule(
        name=BELOW,
        expr=f"{series.SCORE_MEAN}{alerted(target)} {wrong} and {series.SCORE_N_EFF}{chosen} >= {n:g}"
        f" unless {series.WINDOW_OVERLAPS}{chosen}",
        severity=severity,
        board="quality",
        labels={"evaluator": target.evaluator, "monitor": target.monitor},
        summary=f"{{label:evaluator}} of {{label:monitor}}: {target.measure} is {side} its target of {mean:g}",
        description=(
            "Over {label:window} the mean of {label:evaluator} ({label:monitor}) is {value} ± {error} (95 %) "
            f"from {{n}} effective conversations; the target is {mean:g}. That is more than {errors:g} standard errors "
            "on the wrong side. A share of {clipped} of the weight is left out of the mean, as no conversation may "
            f"outweigh the others. {'' if target.is_derived else _BOUNDS}"
            "Other firing alerts explain at most {doubt} of the distance to the target. "
            "{causes}"
        ),
        facts={
            "error": Fact(series.SCORE_STDERR, (*by, "window"), is_margin=True),
            "n": Fact(series.SCORE_N_EFF, (*by, "window")),
            "clipped": Fact(series.SCORE_CLIPPED, (*by, "window")),
            "lowest": Fact(series.SCORE_LOWEST, tuple(by), {"window": "1h"}),
            "highest": Fact(series.SCORE_HIGHEST, tuple(by), {"window": "1h"}),
            "doubt": Fact(series.SCORE_DOUBT, ("evaluator", "monitor")),
            "causes": CAUSES,
        },
    )


def _burn(
    target: Target, objective: float, burn: BurnRate, n: float, by: Sequence[str], timing: Timing
) -> AlertingRule:
    """The error budget is used up too fast, over a long and a short window."""
    chosen = {"evaluator": target.evaluator, "monitor": target.monitor}
    grouped = ", ".join(by)
    limit = burn.factor * (1.0 - objective)

    def failing(seconds: float) -> str:
        return f"(1 - {series.PASS_SHARE}{selector(**chosen, window=_window(seconds))}) > {limit:.6g}"

    count = f"sum by ({grouped}) (increase({metrics.VERDICTS.name}{selector(**chosen)}[{timing.text(burn.long)}]))"
    return AlertingRule(
        name=BURN,
        expr=f"{failing(burn.long)} and on ({grouped}) {failing(burn.short)} and on ({grouped}) {count} >= {n:g}",
        severity="warning",
        board="quality",
        labels={**chosen, "window": _window(burn.long)},
        summary="{label:evaluator} of {label:monitor}: too many scores fail their threshold",
        description=(
            "Over {label:window} a share of {value} of the scores of {label:evaluator} ({label:monitor}) failed; over "
            f"24h the mean score is {{mean}} ± {{error}}. The objective allows {1.0 - objective:.3g}; this is more "
            f"than {burn.factor:g} times as much."
        ),
        facts={
            "mean": Fact(series.SCORE_MEAN, tuple(by), {"window": "24h"}),
            "error": Fact(series.SCORE_STDERR, tuple(by), {"window": "24h"}, is_margin=True),
        },
    )
