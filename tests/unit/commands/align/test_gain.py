"""Agreement, its gain and the interval of that: against figures computed otherwise, and by simulation."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from collector.commands.align.gain import Changed, Gain, agreement_of, gain_of


def changed(good: Sequence[tuple[int, int]], bad: Sequence[tuple[int, int]], weight: float = 1.0) -> list[Changed]:
    """Labels of conversations of their own, by (right before, right after), that people pass and fail."""
    pairs = [(True, each) for each in good] + [(False, each) for each in bad]
    return [
        Changed(f"c{number}", passes, bool(before), bool(after), weight)
        for number, (passes, (before, after)) in enumerate(pairs)
    ]


def gain(*args: Sequence[tuple[int, int]], weight: float = 1.0) -> Gain:
    result = gain_of(changed(*args, weight=weight))
    assert result is not None
    return result


def test_verdicts_that_say_nothing_agree_by_half_however_many_pass() -> None:
    labels = [Changed(f"c{n}", n < 90, n < 90, after=True) for n in range(100)]  # it passes everything
    assert agreement_of(labels, lambda label: label.before) == 0.5
    assert agreement_of(labels[:90], lambda label: label.before) is None


def test_the_interval_is_that_of_exact_limits_combined() -> None:
    from scipy import stats

    result = gain([(0, 1)] * 8 + [(1, 1)] * 32, [(0, 1)] * 3 + [(1, 0)] * 1 + [(1, 1)] * 26)
    assert result.gain.value == pytest.approx((8 / 40 + 2 / 30) / 2)
    squares = 0.0
    for better, worse, number in ((8, 0, 40), (3, 1, 30)):
        lowest = stats.beta.ppf(0.025, better, number - better + 1)
        highest = stats.beta.ppf(0.975, worse + 1, number - worse)
        b, c = better / number, worse / number
        correlation = -math.sqrt(b * c / ((1 - b) * (1 - c)))
        squares += (b - lowest) ** 2 + (highest - c) ** 2 - 2 * correlation * (b - lowest) * (highest - c)
    assert result.gain.interval[0] == pytest.approx(result.gain.value - math.sqrt(squares) / 2, abs=1e-9)
    assert (result.better, result.worse, result.labels) == (11, 1, 70)
    assert result.plain == (pytest.approx(59 / 70), pytest.approx(69 / 70))
    assert result.before.value == pytest.approx((32 / 40 + 27 / 30) / 2)


def test_a_few_changes_for_the_better_and_none_for_the_worse_are_no_proof() -> None:
    few = gain([(0, 1)] * 5 + [(1, 1)] * 45, [(1, 1)] * 50)
    assert few.gain.value > 0
    assert not few.sure
    assert gain([(0, 1)] * 10 + [(1, 1)] * 40, [(1, 1)] * 50).sure


def test_nothing_is_known_of_a_part_with_few_labels_although_none_changed_there() -> None:
    many = [(0, 1)] * 10 + [(1, 1)] * 90
    assert gain(many, [(1, 1)] * 100).sure
    assert not gain(many, [(1, 1)] * 10).sure


def test_weights_alone_change_nothing_and_unequal_ones_widen() -> None:
    pairs = ([(0, 1)] * 12 + [(1, 1)] * 28, [(1, 1)] * 40)
    assert gain(*pairs, weight=7.0).gain == gain(*pairs).gain
    unequal = [
        Changed(each.cluster, each.passes, each.before, each.after, 1.0 + 9.0 * (n % 4 == 0))
        for n, each in enumerate(changed(*pairs))
    ]
    result = gain_of(unequal)
    assert result is not None
    width = result.gain.interval[1] - result.gain.interval[0]
    assert width > (even := gain(*pairs).gain.interval)[1] - even[0]


def test_a_conversation_counts_once_however_many_labels_it_has() -> None:
    one = gain([(0, 1)] * 12 + [(1, 1)] * 28, [(1, 1)] * 40)
    ten = gain_of([each for each in changed([(0, 1)] * 12 + [(1, 1)] * 28, [(1, 1)] * 40) for _ in range(10)])
    assert ten is not None
    assert ten.gain.interval == pytest.approx(one.gain.interval)


def test_a_perfect_evaluator_cannot_gain_and_a_bad_one_can() -> None:
    right = [Changed(f"c{n}", n % 2 == 0, before=True, after=True) for n in range(60)]
    assert (best := gain_of(right)) is not None
    assert not best.sure
    wrong = [Changed(f"c{n}", n % 2 == 0, before=n % 3 > 0, after=True) for n in range(60)]
    assert (best := gain_of(wrong)) is not None
    assert best.sure


@pytest.mark.parametrize(
    ("labels", "good", "before", "after", "weights", "per_conversation"),
    [
        (60, 0.8, 0.5, 1.0, (1,), 1),  # passing everything is no gain, although most is good
        (180, 0.6, 0.5, 0.6, (1, 2, 3, 4), 3),
    ],
)
def test_where_labels_follow_nothing_a_gain_is_rarely_sure(
    labels: int, good: float, before: float, after: float, weights: tuple[int, ...], per_conversation: int
) -> None:
    """The interval covers the true gain, which is 0; `before` and `after` are shares that pass."""
    chance = random.Random(labels)
    sure = runs = 0
    while runs < 300:
        made: list[Changed] = []
        for number in range(labels):
            passes = chance.random() < good
            old, new = chance.random() < before, chance.random() < after
            cluster = f"c{number // per_conversation}"
            made.append(Changed(cluster, passes, old is passes, new is passes, chance.choice(weights)))
        result = gain_of(made)
        if result is not None:
            runs += 1
            sure += result.sure
    assert sure <= 0.05 * runs
