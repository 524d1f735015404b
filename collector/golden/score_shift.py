"""The shift of scores from their references."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

MIN_PAIRS = 10
"""Paired scores below which no shift is computed."""
STANDARD_ERRORS = 4.0
"""Standard errors beyond the tolerance for a shift to be significant."""
MIN_DEVIATION = 0.01
"""The least standard deviation of differences: a few equal differences prove nothing."""


@dataclass(frozen=True, slots=True)
class ScoreShift:
    """The mean of the paired differences, new minus reference, its standard error, and their number."""

    mean: float
    stderr: float
    count: int

    def explains(self, *, lower_is_better: bool) -> float:
        """How much worse scores may have become by it: two standard errors more than was measured."""
        worse = self.mean if lower_is_better else -self.mean
        return max(0.0, worse + 2.0 * self.stderr) if worse > 0.0 else 0.0

    def exceeds(self, tolerance: float) -> bool:
        """Whether the shift is beyond the tolerance, significantly."""
        return abs(self.mean) > tolerance + STANDARD_ERRORS * self.stderr


def score_shift(scores: Mapping[str, float | None], references: Mapping[str, float]) -> ScoreShift | None:
    """The shift over the cases that have both; None if there are fewer than `MIN_PAIRS`."""
    differences = [
        score - references[case] for case, score in scores.items() if score is not None and case in references
    ]
    count = len(differences)
    if count < MIN_PAIRS:
        return None
    mean = sum(differences) / count
    variance = sum((difference - mean) ** 2 for difference in differences) / (count - 1)
    return ScoreShift(mean, max(MIN_DEVIATION, math.sqrt(variance)) / math.sqrt(count), count)
