"""Detectability of drops (statistical power): the drop that pages within a day in nine of ten, and false alarms."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from collector.alerting.rules.targets import Target, detector, segment_dimensions, targets, unalerted, with_budget
from collector.config.configured import Config
from collector.config.settings import PlannedRate
from collector.export.segments import count_segments
from collector.statistics.incident import DropDetector
from collector.wording import figure, hours, plural

DEVIATION = 0.27
"""The standard deviation of scores of a judge that gives five levels, mostly high ones; larger than usual."""
ASSUMED_PER_HOUR = 100.0
"""The evaluations an hour that are assumed if no traffic is configured."""
_SPARE, _NEAR, _DROP = 0.03, 0.01, 0.05
"""The usual and the recommended distance of a mean from its target, and the drop whose delays by both are compared."""


def alert_lines(config: Config) -> Iterator[str]:
    """Lines of the plan: each score's target and the drop that is detected, and the false alarms to expect."""
    every = targets(config)
    alerts, segments = config.settings.alerts, count_segments(segment_dimensions(config))
    for target in every:
        name = f"{target.monitor}/{target.evaluator}"
        if target in unalerted(every):
            yield f"alerts     {name}: no score alert: set a threshold, or add it to alerts.targets"
        if target.mean is None:
            continue
        detectable = _describe(target, detector(target, every, alerts, segments), alerts.page_standard_errors)
        yield f"alerts     {name}: target {_two_decimals(target.mean)}; {detectable}"
        yield from _nearer_target(target, detector(target, every, alerts, segments), alerts.page_standard_errors)
    yield from _threshold_lines(every, config)
    if any(target.mean is not None and target.monitor in with_budget(config) for target in every):
        yield "alerts     if a budget leaves a quarter of the evaluations, a drop must be twice as large to page"
    rates = [config.settings.monitors[target.monitor].rate for target in every if target.mean is not None]
    if any(isinstance(rate, PlannedRate) for rate in rates):
        yield (
            "alerts     sample: auto makes as many evaluations as its error needs. Those may be far fewer "
            "than all; small drops then page later"
        )
    if series := segments * sum(target.mean is not None for target in every):
        yield (
            f"alerts     the drop detector raises at most one false alarm per {alerts.false_alarm_days:g} days "
            f"over {plural(series, 'series', 'series')}, if means keep their targets and no conversation lasts for "
            "more than a week or pauses for a day"
        )
        yield (
            f"           the window test (at {alerts.page_standard_errors:g} standard errors) raises a false one "
            "every 1 to 20 months if a mean stays exactly at its target, and almost none if it stays 0.03 better"
        )


def _threshold_lines(every: Sequence[Target], config: Config) -> Iterator[str]:
    """A hint for targets that follow from thresholds: a mean that falls to the threshold does not alert."""
    named = {name: monitor.alerts.targets for name, monitor in config.settings.monitors.items()}
    scored = [(target, target.mean) for target in every if target.mean is not None and target.label is None]
    unnamed = [one for one in scored if one[0].source not in named[one[0].monitor]]
    if not unnamed:
        return
    names = ", ".join(
        f"{target.monitor}/{target.evaluator} ({'above' if target.lower_is_better else 'below'} {_two_decimals(mean)})"
        for target, mean in unnamed
    )
    yield f"alerts     {names}: without a target, the threshold is the target;"
    yield "           `evalstream plan targets` proposes one nearer to the mean"


def _describe(target: Target, drop_detector: DropDetector, page: float) -> str:
    hourly, known = _hourly(target)
    remedy = " (set alerts.turns_per_hour)" if target.scope == "turn" and not known else ""
    values = "audits" if target.audited else "evaluations"
    basis = f"at {'' if known else 'an assumed '}{figure(hourly)} {values}/h{remedy}"
    binary = target.label is not None
    gap = smallest_detectable_drop(drop_detector, 24.0 * hourly, page, clustered=False, binary=binary)
    most = drop_detector.shortfall(1.0, 1.0 if drop_detector.lower_is_better else 0.0)
    if gap > most:
        return f"{basis} no drop is detected within 24 h: raise the sampling rate"
    half = evaluations_until_page(drop_detector, gap, page, MEDIAN, binary=binary) / hourly
    change = "rise" if drop_detector.lower_is_better else "drop"
    text = (
        f"{basis} a lasting {change} to {_end(drop_detector, gap)} pages within {hours(half)} in half of the "
        "cases, and within 24 h in 9 of 10"
    )
    if target.scope == "conversation":
        return text
    clustered = smallest_detectable_drop(drop_detector, 24.0 * hourly, page, clustered=True)
    reached = f"only a {change} to {_end(drop_detector, clustered)} does" if clustered <= most else f"no {change} pages"
    return f"{text}; if all turns of a conversation score alike, {reached}"


