"""Detectability of drops (statistical power): the smallest drop that is detected within a day, and the false alarms."""

from __future__ import annotations

import math
from collections.abc import Iterator

from collector.alerting.detection import DropDetector
from collector.alerting.rules.targets import Target, detector, segment_count, targets
from collector.config.loading import Config
from collector.wording import plural

DEVIATION = 0.27
"""Standard deviation of scores of a judge that gives five levels, mostly high ones; more than most have."""
ASSUMED_PER_HOUR = 100.0
"""Evaluations an hour that are assumed where no traffic is configured."""


def alert_lines(config: Config) -> Iterator[str]:
    """Lines of the plan: each score's target and the drop that is detected, and the false alarms to expect."""
    every = targets(config)
    alerts, segments = config.settings.alerts, segment_count(config)
    for target in every:
        name = f"{target.monitor}/{target.evaluator}"
        if target.mean is None:
            yield f"alerts     {name}: no score alert: set a threshold, or add it to alerts.targets"
            continue
        detectable = _describe(target, detector(target, every, alerts, segments), alerts.page_standard_errors)
        yield f"alerts     {name}: target {_two_decimals(target.mean)}; {detectable}"
    series = segments * sum(target.mean is not None for target in every)
    if series:
        yield (
            f"alerts     false alarms of the drop detector: at most one page per {alerts.false_alarm_days:g} days "
            f"over {plural(series, 'series', 'series')} while means are at target"
        )
        yield (
            f"           false alarms of the mean test (at {alerts.page_standard_errors:g} standard errors): "
            "expect one per 1–20 months when a mean is exactly at target, practically none at +0.03"
        )


def _describe(target: Target, of: DropDetector, page: float) -> str:
    known = target.turns_per_hour is not None and target.scope == "turn"
    hourly = target.turns_per_hour * target.sample if known and target.turns_per_hour else ASSUMED_PER_HOUR
    basis = f"at {hourly:,.4g} evaluations/h" if known else f"at an assumed {hourly:g} evaluations/h{_remedy(target)}"
    gap = smallest_detectable_drop(of, 24.0 * hourly, page)
    if gap > of.shortfall(1.0, 1.0 if of.lower_is_better else 0.0):
        return f"{basis} no drop is detected within 24 h: raise the sampling rate"
    change, end = ("rise", of.target + gap) if of.lower_is_better else ("drop", of.target - gap)
    return f"{basis} a lasting {change} to {_rounded(end, gap)} is detected within 24 h"


def _remedy(target: Target) -> str:
    return " (set alerts.turns_per_hour)" if target.scope == "turn" else ""


def _two_decimals(mean: float) -> str:
    return f"{mean:.2f}" if round(mean, 2) == mean else f"{mean:g}"


def _rounded(end: float, gap: float) -> str:
    """Two decimals, or as many as tell the end from the target."""
    return f"{end:.{max(2, math.ceil(-math.log10(gap)))}f}"


def smallest_detectable_drop(of: DropDetector, conversations: float, page: float) -> float:
    """How far on the wrong side of its target a mean must be for a page within a number of evaluated conversations.

    The drop detector needs about 2·deviation²·threshold/gap² of them (1.3 times that, from the sums alone); the test of
    the mean those at which the gap is `page` standard errors. The better of the two counts; simulations agree within a
    factor of 1.5 (deploy/docs/alerts.md). Conversations of several turns that are good or bad as a whole count as few
    more than one each.
    """
    deviation = min(DEVIATION, math.sqrt(max(0.0025, of.target * (1.0 - of.target))))
    by_evidence = deviation * math.sqrt(2.6 * of.threshold / conversations)
    by_mean = deviation * page / math.sqrt(conversations)
    return min(by_evidence, by_mean)
