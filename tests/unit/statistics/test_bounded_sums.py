"""What a conversation may weigh, in the sums for the mean and in those for the drop detector."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given, strategies as st

from collector.evaluate.sampling.strata import MAX_BOOST
from collector.statistics.bounded_sums import BoundedIncrements, BoundedSums, Sums, Weight
from evaluators.results import Sampling

SCORES = st.lists(
    st.tuples(st.integers(0, 30), st.floats(1, 1e6), st.floats(0, 1)),  # conversation, weight, score
    min_size=1,
    max_size=120,
)


def upstream(weight: float) -> Weight:
    """A weight that samplers before us account for."""
    return Weight(weight, 1.0)


def counted(scores: Iterable[tuple[object, float, float]], sums: BoundedSums | None = None) -> list[BoundedIncrements]:
    sums = BoundedSums() if sums is None else sums
    return [sums.add("s", key, weight=upstream(w), score=y, time=0.0) for key, w, y in scores]


def mean(grown: Iterable[BoundedIncrements]) -> float:
    of = list(grown)
    return math.fsum(each.mean.wy for each in of) / math.fsum(each.mean.w for each in of)


def singles(weights: Iterable[float], score: float = 1.0) -> Iterator[tuple[str, float, float]]:
    for number, weight in enumerate(weights):
        yield f"{score}-{number}", weight, score


def test_our_own_part_of_a_weight() -> None:
    assert Weight.of(Sampling(probability=0.05, upstream=0.1)) == Weight(20.0, 2.0, 2.0)
    assert Weight.of(Sampling(probability=0.5)) == Weight(2.0, 2.0, 2.0)
    drawn = Sampling(probability=0.5).with_own_draw(0.1)
    assert Weight.of(drawn) == Weight(20.0, 20.0, 2.0)
    boosted = Sampling(probability=0.5, stratum="slow", upstream=0.1).with_own_draw(0.1)
    assert Weight.of(boosted) == Weight(20.0, 2.0, 0.2 * MAX_BOOST), "at least what it would be without the boost"


@given(SCORES)
def test_no_conversation_is_more_than_the_whole_scale_and_nothing_is_lost_unsaid(scores) -> None:
    grown = counted(scores)
    shares = defaultdict(float)
    for (key, w, y), each in zip(scores, grown, strict=True):
        shares[key] += each.evidence.w
        assert each.mean.w + each.clipped == pytest.approx(w)
        assert each.mean.wy == pytest.approx(each.mean.w * y)
        assert min(each.mean.w, each.mean.w2, each.mean.w2y, each.mean.w2y2, each.clipped) >= 0.0
        assert min(each.evidence.w, each.evidence.w2, each.evidence.w2y, each.evidence.w2y2) >= 0.0
    assert max(shares.values()) <= 1.0 + 1e-9


@given(SCORES)
def test_both_are_the_sums_over_conversations(scores) -> None:
    grown = counted(scores)
    for part in ("mean", "evidence"):
        a, b = defaultdict(float), defaultdict(float)
        for (key, _, _), each in zip(scores, grown, strict=True):
            a[key] += getattr(each, part).w
            b[key] += getattr(each, part).wy
        total = [math.fsum(getattr(getattr(each, part), name) for each in grown) for name in ("w2", "w2y", "w2y2")]
        expected = [sum(x * x for x in a.values()), sum(a[k] * b[k] for k in a), sum(x * x for x in b.values())]
        assert total == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_one_claimed_weight_neither_hides_a_fall_nor_makes_one() -> None:
    """A weight of ten thousand among two hundred: it was 98 % of the mean."""
    sums = BoundedSums()
    counted(singles([1.0] * 100), sums)
    fallen = counted([("forged", 1e4, 1.0), *singles([1.0] * 100, score=0.0)], sums)
    assert mean(fallen) == pytest.approx(20.0 / 120.0, abs=0.02)
    assert fallen[0].clipped == pytest.approx(1e4 - 20.0, abs=1.0)

    sums = BoundedSums()
    counted(singles([1.0] * 100), sums)
    made = counted([("forged", 1e4, 0.0), *singles([1.0] * 100, score=0.9)], sums)
    assert mean(made) > 0.7
    assert math.fsum(each.evidence.w for each in made) == pytest.approx(101.0), "one bet of a hundred and one"


def test_the_first_weight_of_all_is_not_believed_either() -> None:
    grown = counted([("forged", 1e4, 1.0), *singles([1.0] * 300, score=0.0)])
    assert mean(grown) < 0.07


def test_a_conversation_of_ten_thousand_turns_is_no_more_than_twenty() -> None:
    sums = BoundedSums()
    counted(singles([1.0] * 500), sums)
    long = counted([("long", 1.0, 0.0)] * 10_000, sums)
    assert 19.0 < math.fsum(each.mean.w for each in long) < 22.0
    assert math.fsum(each.evidence.w for each in long) <= 1.0 + 1e-9
    assert long[-1].clipped == 1.0


def test_a_weight_has_at_most_two_percent_of_a_thousand_conversations() -> None:
    sums = BoundedSums()
    before = counted(singles([1.0] * 999), sums)
    forged = sums.add("s", "forged", weight=upstream(1e6), score=0.0, time=0.0)
    assert forged.mean.w / math.fsum(each.mean.w for each in before) == pytest.approx(0.02, rel=0.01)


def test_a_sampler_before_us_is_believed_from_the_twentieth_conversation_on() -> None:
    """It keeps one trace in thirty: more than a single conversation may claim while no others are known."""
    assert [each.clipped for each in counted(singles([30.0] * 25))] == [10.0] * 19 + [0.0] * 6


@pytest.mark.parametrize(("heavy", "bet"), [(2, 1.0), (3, 0.5)])
def test_bets_are_shares_of_what_all_but_a_twentieth_of_the_weight_stays_below(heavy: int, bet: float) -> None:
    sums = BoundedSums()
    counted(singles([1.0] * 78 + [2.0] * heavy), sums)
    assert counted([("next", 1.0, 1.0)], sums)[0].evidence.w == bet


def test_a_conversation_that_goes_on_for_hours_counts_again_in_each() -> None:
    sums = BoundedSums()
    counted(singles([1.0] * 500), sums)
    for hour in range(3):
        time = 3601.0 * hour
        turns = [sums.add("s", "long", weight=upstream(1.0), score=0.0, time=time + n) for n in range(30)]
        assert 19.0 < math.fsum(each.mean.w for each in turns) < 25.0, hour


@pytest.mark.parametrize("weight", [1.0, 10.0, 100.0, 10_000.0])
def test_equal_weights_are_all_the_same_to_the_detector(weight: float) -> None:
    """One in a hundred sampled before us, or all: bets are as large, and nothing is left out once it is known."""
    sums = BoundedSums()
    counted(singles([weight] * 60), sums)
    later = counted(singles([weight] * 100, score=0.5), sums)
    assert all(each.clipped == 0.0 for each in later)
    assert all(0.9 < each.evidence.w <= 1.0 for each in later)


@pytest.mark.parametrize(("heavy", "share"), [(15.0, 0.5), (15.0, 0.1), (1000.0, 0.09)])
def test_honest_samplers_that_keep_errors_are_believed(heavy: float, share: float) -> None:
    """Errors are kept, and of the rest one in fifteen or in a thousand: after a while no weight is left out."""
    chance, sums = random.Random(3), BoundedSums()
    weights = [heavy if chance.random() < share else 1.0 for _ in range(3000)]
    counted(singles(weights[:1000]), sums)
    later = counted(singles(weights[1000:], score=0.5), sums)
    clipped = math.fsum(each.clipped for each in later)
    assert clipped / sum(weights[1000:]) < 0.01


def test_our_own_weights_are_never_clipped_in_a_conversation_of_one_score() -> None:
    """A budget lowers the rate by a hundred at once."""
    sums = BoundedSums()
    counted(singles([1.0] * 500), sums)
    assert sums.add("s", "new", weight=Weight(100.0, 100.0), score=0.5, time=0.0).clipped == 0.0
    second = sums.add("s", "new", weight=Weight(100.0, 100.0), score=0.5, time=0.0)
    assert second.clipped == 100.0, "a long conversation at a low rate would decide the mean"


def test_series_know_nothing_of_each_other() -> None:
    sums = BoundedSums()
    counted(singles([1.0] * 500), sums)
    other = [sums.add("other", number, weight=upstream(50.0), score=1.0, time=0.0) for number in range(100)]
    assert other[-1].clipped == 0.0


def test_what_is_long_ago_is_forgotten() -> None:
    sums = BoundedSums(capacity=50, pause=100.0)
    for number in range(5000):
        sums.add("s", number, weight=upstream(1.0), score=1.0, time=float(number))
    assert len(sums) <= 50
    same = BoundedSums(pause=100.0)
    first, again = (same.add("s", "c", weight=upstream(1.0), score=1.0, time=time) for time in (0.0, 200.0))
    assert first.mean == again.mean, "a new cluster"


def of_rate(weight: float, *, is_boosted: bool = False) -> Weight:
    """A weight by evalstream's rate alone."""
    return Weight.of(Sampling(probability=1.0 / weight, stratum="slow" if is_boosted else "all"))


