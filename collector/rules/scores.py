"""Rules about scores: means with their errors, and the alerts that hold them to their targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collector.config.alerts import AlertSettings, Burn
from collector.detection import FLOOR
from collector.rules import series
from collector.rules.model import Alert, Fact, Group, Recording, Severity, Timing, selector
from collector.rules.targets import Target
from collector.telemetry import (
    ESTIMATOR_W,
    ESTIMATOR_W2,
    ESTIMATOR_W2Y,
    ESTIMATOR_W2Y2,
    ESTIMATOR_WY,
    VERDICT_WEIGHT,
    VERDICTS,
)

COUNTERS = {
    "w": ESTIMATOR_W.name,
    "wy": ESTIMATOR_WY.name,
    "w2": ESTIMATOR_W2.name,
    "w2y": ESTIMATOR_W2Y.name,
    "w2y2": ESTIMATOR_W2Y2.name,
}
WINDOWS = {"15m": 900.0, "1h": 3600.0, "6h": 21600.0, "24h": 86400.0}
BELOW, BURN = "EvalstreamScoreBelowTarget", "EvalstreamPassBudgetBurn"


def score_groups(
    targets: Sequence[Target], alerts: AlertSettings, timing: Timing, by: Sequence[str]
) -> Iterator[Group]:
    """Means and pass shares of every window, and the alerts on them."""
    rules: list[Recording | Alert] = [*_increases(timing, by), *_means(), *_pass_shares(targets, timing, by)]
    for target in targets:
        rules += _target_rules(target, alerts, by, timing)
    yield Group("evalstream-scores", timing.seconds(60.0), tuple(rules))


def _increases(timing: Timing, by: Sequence[str]) -> Iterator[Recording]:
    for window, length in WINDOWS.items():
        for key, counter in COUNTERS.items():
            yield Recording(
                series.ESTIMATOR_INCREASES[key],
                f"sum by ({', '.join(by)}) (increase({counter}[{timing.text(length)}]))",
                {"window": window},
            )


def _means() -> Iterator[Recording]:
    sums = series.ESTIMATOR_INCREASES
    mean = series.SCORE_MEAN
    yield Recording(mean, f"{sums['wy']} / ({sums['w']} > 0)")  # no scores: no mean
    variance = f"{sums['w2y2']} - 2 * {mean} * {sums['w2y']} + {mean} ^ 2 * {sums['w2']}"
    yield Recording(
        series.SCORE_STDERR,
        f"sqrt(clamp_min({variance}, 0) + {FLOOR:.4f} * {sums['w2']}) / {sums['w']}",
    )
    yield Recording(series.SCORE_N_EFF, f"{sums['w']} ^ 2 / ({sums['w2']} > 0)")


def _pass_shares(targets: Sequence[Target], timing: Timing, by: Sequence[str]) -> Iterator[Recording]:
    windows = dict(WINDOWS)
    for burn in _burns(targets):
        windows |= {_window(burn.long): burn.long, _window(burn.short): burn.short}
    for window, length in windows.items():
        counter = f"{VERDICT_WEIGHT.name}%s[{timing.text(length)}]"
        grouped = f"sum by ({', '.join(by)})"
        passing = f"{grouped} (increase({counter % selector(verdict='pass')}))"
        yield Recording(
            series.PASS_SHARE, f"{passing} / ({grouped} (increase({counter % ''})) > 0)", {"window": window}
        )


def _burns(targets: Sequence[Target]) -> list[Burn]:
    return [burn for target in targets if target.objective is not None for burn in target.burns]


def _window(seconds: float) -> str:
    return Timing().text(seconds)


def _target_rules(
    target: Target, alerts: AlertSettings, by: Sequence[str], timing: Timing
) -> Iterator[Recording | Alert]:
    where = {"evaluator": target.evaluator, "monitor": target.monitor}
    if target.mean is not None:
        yield Recording(series.SCORE_TARGET, f"vector({target.mean:g})", where)
        yield _below(target, target.mean, alerts.page, "page", alerts.min_n, by)
        yield _below(target, target.mean, alerts.warn, "warning", alerts.min_n, by)
    if target.objective is not None:
        yield Recording(series.PASS_OBJECTIVE, f"vector({target.objective:g})", where)
        for burn in target.burns:
            yield _burn(target, target.objective, burn, alerts.min_n, by, timing)


def _below(target: Target, mean: float, errors: float, severity: Severity, n: float, by: Sequence[str]) -> Alert:
    """The mean is on the wrong side of its target by so many standard errors, in any window."""
    chosen = selector(evaluator=target.evaluator, monitor=target.monitor)
    margin = f"{errors:g} * {series.SCORE_STDERR}{chosen}"
    wrong = f"> {mean:g} + {margin}" if target.lower_is_better else f"< {mean:g} - {margin}"
    side = "above" if target.lower_is_better else "below"
    return Alert(
        name=BELOW,
        expr=f"{series.SCORE_MEAN}{chosen} {wrong} and {series.SCORE_N_EFF}{chosen} >= {n:g}",
        severity=severity,
        board="quality",
        labels={"evaluator": target.evaluator, "monitor": target.monitor},
        summary="{label:evaluator} of {label:monitor}: the mean score is " + side + f" its target of {mean:g}",
        description=(
            "Over {label:window} the mean of {label:evaluator} ({label:monitor}) is {value} ± {error} (standard error) "
            f"from {{n}} effective conversations; the target is {mean:g}. That is more than {errors:g} standard errors "
            "on the wrong side. If EvalstreamJudgeShift fires as well, it is the judge that has moved."
        ),
        facts={
            "error": Fact(series.SCORE_STDERR, (*by, "window")),
            "n": Fact(series.SCORE_N_EFF, (*by, "window")),
        },
    )


def _burn(target: Target, objective: float, burn: Burn, n: float, by: Sequence[str], timing: Timing) -> Alert:
    """The error budget is used up too fast, over a long and a short window."""
    chosen = {"evaluator": target.evaluator, "monitor": target.monitor}
    grouped = ", ".join(by)
    limit = burn.factor * (1.0 - objective)

    def failing(seconds: float) -> str:
        return f"(1 - {series.PASS_SHARE}{selector(**chosen, window=_window(seconds))}) > {limit:.6g}"

    count = f"sum by ({grouped}) (increase({VERDICTS.name}{selector(**chosen)}[{timing.text(burn.long)}]))"
    return Alert(
        name=BURN,
        expr=f"{failing(burn.long)} and on ({grouped}) {failing(burn.short)} and on ({grouped}) {count} >= {n:g}",
        severity="warning",
        board="quality",
        labels={**chosen, "window": _window(burn.long)},
        summary="{label:evaluator} of {label:monitor}: too many scores fail their threshold",
        description=(
            "Over {label:window} a share of {value} of the scores of {label:evaluator} ({label:monitor}) failed; over "
            f"24h the mean score is {{mean}} ± {{error}}. The objective leaves {1.0 - objective:.3g}, and this is more "
            f"than {burn.factor:g} times as much."
        ),
        facts={
            "mean": Fact(series.SCORE_MEAN, tuple(by), {"window": "24h"}),
            "error": Fact(series.SCORE_STDERR, tuple(by), {"window": "24h"}),
        },
    )
