"""Agreement computed by us and by scipy, on recorded scores of real judges with labels of people."""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, strategies as st

from collector.calibration.labels import HumanLabel
from collector.commands.calibrate.calibrate import mean_by_people
from collector.statistics import agreement
from collector.statistics.agreement import ScoreScale, agreement as agreement_of
from collector.statistics.audited_sums import CorrectedMean
from collector.statistics.correction import LabelledScore, WeightedScore, weighted_mean

RECORDED = Path(__file__).parents[2] / "golden" / "judge_answers" / "agent_bc038.jsonl.gz"


def corrected(labels: list[HumanLabel], scores: list[WeightedScore]) -> CorrectedMean:
    found = mean_by_people(labels, scores)
    assert found is not None
    return found


def labelled(judge: float, human: float, weight: float = 1.0, probability: float = 1.0, name: str = "") -> HumanLabel:
    return HumanLabel(judge, human, "all", weight, probability, name=name)


def recorded(tool: str = "deepeval", repeat: int = 0) -> list[agreement.ScorePair]:
    with gzip.open(RECORDED, "rt") as file:
        rows = [json.loads(line) for line in file]
    scored = [(row["judgements"][tool][repeat]["raw_score"], float(row["case"]["label"] != "wrong")) for row in rows]
    return [(judge, human) for judge, human in scored if judge is not None]


@pytest.mark.parametrize("tool", ["deepeval", "opik"])
def test_correlations_are_scipys(tool: str) -> None:
    from scipy import stats

    pairs = recorded(tool)
    judge, human = zip(*pairs, strict=True)
    assert agreement.spearman(pairs) == pytest.approx(stats.spearmanr(judge, human).statistic, abs=1e-12)
    assert agreement.kendall(pairs) == pytest.approx(stats.kendalltau(judge, human).statistic, abs=1e-12)


def test_the_recorded_verdicts() -> None:
    """At 0.5 DeepEval's G-Eval passes 8 of 35 wrong runs (first repeat)."""
    assert agreement.specificity(recorded("deepeval"), 0.5) == pytest.approx(27 / 35)


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0])), min_size=2, max_size=40
    )
)
def test_ties_of_every_kind(pairs: list[agreement.ScorePair]) -> None:
    from scipy import stats

    judge, human = zip(*pairs, strict=True)
    if len(set(judge)) < 2 or len(set(human)) < 2:
        assert math.isnan(agreement.kendall(pairs))
        assert math.isnan(agreement.spearman(pairs))
        return
    assert agreement.kendall(pairs) == pytest.approx(stats.kendalltau(judge, human).statistic, abs=1e-9)
    assert agreement.spearman(pairs) == pytest.approx(stats.spearmanr(judge, human).statistic, abs=1e-9)


def test_kappa_and_alpha_by_hand() -> None:
    same = [(0.0, 0.0), (1.0, 1.0), (0.5, 0.5)]
    assert agreement.weighted_kappa(same) == agreement.krippendorff(same) == 1.0
    opposed = [(0.0, 1.0), (1.0, 0.0)]
    assert agreement.weighted_kappa(opposed) == pytest.approx(-1.0)
    assert agreement.krippendorff(opposed) == pytest.approx(-0.5)
    halves = [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]
    assert agreement.weighted_kappa(halves) == pytest.approx(0.0)


def test_the_interval_covers_scipys_bootstrap() -> None:
    from scipy import stats

    pairs = recorded()
    judge, human = zip(*pairs, strict=True)
    ours = agreement.interval(pairs, agreement.spearman)
    theirs = stats.bootstrap(
        (judge, human), lambda x, y: stats.spearmanr(x, y).statistic,
        paired=True, vectorized=False, n_resamples=1000, method="percentile", rng=1,
    ).confidence_interval  # fmt: skip
    assert ours is not None
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.03)


