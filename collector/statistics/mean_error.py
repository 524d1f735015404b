"""The standard error of a window's mean, even if the heaviest scores are missing from the window.

With the residual squares r = Σ (b - mean · a)² + v · Σ a² over a window's conversations (a, b and the five sums as in
`collector.statistics.bounded_sums`, v = `VARIANCE_FLOOR`), N its number of scores and W the sum of its weights,

    error = √ max(r, N / N_day · r_day) / W

where r_day and N_day are those of the last 24 hours. The first term is Hájek's estimator by Taylor's linearisation. It
knows only the scores that came. Suppose an earlier sampler keeps all errors and a twentieth of the rest. An hour
without any of the rest has 40 errors of weight 1: their mean is 0.3, they agree with each other, and they are 40
effective conversations, more than in an hour with some of the heavy ones. Ratios are known to fail where the sample's
weights are smaller than usual (Royall and Cumberland 1981, An empirical study of the ratio estimator and estimators of
its variance). The second term is what N scores of this series are expected to add, however many heavy ones came: the
variance of a sum of a Poisson number of terms is their number times the mean of their squares (Campbell's theorem). It
counts scores and not weight, because the weight is what is missing. The larger term counts, so the second never makes
an error smaller.

In the first hours of a series the day is no longer than the windows, and nothing is known of missing scores.
`tests/bench/alert_streams.py` measures it.
"""

import math
from dataclasses import dataclass, field

from collector.statistics.bounded_sums import Sums


@dataclass(frozen=True, slots=True)
class WindowSums:
    """The sums of a window, and the number of its scores."""

    sums: Sums = field(default_factory=Sums)
    scores: float = 0.0

    def stderr(self, day: "WindowSums") -> float:
        """The standard error of the window's mean; `day` is the window of the last 24 hours. There must be a score."""
        expected = self.scores / day.scores * day.sums.squares if day.scores else 0.0
        return math.sqrt(max(self.sums.squares, expected)) / self.sums.w
