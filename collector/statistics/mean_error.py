"""The standard error of a window's mean, where what is missing from the window may weigh most.

With the residual squares r = Σ (b - mean · a)² + v · Σ a² over a window's conversations (a, b and the five sums as in
`collector.statistics.bounded_sums`, v = `VARIANCE_FLOOR`), N its number of scores and W the sum of its weights,

    error = √ max(r, N / N_day · r_day) / W

where r_day and N_day are those of the last 24 hours. The first is Hájek's estimator by Taylor's linearisation. It knows
only what came. If a sampler before us keeps all errors and a twentieth of the rest, an hour without any of the rest
is 40 errors of weight 1: their mean is 0.3, they agree with each other, and they are 40 effective conversations, more
than an hour has that holds some of the heavy ones. That it fails just where the sample's weights are smaller than usual
is known of ratios (Royall and Cumberland 1981, An empirical study of the ratio estimator and estimators of its
variance). The second is what N scores of this series are expected to add: the variance of a sum of a Poisson number of
terms is their number times the mean of their squares (Campbell's theorem), whatever has come of the heavy ones. Why
per score and not per weight: it is the weight that is missing. The larger one counts, so no error is smaller than it
was without the second.

In the first hours of a series the day is no longer than the windows, and nothing is known of what is missing.
`tests/bench/alert_streams.py` measures it.
"""

import math
from dataclasses import dataclass, field

from collector.statistics.bounded_sums import Sums


@dataclass(frozen=True, slots=True)
class WindowSums:
    """The sums of a window, and how many scores they come from."""

    sums: Sums = field(default_factory=Sums)
    scores: float = 0.0

    def stderr(self, day: "WindowSums") -> float:
        """The standard error of the window's mean; `day` is the window of the last 24 hours. There must be a score."""
        expected = self.scores / day.scores * day.sums.squares if day.scores else 0.0
        return math.sqrt(max(self.sums.squares, expected)) / self.sums.w
