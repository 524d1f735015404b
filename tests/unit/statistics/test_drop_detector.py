"""The arithmetic of the drop detector, by values that were computed by hand."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from collector.statistics.bounded_sums import Sums
from collector.statistics.incident import LADDER, NOTHING, DropDetector, evidence, threshold

# Three conversations with sums of weights 2, 2 and 4 and with scores of 0.5, 1 and 0.75.
SUMS = Sums(w=8.0, wy=6.0, w2=24.0, w2y=18.0, w2y2=14.0)
HIGH = DropDetector(target=0.75, threshold=9.0)
LOW = DropDetector(target=0.25, threshold=9.0, lower_is_better=True)


def test_bets_reach_from_small_to_large_without_a_gap() -> None:
    """Small bets find small drops. Between neighbours the best bet for a drop is never far."""
    assert (LADDER[0], LADDER[-1], len(LADDER)) == (0.05, 16.0, 14)
    assert all(1.3 < higher / lower <= 2.0 for lower, higher in pairwise(LADDER))
    assert all(higher / lower < 1.6 for lower, higher in pairwise(LADDER) if lower > 0.2)


@pytest.mark.parametrize(
    ("detector", "bets"),
    [
        (DropDetector(0.5, 9.0), 7),  # up to 1.1: a bet of 1.5 loses three quarters
        (DropDetector(0.953125, 9.0), 14),  # 16 loses exactly that
        (DropDetector(0.9531, 9.0), 13),
        (DropDetector(0.25, 9.0), 6),
        (DropDetector(0.25, 9.0, lower_is_better=True), 9),
    ],
)
def test_no_bet_loses_more_than_three_quarters_on_one_conversation(detector: DropDetector, bets: int) -> None:
    assert detector.bets == LADDER[:bets]
    assert len(detector.start()) == bets


def test_a_state_rises_by_six_above_what_alone_passes_the_threshold() -> None:
    assert len(HIGH.bets) == 9
    assert HIGH.ceiling == pytest.approx(9.0 + math.log(9) + 6.0)


def test_fans_coefficient() -> None:
    assert HIGH.coefficient(2.0) == pytest.approx((math.log(2.0) - 0.5) / 0.25)
    assert HIGH.coefficient(0.0) == 0.5, "its limit"
    assert LOW.coefficient(1.6) == pytest.approx((-math.log(0.6) - 0.4) / 0.16)


def test_the_shortfall_lies_on_the_bad_side() -> None:
    assert HIGH.shortfall(4.0, 2.0) == 1.0
    assert LOW.shortfall(4.0, 2.0) == 1.0
    assert HIGH.shortfall(4.0, 4.0) == -1.0


def test_the_bound_from_sums() -> None:
    bad = Sums(w=4.0, wy=2.0, w2=6.0, w2y=3.0, w2y2=2.0)
    c = (-math.log(0.6) - 0.4) / 0.16
    assert HIGH.log_gain_bound(1.6, bad) == pytest.approx(1.6 - c * 2.56 * (3.375 - 4.5 + 2.0))
    assert LOW.log_gain_bound(1.6, bad) == pytest.approx(1.6 - c * 2.56 * (0.375 - 1.5 + 2.0))


def test_the_gain_of_a_conversation() -> None:
    assert HIGH.log_gain(2.0, 1.0, 0.5) == pytest.approx(math.log(1.5))
    assert HIGH.log_gain(2.0, 0.5, 0.25) == pytest.approx(math.log(1.25))
    assert LOW.log_gain(2.0, 0.5, 0.25) == pytest.approx(math.log(1.25))
    assert HIGH.log_gain(2.0, 0.0, 0.0) == 0.0


def test_an_interval_adds_one_to_a_state_and_then_its_gain() -> None:
    first = HIGH.advance(HIGH.start(), [0.5] * 9)
    assert first == pytest.approx([0.5] * 9)
    assert HIGH.advance(first, [0.25] * 9) == pytest.approx([math.log(1.0 + math.exp(0.5)) + 0.25] * 9)
    assert HIGH.advance(first, [0.5] * 9, 4) == pytest.approx([math.log(4.0 + math.exp(0.5)) + 0.5] * 9)
    assert HIGH.advance(first, [100.0] * 9) == [HIGH.ceiling] * 9
    assert HIGH.advance(first, [-300.0] * 9) == [NOTHING] * 9


def test_the_evidence_is_the_logarithm_of_the_mean_of_the_states() -> None:
    assert evidence([math.log(2.0), math.log(6.0)]) == pytest.approx(math.log(4.0))
    assert evidence([NOTHING, math.log(6.0)]) == pytest.approx(math.log(3.0))
    assert evidence([NOTHING, NOTHING]) == NOTHING
    assert evidence([1000.0, 1000.0]) == pytest.approx(1000.0), "as large as states come"


def test_the_threshold_allows_one_false_alarm_over_all_series() -> None:
    assert threshold(6000.0, 60.0, 5) == pytest.approx(math.log(500.0))
    assert threshold(30.0, 60.0, 5) == pytest.approx(math.log(5.0)), "at least one interval"
    assert threshold(6000.0, 60.0, 0) == pytest.approx(math.log(100.0)), "at least one series"