def test_the_threshold_that_meets_a_target_is_the_middle_of_the_lowest_that_do() -> None:
    pairs = recorded()
    found = agreement.threshold_for(pairs, 0.9)
    assert found is not None
    assert agreement.specificity(pairs, found) >= 0.9
    below = max(judge for judge, _ in pairs if judge < found)
    assert agreement.specificity(pairs, below) < 0.9
    assert agreement.threshold_for([(1.0, 0.0)], 0.5) is None
    assert agreement.threshold_for([(0.3, 0.0), (0.7, 1.0)], 0.9) == 0.5, "all above 0.3 up to 0.7 do the same"
    assert 0.7 < (agreement.threshold_for([(0.7, 0.0), (0.7002, 1.0)], 0.9) or 0.0) <= 0.7002


@pytest.mark.parametrize("human", [0.0, 0.4])
def test_of_thresholds_that_fail_as_many_good_answers_the_one_that_fails_most_bad_ones_is_proposed(
    human: float,
) -> None:
    """The lowest one that met the target was proposed, though a higher one failed all of the bad and none of the good."""
    bad = [*[(0.3, human)] * 27, *[(0.4, human)] * 3]
    good = [(0.5, 1.0), (0.9, 1.0)]
    assert agreement.threshold_for([*bad, *good], 0.9) == 0.45
    assert agreement.threshold_for([*bad, *good, (0.35, 1.0)], 0.9) == 0.325, "a higher one fails a good one, too"
    assert agreement.threshold_for(bad, 0.9) == 0.35, "no score is above the highest"


def test_the_corrected_mean_is_unbiased_and_narrower_than_people_alone() -> None:
    """200 labels, 5000 scores, a judge with sensitivity .93 and specificity .70, true share .88: ±.037 with 94 % cover."""
    chance = Random(5)
    errors, widths, covered = [], [], 0
    for _ in range(80):
        truth = [float(chance.random() < 0.88) for _ in range(5000)]
        judge = [float(chance.random() < (0.93 if each else 0.30)) for each in truth]
        labels = [labelled(*each) for each in zip(judge[:200], truth[:200], strict=True)]
        found = corrected(labels, [WeightedScore(each) for each in judge[200:]])
        errors.append(found.mean - 0.88)
        widths.append(1.96 * found.error)
        covered += abs(errors[-1]) < widths[-1]
    assert abs(sum(errors) / 80) < 0.006
    assert 0.033 < sum(widths) / 80 < 0.040
    assert covered >= 72


def test_what_was_judged_more_often_weighs_less_in_both_means() -> None:
    """A fifth of the traffic is errors, mostly bad, and judged four times as often; 250 of the judged are labelled."""
    chance = Random(6)
    judges, people, plain, covered = [], [], [], 0
    for _ in range(60):
        sample: list[LabelledScore] = []
        while len(sample) < 1500:
            error = chance.random() < 0.2
            if chance.random() < (0.4 if error else 0.1):
                truth = float(chance.random() < (0.3 if error else 0.9))
                judge = float(chance.random() < (0.95 if truth else 0.2))
                sample.append(LabelledScore(judge, truth, 2.5 if error else 10.0))
        scores = [WeightedScore(each.judge, each.weight) for each in sample]
        labels = [labelled(each.judge, each.human, each.weight, name="e") for each in sample[:250]]
        found = corrected([replace(each, probability=250 / 1500) for each in labels], scores)
        judges.append(weighted_mean(scores) - (0.78 * 0.95 + 0.22 * 0.2))
        people.append(found.mean - 0.78)
        plain.append(sum(each.judge for each in sample) / 1500 - (0.78 * 0.95 + 0.22 * 0.2))
        covered += abs(people[-1]) < 1.96 * found.error
    assert abs(sum(judges) / 60) < 0.006
    assert abs(sum(people) / 60) < 0.012
    assert sum(plain) / 60 < -0.1, "which is what forgetting the weights would do"
    assert covered >= 54


def test_cohens_kappa_by_hand() -> None:
    """Of 50 verdicts 35 are shared, by chance 25 would be: Cohen's own kind of example."""
    verdicts = [(1.0, 1.0)] * 20 + [(1.0, 0.0)] * 5 + [(0.0, 1.0)] * 10 + [(0.0, 0.0)] * 15
    assert agreement.verdict_agreement(verdicts, ScoreScale(0.5)).kappa.value == pytest.approx(0.4)
    assert math.isnan(agreement.verdict_agreement([(1.0, 1.0)] * 5, ScoreScale(0.5)).kappa.value)


