"""How far scores have moved from their references."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

ENOUGH = 10
"""Paired scores without which nothing is said."""
ERRORS = 4.0
"""Standard errors beyond what is borne, for a shift to count."""


@dataclass(frozen=True, slots=True)
class Shift:
    """The mean of the paired differences, new minus reference, its standard error, and of how many."""

    mean: float
    stderr: float
    count: int

    def moved(self, borne: float) -> bool:
        """Whether the judge has moved by more than is borne, beyond doubt."""
        return abs(self.mean) > borne + ERRORS * self.stderr


def shift(scores: Mapping[str, float | None], references: Mapping[str, float]) -> Shift | None:
    """The shift over the cases that have both; None if there are fewer than ten.

    The standard deviation of the differences is taken as 0.01 at least: equal shifts of a few cases are no proof.
    """
    differences = [
        score - references[case] for case, score in scores.items() if score is not None and case in references
    ]
    count = len(differences)
    if count < ENOUGH:
        return None
    mean = sum(differences) / count
    variance = sum((each - mean) ** 2 for each in differences) / (count - 1)
    return Shift(mean, max(0.01, math.sqrt(variance)) / math.sqrt(count), count)
