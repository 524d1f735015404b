from __future__ import annotations

import math
import random
from collections import defaultdict

import pytest
from hypothesis import given, strategies as st

from collector.statistics.bounded_sums import Clusters, Sums

# Three conversations with sums of weights 2, 2 and 4 and with scores of 0.5, 1 and 0.75.
SUMS = Sums(w=8.0, wy=6.0, w2=24.0, w2y=18.0, w2y2=14.0)

SCORES = st.lists(
    st.tuples(st.integers(0, 5), st.floats(1, 20), st.floats(0, 1)),  # conversation, weight, score
    min_size=1,
    max_size=60,
)


def total(scores) -> tuple[float, ...]:
    clusters = Clusters()
    grown = [clusters.add(key, weight=w, score=y, time=0.0) for key, w, y in scores]
    return tuple(math.fsum(getattr(each, name) for each in grown) for name in ("w", "wy", "w2", "w2y", "w2y2"))


def by_conversation(scores) -> tuple[float, ...]:
    a, b = defaultdict(float), defaultdict(float)
    for key, w, y in scores:
        a[key] += w
        b[key] += w * y
    return (
        sum(a.values()),
        sum(b.values()),
        sum(each**2 for each in a.values()),
        sum(a[key] * b[key] for key in a),
        sum(each**2 for each in b.values()),
    )


@given(SCORES)
def test_increments_add_up_to_the_sums_over_conversations(scores):
    assert total(scores) == pytest.approx(by_conversation(scores), rel=1e-9, abs=1e-9)


@given(SCORES, st.randoms())
def test_the_order_of_arrival_does_not_matter(scores, chance):
    shuffled = list(scores)
    chance.shuffle(shuffled)
    assert total(shuffled) == pytest.approx(total(scores), rel=1e-9, abs=1e-9)


@given(SCORES)
def test_counters_never_fall(scores):
    clusters = Clusters()
    for key, w, y in scores:
        grown = clusters.add(key, weight=w, score=y, time=0.0)
        assert min(grown.w, grown.wy, grown.w2, grown.w2y, grown.w2y2) >= 0


def test_equal_weights_and_single_turns_are_the_plain_mean_and_its_error():
    values = [0.0, 0.25, 0.5, 1.0, 1.0]
    mean, error = mean_and_error(total([(number, 4.0, y) for number, y in enumerate(values)]))
    assert mean == pytest.approx(0.55)
    spread = sum((y - 0.55) ** 2 for y in values)
    assert error == pytest.approx(math.sqrt(spread) / len(values))


def test_the_error_is_that_of_repeated_experiments_with_turns_that_go_together():
    chance = random.Random(5)
    means, errors = [], []
    for _ in range(400):
        scores = []
        for conversation in range(60):
            level = chance.random()
            turns = chance.randint(1, 6)
            scores += [(conversation, 5.0, min(1, max(0, level + chance.gauss(0, 0.1)))) for _ in range(turns)]
        mean, error = mean_and_error(total(scores))
        means.append(mean)
        errors.append(error)
    centre = sum(means) / len(means)
    actual = math.sqrt(sum((each - centre) ** 2 for each in means) / len(means))
    assert sum(errors) / len(errors) == pytest.approx(actual, rel=0.12)


def test_a_window_that_begins_within_conversations_overstates_the_error_at_most():
    chance = random.Random(6)
    clusters = Clusters()
    late = []
    for turn in range(4):
        for conversation in range(200):
            level = (conversation * 37 % 100) / 100
            score = min(1, max(0, level + chance.gauss(0, 0.1)))
            grown = clusters.add(conversation, weight=1.0, score=score, time=0.0)
            if turn >= 2:
                late.append((conversation, score, grown))
    sums = tuple(math.fsum(getattr(each[2], name) for each in late) for name in ("w", "wy", "w2", "w2y", "w2y2"))
    _, windowed = mean_and_error(sums)
    _, exact = mean_and_error(by_conversation([(conversation, 1.0, score) for conversation, score, _ in late]))
    assert exact <= windowed <= 1.75 * exact  # twice the turns: at most the square root of three