def test_what_a_budget_cut_leaves_does_not_blind_the_detector() -> None:
    """The scale was that of the five scores until a thousand conversations had followed: a fall was found late."""
    sums, shares = BoundedSums(), list[float]()
    for number, weight in enumerate([1.0] * 200 + ([138.0] * 5 + [1.0] * 200) * 3):
        grown = sums.add("s", str(number), weight=of_rate(weight), score=0.5, time=float(number))
        shares.append(grown.evidence.w)
        assert grown.mean.w == weight, "the mean is unbiased"
    assert shares[190:225] == [1.0] * 15 + [pytest.approx(1 / 138)] * 20
    assert shares[225:405] == [1.0] * 180
    assert shares[-180:] == [1.0] * 180, "nor do several"


def test_a_level_is_at_most_twice_too_high() -> None:
    """With levels up to four times too high, the scale cut scores without a boost, and false alarms were frequent."""
    sums = BoundedSums()
    shares = [
        sums.add("s", str(number), weight=of_rate(weight), score=0.5, time=float(number)).evidence.w
        for number, weight in enumerate([3.0] * 200 + [1.0] * 200)
    ]
    assert shares[205] == pytest.approx(1 / 3, rel=0.1), "the last 20 have the rate from before"
    assert shares[-100:] == [pytest.approx(1.0, rel=0.1)] * 100