def test_few_labels_of_very_unequal_weights_give_an_unbiased_mean_and_an_honest_interval() -> None:
    """About 160 labels that weigh 3.5 to 80, of a judge that is wrong near the middle."""
    chance, errors, covered = np.random.default_rng(11), list[float](), 0
    samples = 100
    for _ in range(samples):
        judge, weight = chance.random(1720), chance.choice((1.0, 2.0, 4.0), 1720)
        human = (chance.random(1720) < np.where(abs(judge - 0.5) < 0.2, 0.3, judge)).astype(float)
        share = 0.05 + 0.95 * 0.25 * np.clip(1 - abs(judge - 0.5) / 0.2, 0, 1)
        drawn = chance.random(1720) < share
        columns = judge, human, weight, share
        rows = zip(*(each[drawn].tolist() for each in columns), strict=True)
        labels = [labelled(*each, name="e") for each in rows]
        scores = [WeightedScore(*each) for each in zip(judge.tolist(), weight.tolist(), strict=True)]
        found = corrected(labels, scores)
        errors.append(found.mean - float(np.average(human, weights=weight)))
        covered += found.interval[0] <= found.mean - errors[-1] <= found.interval[1]
    assert abs(float(np.mean(errors))) < 0.001 + 2 * float(np.std(errors)) / samples**0.5
    assert covered / samples >= 0.91


def test_what_all_have_labelled_needs_no_correction() -> None:
    scores = [(0.2, 0.0, 1.0), (0.9, 1.0, 2.0), (0.6, 1.0, 1.0), (0.1, 0.0, 2.0)] * 15
    labels = [labelled(*each, name="e") for each in scores]
    found = corrected(labels, [WeightedScore(judge, weight) for judge, _, weight in scores])
    assert found.mean == pytest.approx(3 / 6, abs=0.01)
    assert mean_by_people(labels[:20], []) is None


def test_where_all_agree_no_interval_is_of_width_0() -> None:
    """Of 40 good and 12 bad ones none was misjudged: Wilson's interval says how many might be."""
    pairs = [LabelledScore(1.0, 1.0)] * 40 + [LabelledScore(0.0, 0.0)] * 12
    found = agreement_of("all", pairs, ScoreScale(0.5), samples=100).measures
    assert found["sensitivity"] == (1.0, pytest.approx((0.912, 1.0), abs=1e-3))
    assert found["specificity"] == (1.0, pytest.approx((0.757, 1.0), abs=1e-3))
    assert found["equal_verdicts"] == (1.0, pytest.approx((0.931, 1.0), abs=1e-3))
    assert all(bounds is None or bounds[0] < bounds[1] for _, bounds in found.values())
    assert found["cohen_kappa"] == (1.0, (pytest.approx(0.808, abs=0.01), 1.0))


def test_a_constant_side_is_no_correlation_whatever_the_weights_are() -> None:
    """Rounding made 13 of 1,000 resamples 0: Spearman's interval began at 0.000 where Kendall's began at 0.516."""
    weights = [20.0, 20.0, 3.7, 8.1, 20.0, 3.7, 20.0, 8.1, 20.0, 20.0, 3.7, 20.0, 8.1]
    pairs = [LabelledScore(number / 13, float(number > 2), weight) for number, weight in enumerate(weights)]
    chance = Random(0)
    for _ in range(1000):
        resample = chance.choices(pairs, k=13)
        flat = len({pair.judge for pair in resample}) < 2 or len({pair.human for pair in resample}) < 2
        assert math.isnan(agreement.spearman(resample)) is math.isnan(agreement.kendall(resample)) is flat
    spearman, kendall = (agreement.interval(pairs, each) for each in (agreement.spearman, agreement.kendall))
    assert spearman is not None
    assert kendall is not None
    assert spearman == pytest.approx(kendall, abs=0.15), "one method: the bootstrap of conversations"
