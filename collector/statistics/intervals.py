"""The 95 % interval of a mean of scores in 0..1, also of few scores: what every "±" shows.

With n effective conversations, mean m and standard error e, the variance of a conversation is a share r of the largest
that scores with this mean can have, m (1 - m), as scores of 0 and 1 have:

    r = (n · n e² / (m (1 - m)) + 3) / (n + 3)

The 3 is there because a few equal scores have no variance, and do not prove that there is none. The interval is the
exact binomial one (Clopper and Pearson 1934) at n / r trials, as in Korn and Graubard (1998) for samples with weights
and clusters. If all scores are at the same end of the scale, it is one-sided. It is within 0..1, and for many scores it
is m ± 1.96 e. `tests/unit/statistics/test_intervals.py` measures how often it covers.
"""

import math

from collector.statistics.certificate import upper_limit
from collector.wording import at_least, at_most

PRIOR = 3.0
"""The number of conversations whose weight draws a variance towards the largest possible one."""
_FLAT = 1e-9
_SYMMETRIC = 0.2
"""An interval is shown as ± if its ends are off by at most this share of its width; the page uses the same value."""

Z = 1.959964
"""The standard errors on either side of a mean that make 95 % with many scores."""
UNSEEN = 1.5
"""The squared disagreements of two judges that a sample without disagreements may have missed. With it, intervals of
pass and fail cover 92 to 100 % (`tests/unit/statistics/test_intervals.py`), even where about one disagreement is
expected in the sample."""
MeanInterval = tuple[float, float]
"""The low and the high end of a mean's 95 % interval."""


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
    """A mean with its 95 % interval: `0.812 (95 %: ± 0.009)`; the ends if it is not symmetric, only one end if all
    scores are equal.
    """
    low, high = mean_interval(mean, error, number)
    if high == 1.0 and mean >= 1.0:
        return f"{mean:.3f} (95 %: at least {at_least(low)})"
    if low == 0.0 and mean <= 0.0:
        return f"{mean:.3f} (95 %: at most {at_most(high)})"
    if abs(high + low - 2.0 * mean) < _SYMMETRIC * (high - low):
        return f"{mean:.3f} {plus_minus(max(high - mean, mean - low))}"
    return f"{mean:.3f} (95 %: {low:.2f} to {high:.2f})"


def change_half(before: tuple[float, float, float], after: tuple[float, float, float]) -> float:
    """The distance to the farther end of the interval of a change of a mean; of both, what `mean_interval` takes.

    The squares of the distances to the means' ends are added (Newcombe 1998): equal scores do not prove that nothing
    varies.
    """
    (low, high), (low_after, high_after) = mean_interval(*before), mean_interval(*after)
    fall = math.hypot(after[0] - low_after, high - before[0])
    return max(fall, math.hypot(high_after - after[0], before[0] - low))


def plus_minus(half: float, digits: int = 3) -> str:
    """The distance to the farther end of a 95 % interval: `(95 %: ± 0.009)`."""
    return f"(95 %: ± {half:.{digits}f})"


def bounds_of_all(mean: float, unscored: float) -> MeanInterval:
    """The least and the largest possible mean of all, if a share `unscored` has no score (Manski 1989).

    Failures may depend on the answer, as when a judge refuses bad ones; then only these bounds hold.
    """
    low = mean * (1.0 - unscored)
    return low, low + unscored


def share_interval(share: float, number: float) -> MeanInterval:
    """The interval of a share among an effective number (Wilson 1927), also for shares of 0 and 1."""
    spread = Z**2 / number
    middle = (share + spread / 2.0) / (1.0 + spread)
    half = Z * math.sqrt(share * (1.0 - share) / number + spread / (4.0 * number)) / (1.0 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)
