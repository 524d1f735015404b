"""Confidence sequences: intervals that hold at all times at once, so one may look at them at any time.

Let S be a sum of terms with mean 0, and V the estimate of its variance as it grows. With probability 1 - α, at all
times at once,

    |S| ≤ sqrt((V + ρ) · log((V + ρ) / (ρ · α²))).

That is Robbins' normal mixture (Howard, Ramdas, McAuliffe, Sekhon: Time-uniform, nonparametric, nonasymptotic
confidence sequences, 2021, equation 14). With an estimated variance it holds asymptotically, as a central limit theorem
does (Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas: Time-uniform central limit theory and asymptotic confidence
sequences, 2024). `tests/bench/release_comparison.py` measures how often it holds for few conversations.
"""

from math import log, sqrt

RHO = 4.0
"""ρ: intervals are narrowest, in units of their standard error, at about eight times this variance. The variance of a
score is mostly between 0.05 and 0.15, so that is after some hundred conversations of each version."""


def radius(variance: float, error_rate: float) -> float:
    """The distance from its mean that the sum never exceeds, except in a share `error_rate` of all cases."""
    spread = variance + RHO
    return sqrt(spread * log(spread / (RHO * error_rate**2)))
