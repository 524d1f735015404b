"""What alerts can see: the smallest drop found within a day, and how often they are wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator

from collector.config.loading import Config
from collector.detection import Detector
from collector.rules.targets import Target, detector, segment_count, targets

DEVIATION = 0.27
"""Standard deviation of scores of a judge that gives five levels, mostly high ones; more than most have."""
EXAMPLE = 100.0
"""Judged an hour, where no traffic is configured."""


def alert_lines(config: Config) -> Iterator[str]:
    """Lines of the plan: what each alert on scores is held to and finds, and the false alarms to expect."""
    held = targets(config)
    alerts, segments = config.settings.alerts, segment_count(config)
    for target in held:
        name = f"{target.monitor}/{target.evaluator}"
        if target.mean is None:
            yield f"alerts     {name}: none on scores; it wants a threshold, or a place in the monitor's alerts.targets"
            continue
        found = _sight(target, detector(target, held, alerts, segments), alerts.page)
        yield f"alerts     {name}: mean held to {target.mean:g}; {found}"
    series = segments * sum(target.mean is not None for target in held)
    if series:
        yield (
            f"alerts     false alarms: while means keep their targets, at most one page about a drop in "
            f"{alerts.false_alarm_days:g} days over all {series} series; at {alerts.page:g} standard errors about one "
            "in 1 to 20 months for a mean exactly at its target, and none to speak of for one that is 0.03 better"
        )


def _sight(target: Target, of: Detector, page: float) -> str:
    known = target.turns_per_hour is not None and target.scope == "turn"
    hourly = target.turns_per_hour * target.sample if known and target.turns_per_hour else EXAMPLE
    missing = "alerts.turns_per_hour unknown" if target.scope == "turn" else "how many conversations come is unknown"
    gap = smallest_gap(of, 24.0 * hourly, page)
    if gap > of.shortfall(1.0, 1.0 if of.lower_is_better else 0.0):
        seen = "no drop at all is found within a day: judge more"
    else:
        end = of.target + gap if of.lower_is_better else of.target - gap
        seen = f"found within a day, if it goes to {end:.2f} and stays"
    basis = f"at {hourly:.4g} judged an hour" if known else f"at {hourly:g} judged an hour ({missing})"
    return f"{basis}, {seen}"


def smallest_gap(of: Detector, conversations: float, page: float) -> float:
    """How far on the wrong side of its target a mean has to be for a page within so many judged conversations.

    The drop detector needs about 2·deviation²·threshold/gap² of them (1.3 times that, from the sums alone); the test of
    the mean those at which the gap is `page` standard errors. The better of the two counts; simulations agree within a
    factor of 1.5 (deploy/ALERTS.md). Conversations of several turns that are good or bad as a whole count as few more
    than one each.
    """
    deviation = min(DEVIATION, math.sqrt(max(0.0025, of.target * (1.0 - of.target))))
    by_evidence = deviation * math.sqrt(2.6 * of.threshold / conversations)
    by_mean = deviation * page / math.sqrt(conversations)
    return min(by_evidence, by_mean)