def test_strata_keep_their_weights_in_the_detector_when_a_rate_changes() -> None:
    """A boost of four: the others weigh four times as much, at any rate."""
    sums, shares = BoundedSums(), defaultdict[float, float](float)
    for number, rate in enumerate([1.0] * 400 + [30.0] * 400 + [1.0] * 400):
        boosted = number % 4 == 0
        weight = rate * (1.0 if boosted else 4.0)
        grown = sums.add("s", str(number), weight=of_rate(weight, is_boosted=boosted), score=0.5, time=0.0)
        if number % 400 >= 100:
            shares[boosted] += grown.evidence.w / (225 if boosted else 675)
    assert shares[False] == pytest.approx(4.0 * shares[True])


@pytest.mark.parametrize("change", [1.0, 2.0, 17.0])
@pytest.mark.parametrize("share", [0.03, 0.1])
def test_the_detector_tests_the_mean_of_all_where_few_are_not_boosted(share: float, change: float) -> None:
    """What was not boosted weighed no more than the rest where no score like it was among the last 20: a mean of 0.58 at its
    target was tested as 0.52, or as 0.56 while the rate was halved every other hour.
    """
    chance, sums, evidence, exact = random.Random(1), BoundedSums(), Sums(), Sums()
    for number in range(40_000):
        rest = chance.random() < share
        score, by_boost = float(chance.random() < (0.95 if rest else 0.5)), MAX_BOOST if rest else 1.0
        weight = of_rate(by_boost * (change if number // 100 % 2 else 1.0), is_boosted=not rest)
        grown = sums.add("s", number, weight=weight, score=score, time=10.0 * number)
        exact += Sums(w=by_boost, wy=by_boost * score)
        evidence += grown.evidence
    assert evidence.mean == pytest.approx(exact.mean, abs=0.008)
