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

_PRIOR = 3.0
_FLAT = 1e-9


Z = 1.959964
"""Standard errors on either side of a mean that make 95 % where scores are many."""
MeanInterval = tuple[float, float]
"""The low and the high end of where a mean lies with 95 %."""


def mean_interval(mean: float, error: float, number: float) -> MeanInterval:
    """The interval of a mean with this standard error, of `number` effective conversations, above 0."""
    mean = min(1.0, max(0.0, mean))
    largest = mean * (1.0 - mean)
    if largest < _FLAT:
        limit = upper_limit(0.0, number)
        return (1.0 - limit, 1.0) if mean > 0.5 else (0.0, limit)
    trials = number * (number + _PRIOR) / (number * number * error * error / largest + _PRIOR)
    return 1.0 - upper_limit((1.0 - mean) * trials, trials, 0.975), upper_limit(mean * trials, trials, 0.975)


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