def _nearer_target(target: Target, known: DropDetector, page: float) -> Iterator[str]:
    """The delay of a small drop by this target, and by one that is nearer to the mean, by the same model."""
    sign = -1.0 if known.lower_is_better else 1.0
    nearer = replace(known, target=round(known.target + sign * (_SPARE - _NEAR), 6))
    if not 0.0 <= known.target + sign * _SPARE <= 1.0:
        return
    hourly, _ = _hourly(target)
    now, then = (
        evaluations_until_page(by, _DROP - spare, page, MEDIAN, binary=target.label is not None) / hourly
        for by, spare in ((known, _SPARE), (nearer, _NEAR))
    )
    mean, end = (_two_decimals(round(known.target + sign * at, 6)) for at in (_SPARE, _SPARE - _DROP))
    changes = "rises" if known.lower_is_better else "falls"
    yield (
        f"           example: if the mean is {mean} and {changes} to {end}, the alert pages after about {hours(now)}; "
        f"with a target of {_two_decimals(nearer.target)}, after about {hours(then)}"
    )


def _hourly(target: Target) -> tuple[float, bool]:
    """The evaluations an hour, and whether they are configured."""
    if target.turns_per_hour and target.scope == "turn":
        return target.turns_per_hour * target.sample, True
    return ASSUMED_PER_HOUR, False


def _end(of: DropDetector, gap: float) -> str:
    """The mean after a fall, with two decimals, or as many as distinguish it from the target."""
    end = of.target + gap if of.lower_is_better else of.target - gap
    return f"{end:.{max(2, math.ceil(-math.log10(gap)))}f}"


def _two_decimals(mean: float) -> str:
    return f"{mean:.2f}" if round(mean, 2) == mean else f"{mean:g}"


@dataclass(frozen=True, slots=True)
class DelayModel:
    """The number of evaluations until a page: `per_variance` · variance / gap² + `fixed`, in a share of all cases.

    Fitted to the simulation in tests/bench/ALERTS.md (`tests/bench/drop_detection.py --only delays`), within a factor
    of two. The test of the mean needs so many at four standard errors; the drop detector 2.6 times its threshold in
    half of all cases. Whichever is earlier pages.
    """

    per_variance: float
    fixed: float

    def of_variance(self, of: DropDetector, page: float) -> float:
        """Evaluations for each variance / gap²."""
        slower = self.per_variance / MEDIAN.per_variance
        return min(self.per_variance * (page / 4.0) ** 2, 2.6 * of.threshold * slower)


MEDIAN, NINE_OF_TEN = DelayModel(22.0, 45.0), DelayModel(42.0, 30.0)
CLUSTERING = 2.5
"""The factor on the number of evaluations if half of the variance lies between conversations of 3 turns, simulated with
scores of 0 or 1."""


def evaluations_until_page(
    of: DropDetector, gap: float, page: float, model: DelayModel, *, clustered: bool = False, binary: bool = False
) -> float:
    """Evaluations after a mean has fallen `gap` beyond its target until something pages, in a share of all cases."""
    variance = _variance(of, clustered=clustered, binary=binary)
    return model.of_variance(of, page) * variance / gap**2 + _fixed(model, clustered=clustered)


def smallest_detectable_drop(
    of: DropDetector, evaluations: float, page: float, *, clustered: bool, binary: bool = False
) -> float:
    """The distance from its target at which a mean pages in 9 of 10 cases, within `evaluations`.

    Infinite with too few evaluations. `binary` scores are 0 or 1, with all the variance that a mean allows.
    """
    left = evaluations - _fixed(NINE_OF_TEN, clustered=clustered)
    if left <= 0.0:
        return math.inf
    return math.sqrt(NINE_OF_TEN.of_variance(of, page) * _variance(of, clustered=clustered, binary=binary) / left)


def _fixed(model: DelayModel, *, clustered: bool) -> float:
    """The advice if no fall is large enough to be detected; a window needs so many conversations, not turns."""
    return model.fixed * (CLUSTERING if clustered else 1.0)


def _variance(of: DropDetector, *, clustered: bool, binary: bool) -> float:
    largest = max(0.0025, of.target * (1.0 - of.target))
    return CLUSTERING * largest if clustered else largest if binary else min(DEVIATION**2, largest)
