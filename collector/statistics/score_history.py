"""Figures of past scores: their mean, the similarity of scores within a conversation, and the daily wave."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, hypot, pi, sin, sqrt
from typing import NamedTuple

from collector.statistics.bounded_sums import BoundedSums, Sums, Weight

HOUR = 3600.0
DAY = 86_400.0
_WHOLE_DAYS = 2.0
"""The days of scores that are needed to tell a daily wave from chance."""


class PastScore(NamedTuple):
    """One score: its time (s), its conversation, its weight, its value, and the segment that alerts tell apart."""

    time: float
    conversation: str
    weight: Weight
    score: float
    segment: str = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreHistory:
    """The figures of past scores.

    `clustering` is the variance of the mean over its variance with independent scores (the design effect, Kish 1965).
    `wave` is the amplitude of the daily wave: the first harmonic, fitted by least squares, minus the part by chance.
    """

    scores: int
    conversations: float
    begin: float
    end: float
    mean: float
    error: float
    clustering: float
    wave: float

    @property
    def hours(self) -> float:
        """The length of the history in hours."""
        return (self.end - self.begin) / HOUR

    @property
    def per_hour(self) -> float:
        """Scores an hour."""
        return self.scores / max(self.hours, 1 / 60)


def history_of(scores: Sequence[PastScore]) -> ScoreHistory:
    """The figures of scores in order of time; there must be at least one."""
    sums, hourly = BoundedSums(), dict[int, Sums]()
    for score in scores:
        grown = sums.add(None, score.conversation, weight=score.weight, score=score.score, time=score.time).week
        hour = int(score.time // HOUR)
        hourly[hour] = hourly.get(hour, Sums()) + grown
    whole = sum(hourly.values(), Sums())
    independent = sum((score.weight.full * (score.score - whole.mean)) ** 2 for score in scores)
    clustered, number = (whole.stderr * whole.w) ** 2, len({score.conversation for score in scores})
    return ScoreHistory(
        scores=len(scores), conversations=whole.n_eff, begin=scores[0].time, end=scores[-1].time, mean=whole.mean,
        error=sqrt(whole.variance(number)) if number > 1 else whole.stderr,
        clustering=max(1.0, clustered / independent) if independent > 0.0 else 1.0,
        wave=_wave(hourly, whole) if scores[-1].time - scores[0].time >= _WHOLE_DAYS * DAY else 0.0,
    )  # fmt: skip


def _wave(hourly: dict[int, Sums], whole: Sums) -> float:
    """The amplitude of mean = a sin + b cos over the hour of the day: weighted least squares around the mean."""
    ss = sc = cc = sy = cy = 0.0
    for hour, sums in hourly.items():
        angle = 2.0 * pi * (hour % 24) / 24.0
        s, c, residual = sin(angle), cos(angle), sums.wy - whole.mean * sums.w
        ss += sums.w * s * s
        sc += sums.w * s * c
        cc += sums.w * c * c
        sy += s * residual
        cy += c * residual
    determinant = ss * cc - sc * sc
    if determinant <= 1e-9 * (ss + cc) ** 2:
        return 0.0
    a, b = (cc * sy - sc * cy) / determinant, (ss * cy - sc * sy) / determinant
    by_chance = 4.0 * whole.stderr**2  # two coefficients, each of variance 2 / n
    return sqrt(max(0.0, hypot(a, b) ** 2 - by_chance))
