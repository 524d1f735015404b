"""`sample: auto` by simulation: means stay unbiased, their intervals cover, and the error is held."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

import pytest
from planned_traffic import ERROR, DayOfMeans, run

Mean = Callable[[DayOfMeans], tuple[float, float]]


def coverage(days: Sequence[DayOfMeans], mean: Mean) -> float:
    """How often the 95 % interval of a day covers what scoring everything would have given."""
    return fmean(abs(mean(each)[0] - fmean(each.truths)) <= 1.96 * mean(each)[1] for each in days)


def bias(days: Sequence[DayOfMeans], mean: Mean) -> float:
    return fmean(mean(each)[0] - fmean(each.truths) for each in days)


@pytest.mark.long
def test_the_error_is_held_from_the_first_day_on() -> None:
    """Over three partitions of two processes, with two restarts a day; the first day begins with nothing known."""
    runs = [run(seed, 3, 2000, partitions=3, restarts=True) for seed in range(6)]
    for day in range(3):
        assert fmean(each[day].own()[1] for each in runs) == pytest.approx(ERROR, rel=0.1)
    later = [each[day] for each in runs for day in (1, 2)]
    assert fmean(each.judged / len(each.truths) for each in later) < 0.1


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_means_are_unbiased_and_their_intervals_cover() -> None:
    """Also over three partitions of two processes, with two restarts a day."""
    runs = [run(seed, 4, 3000, partitions=3, restarts=True) for seed in range(80)]
    _holds([day for each in runs for day in each], DayOfMeans.own)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_means_by_audits_are_unbiased_and_their_intervals_cover() -> None:
    runs = [run(seed, 4, 3000, share=0.3) for seed in range(100)]
    _holds([day for each in runs for day in each], DayOfMeans.audited)


def _holds(days: Sequence[DayOfMeans], mean: Mean) -> None:
    assert abs(bias(days, mean)) < 0.005
    assert 0.93 <= coverage(days, mean) <= 0.97
    assert fmean(mean(each)[1] for each in days) == pytest.approx(ERROR, rel=0.1)
