"""Means that audits correct, as recording rules: the formula of `collector.statistics.audited_sums`, in PromQL.

They have the series names of any other mean, with the evaluator's name by audits (`helpful:audit`), so target
alerts, doubts and dashboards work for them as for other means. Their standard error accounts for the number of audits,
so it needs no lower bound from the last day's scores, as those of other means do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from collector.alerting.rules import series
from collector.alerting.rules.model import RecordingRule, Timing
from collector.alerting.rules.promql import growth
from collector.records.audits import FEWEST_AUDITS
from collector.statistics.audited_sums import product_name
from collector.statistics.bounded_sums import VARIANCE_FLOOR
from collector.statistics.intervals import UNSEEN
from collector.telemetry.series import AUDITS, ESTIMATOR_CLIPPED

_FLAT = 1e-12


@dataclass(frozen=True, slots=True)
class CorrectedMeans:
    """PromQL of the corrected means, their standard errors and their effective numbers of audits, in every window."""

    mean: str
    error: str
    effective_number: str
    lost: str
    """The share of a day's audits without a score."""


def part_rules() -> Iterator[RecordingRule]:
    """The parts of the corrected means. They are recorded before the means, so that both come from the same sums."""
    a, w = _sum("a"), _sum("w")
    yield RecordingRule(series.AUDIT_NUMBER, f"{a} ^ 2 / ({_sum('a_a')} > 0) >= {FEWEST_AUDITS}")
    there = f"and {series.AUDIT_NUMBER}"
    yield RecordingRule(series.AUDIT_EXPENSIVE, f"{_sum('ay')} / {a} {there}")
    yield RecordingRule(series.AUDIT_CHEAP, f"{_sum('ax')} / {a} {there}")
    yield RecordingRule(series.AUDIT_ALL, f"{_sum('wx')} / ({w} > 0) {there}")
    expensive, cheap = ("ay", series.AUDIT_EXPENSIVE, "a"), ("ax", series.AUDIT_CHEAP, "a")
    every = ("wx", series.AUDIT_ALL, "w")
    yield RecordingRule(series.AUDIT_ALONE, f"clamp_min({_product(expensive, expensive)} / {a} ^ 2, 0)")
    yield RecordingRule(
        series.AUDIT_SHARED, f"{_product(expensive, cheap)} / {a} ^ 2 - {_product(expensive, every)} / {a} / {w}"
    )
    yield RecordingRule(
        series.AUDIT_SPREAD,
        f"{_product(cheap, cheap)} / {a} ^ 2 - 2 * {_product(cheap, every)} / {a} / {w}"
        f" + {_product(every, every)} / {w} ^ 2",
    )
    power = series.AUDIT_POWER
    yield RecordingRule(
        power, f"{series.AUDIT_SHARED} / ({series.AUDIT_SPREAD} > {_FLAT:.0e}) or 0 * {series.AUDIT_EXPENSIVE}"
    )
    squares, floor, base = _variances()
    yield RecordingRule(series.AUDIT_GAIN, f"({series.AUDIT_ALONE} + {floor}) / ({squares} + {floor} + {base})")


def corrected_means(timing: Timing) -> CorrectedMeans:
    """The corrected means, computed from the parts."""
    power, number = series.AUDIT_POWER, series.AUDIT_NUMBER
    ratio = f"({series.AUDIT_EXPENSIVE} - {power} * {series.AUDIT_CHEAP})"
    bias = f"({_sum('a_ay')} - {power} * {_sum('a_ax')} - {ratio} * {_sum('a_a')}) / {_sum('a')} ^ 2"
    squares, floor, base = _variances()
    seen, expensive = f"({squares} * {number} / ({number} - 2))", series.AUDIT_EXPENSIVE
    unseen = f"({UNSEEN} * {series.AUDIT_ALONE} / ({number} * ({expensive} * (1 - {expensive}) + {_FLAT:.0e})))"
    return CorrectedMeans(
        mean=f"{ratio} + {power} * {series.AUDIT_ALL} + {bias}",
        error=f"sqrt(({seen} > {unseen} or {unseen}) + {floor} + {base})",
        effective_number=number,
        lost=_lost(timing),
    )


def _lost(timing: Timing) -> str:
    """The share of lost audits. Every audit counts the same, as the draw does not depend on the score."""
    grown = f"sum by (evaluator, monitor) (increase({AUDITS.name}%s[{timing.text(86400.0)}]))"
    every, without = grown % "", grown % '{outcome!="scored"}'
    return f'label_replace(({without} or 0 * {every}) / ({every} > 0), "evaluator", "$1:audit", "evaluator", "(.*)")'


def _variances() -> tuple[str, str, str]:
    """The variance of a corrected mean; its floor; and, if people correct the mean by audits, the variance of that
    mean.
    """
    power, number = series.AUDIT_POWER, series.AUDIT_NUMBER
    squares = f"clamp_min({series.AUDIT_ALONE} - {power} * {series.AUDIT_SHARED}, 0)"
    return squares, f"{VARIANCE_FLOOR:.4f} / {number}", f"({power} ^ 2 * {_sum(series.BASE)} or 0 * {number})"


def clipped_rules(windows: dict[str, float], timing: Timing, by: Sequence[str]) -> Iterator[RecordingRule]:
    """The share of the weight that is left out of corrected means."""
    for window, length in windows.items():
        clipped = growth(ESTIMATOR_CLIPPED.name, timing.text(length), by)
        scored = f'sum by ({", ".join(by)}) ({series.AUDITED_INCREASE}{{sum="w",window="{window}"}})'
        yield RecordingRule(series.SCORE_CLIPPED, f"{clipped} / ({scored} + {clipped} > 0)", {"window": window})


def _sum(name: str) -> str:
    """One of the sums, without the label that has its name."""
    return f'sum without (sum) ({series.AUDITED_INCREASE}{{sum="{name}"}})'


def _product(one: tuple[str, str, str], other: tuple[str, str, str]) -> str:
    """The sum over conversations of the product of two residuals, as `collector.statistics.audited_sums` has them."""
    return (
        f"({_sum(product_name(one[0], other[0]))} - {other[1]} * {_sum(product_name(one[0], other[2]))} - {one[1]} * "
        f"{_sum(product_name(one[2], other[0]))} + {one[1]} * {other[1]} * {_sum(product_name(one[2], other[2]))})"
    )
