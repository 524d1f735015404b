"""The 95 % interval of a mean of scores in 0..1, also of few: what stands behind every "±".

With n effective conversations, mean m and standard error e, a conversation's variance is a share r of the largest that
scores with this mean can have, m (1 - m), which pass and fail have:

    r = (n · n e² / (m (1 - m)) + 3) / (n + 3)

Why the 3: a few equal scores have no variance, and are no proof of it. The interval is the exact binomial one (Clopper
and Pearson 1934) at n / r trials, as Korn and Graubard (1998) have it for samples with weights and clusters. If all
scores are at the same end of the scale, it is one-sided. It is within 0..1, and for many scores it is m ± 1.96 e.
`tests/unit/statistics/test_intervals.py` measures how often it covers.
"""

import math

from collector.statistics.certificate import upper_limit

PRIOR = 3.0
"""Conversations by which a variance is drawn towards the largest possible one."""
_FLAT = 1e-9
_SYMMETRIC = 0.2
"""The share of an interval's width by which its ends may be off, for it to be shown as ±; the page has the same."""

Z = 1.959964
"""Standard errors on either side of a mean that make 95 % where scores are many."""
UNSEEN = 1.5
"""Disagreements of two judges, squared, that a sample without any may have missed: with it, intervals of pass and fail
cover 92 to 100 % (`tests/unit/statistics/test_intervals.py`), where about one is expected to be drawn, too."""
MeanInterval = tuple[float, float]
"""The low and the high end of where a mean lies with 95 %."""


def mean_interval(mean: float, error: float, number: float) -> MeanInterval:
    """The interval of a mean with this standard error, of `number` effective conversations, above 0."""
    mean = min(1.0, max(0.0, mean))
    largest = mean * (1.0 - mean)
    if largest < _FLAT:
        limit = upper_limit(0.0, number)
        return (1.0 - limit, 1.0) if mean > 0.5 else (0.0, limit)
    trials = number * (number + PRIOR) / (number * number * error * error / largest + PRIOR)
    return 1.0 - upper_limit((1.0 - mean) * trials, trials, 0.975), upper_limit(mean * trials, trials, 0.975)


def mean_text(mean: float, error: float, number: float) -> str:
    """A mean with its 95 % interval: `0.812 ± 0.009`, where it is not symmetric its ends, of equal scores only one."""
    low, high = mean_interval(mean, error, number)
    if high == 1.0 and mean >= 1.0:
        return f"{mean:.3f} (at least {low:.2f})"
    if low == 0.0 and mean <= 0.0:
        return f"{mean:.3f} (at most {high:.2f})"
    if abs(high + low - 2.0 * mean) < _SYMMETRIC * (high - low):
        return f"{mean:.3f} ± {(high - low) / 2.0:.3f}"
    return f"{mean:.3f} ({low:.2f} to {high:.2f})"


def bounds_of_all(mean: float, unscored: float) -> MeanInterval:
    """The least and the largest mean in 0..1 of all, where a share `unscored` of them has no score (Manski 1989).

    Failures may depend on the answer, as where a judge refuses bad ones: then only these bounds hold.
    """
    low = mean * (1.0 - unscored)
    return low, low + unscored


def share_interval(share: float, number: float) -> MeanInterval:
    """The interval of a share of an effective number (Wilson 1927); it is there without a miss, too."""
    spread = Z**2 / number
    middle = (share + spread / 2.0) / (1.0 + spread)
    half = Z * math.sqrt(share * (1.0 - share) / number + spread / (4.0 * number)) / (1.0 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)