def mean_and_error(sums: tuple[float, ...]) -> tuple[float, float]:
    w, wy, w2, w2y, w2y2 = sums
    mean = wy / w
    return mean, math.sqrt(max(0.0, w2y2 - 2 * mean * w2y + mean**2 * w2)) / w


def test_memory_is_bounded_in_number_and_in_time():
    clusters = Clusters(capacity=10, memory=100.0)
    for number in range(1000):
        clusters.add(number, weight=1.0, score=1.0, time=float(number))
    assert len(clusters) == 10
    clusters.add("late", weight=1.0, score=1.0, time=1095.0)
    assert len(clusters) == 6  # 995 to 999, and the late one


def test_a_conversation_begins_anew_after_its_time():
    clusters = Clusters(memory=100.0)
    times_and_growth = [(0.0, 1.0), (50.0, 3.0), (100.0, 5.0), (101.0, 1.0), (150.0, 3.0)]
    for time, growth in times_and_growth:
        assert clusters.add("a", weight=1.0, score=1.0, time=time).w2 == growth


def test_what_two_scores_of_one_conversation_add() -> None:
    """Weights 2 and 3, scores 0.5 and 1: the sums of the conversation are 2 and 1, then 5 and 4."""
    clusters = Clusters()
    first = clusters.add("a", weight=2.0, score=0.5, time=0.0)
    second = clusters.add("a", weight=3.0, score=1.0, time=1.0)
    assert (first.w, first.wy, first.w2, first.w2y, first.w2y2) == (2.0, 1.0, 4.0, 2.0, 1.0)
    assert (second.w, second.wy, second.w2, second.w2y, second.w2y2) == (3.0, 3.0, 21.0, 18.0, 15.0)


def test_unless_configured_a_hundred_thousand_conversations_are_remembered_for_an_hour() -> None:
    clusters = Clusters()
    for number in range(100_001):
        clusters.add(number, weight=1.0, score=1.0, time=0.0)
    assert len(clusters) == 100_000
    assert clusters.add(0, weight=1.0, score=1.0, time=0.0).w2 == 1.0, "the oldest is forgotten"
    assert clusters.add(0, weight=1.0, score=1.0, time=3600.0).w2 == 3.0
    assert clusters.add(0, weight=1.0, score=1.0, time=3600.1).w2 == 1.0


def test_mean_error_and_effective_number() -> None:
    assert SUMS.mean == 0.75
    assert SUMS.stderr == pytest.approx(math.sqrt(14.0 - 1.5 * 18.0 + 0.5625 * 24.0 + 0.0001 * 24.0) / 8.0)
    assert SUMS.n_eff == pytest.approx(64.0 / 24.0)
    assert Sums().n_eff == 0.0


def test_equal_scores_have_a_spread_of_a_hundredth() -> None:
    """A hundred scores of 1: their variance is 0, and the mean's error that of a standard deviation of 0.01."""
    equal = Sums(w=100.0, wy=100.0, w2=100.0, w2y=100.0, w2y2=100.0)
    assert equal.stderr == pytest.approx(0.01 / 10.0)
    rounded = Sums(w=100.0, wy=100.0, w2=100.0, w2y=100.0, w2y2=99.9)
    assert rounded.stderr == pytest.approx(0.001), "a variance below 0 is rounding"


def test_sums_add_up_one_by_one_from_nothing() -> None:
    assert Sums() == Sums(0.0, 0.0, 0.0, 0.0, 0.0)
    total = Sums(1.0, 2.0, 3.0, 4.0, 5.0) + Sums(10.0, 20.0, 30.0, 40.0, 50.0)
    assert total == Sums(11.0, 22.0, 33.0, 44.0, 55.0)


def test_what_is_taken_away_is_gone() -> None:
    total = Sums(1.0, 2.0, 3.0, 4.0, 5.0) + SUMS
    assert total - SUMS == Sums(1.0, 2.0, 3.0, 4.0, 5.0)


def test_the_variance_of_few_conversations_is_that_of_a_sample() -> None:
    """Weighted by 2, 2 and 4 they differ from 0.75 by 0.5, 0.5 and 0 with their weight: 0.5 / 64 · 3 / 2."""
    assert SUMS.residual_squares == pytest.approx(0.5)
    assert SUMS.variance(3) == pytest.approx(0.5 / 64.0 * 3.0 / 2.0)
