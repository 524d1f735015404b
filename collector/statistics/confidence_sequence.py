"""Confidence sequences: intervals that hold at all times at once, so that they may be looked at at any time.

A sum S of terms with mean 0 whose variance is estimated by V as it grows stays, at all times at once, with probability
1 - α within

    |S| ≤ sqrt((V + ρ) · log((V + ρ) / (ρ · α²))).

That is Robbins' normal mixture (Howard, Ramdas, McAuliffe, Sekhon: Time-uniform, nonparametric, nonasymptotic
confidence sequences, 2021, equation 14). With an estimated variance it holds asymptotically, as a central limit theorem
does (Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas: Time-uniform central limit theory and asymptotic confidence
sequences, 2024). `tests/bench/release_comparison.py` measures how often it holds for few conversations.
"""

from math import log, sqrt

RHO = 4.0
"""ρ: intervals are narrowest, in units of their standard error, at about eight times this variance. That of a score is
mostly between 0.05 and 0.15, so after some hundred conversations of each version."""


def radius(variance: float, error_rate: float) -> float:
    """How far such a sum is from its mean at most, at all times, but in a share `error_rate` of all cases."""
    spread = variance + RHO
    return sqrt(spread * log(spread / (RHO * error_rate**2)))
