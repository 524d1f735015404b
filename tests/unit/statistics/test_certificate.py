"""The certificate of a failure rate: its limits by hand and by scipy, and how often it is given where it must not be."""

from __future__ import annotations

import numpy as np
import pytest
from evaluation_samples import scored

from collector.statistics.agreement import ScoreScale
from collector.statistics.certificate import (
    JudgedVerdict,
    VerdictPair,
    certify,
    incomplete_beta,
    upper_limit,
)
from evaluators.mechanisms.classification import LabelDefinition
from evaluators.turn.classifier import Classifier


@pytest.mark.parametrize(
    ("a", "b", "x"), [(1, 20, 0.1), (6.4, 113.2, 0.05), (30, 70, 0.4), (1, 1e4, 3e-4), (200, 3, 0.99)]
)
def test_the_beta_function_is_scipys(a: float, b: float, x: float) -> None:
    from scipy.stats import beta

    assert incomplete_beta(a, b, x) == pytest.approx(float(beta.cdf(x, a, b)), abs=1e-10)
    assert (incomplete_beta(a, b, 0.0), incomplete_beta(a, b, 1.0)) == (0.0, 1.0)


def test_limits_are_those_of_clopper_and_pearson() -> None:
    from scipy.stats import beta

    for failures, number in ((0, 10), (3, 100), (2.5, 61.7)):
        assert upper_limit(failures, number) == pytest.approx(float(beta.ppf(0.95, failures + 1, number - failures)))
    assert upper_limit(5, 5) == 1.0


def certificates(
    rate: float, sensitivity: float, specificity: float, *, weighted: bool, runs: int
) -> tuple[float, float]:
    """How often a bound of 5 % is certified by 150 labels of 3,000 judged, and the mean of the rates."""
    chance, given, rates = np.random.default_rng(4), 0, list[float]()
    for _ in range(runs):
        bad = chance.random(3000) < rate
        fails = np.where(bad, chance.random(3000) < sensitivity, chance.random(3000) >= specificity)
        weight = chance.choice((1.0, 2.0, 4.0), 3000) if weighted else np.ones(3000)
        share = np.where(fails, 0.15, 0.045) if weighted else np.full(3000, 0.05)
        drawn = chance.random(3000) < share
        rows = zip(fails[drawn].tolist(), bad[drawn].tolist(), (weight / share)[drawn].tolist(), strict=True)
        labels = [VerdictPair(*each) for each in rows]
        judged = [JudgedVerdict(*each) for each in zip(fails.tolist(), weight.tolist(), strict=True)]
        found = certify(labels, judged, 0.05)
        given += found.certified
        rates.append(found.rate)
    return given / runs, float(np.mean(rates))


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize(("sensitivity", "specificity"), [(0.9, 0.95), (0.5, 0.5)], ids=["good", "useless"])
@pytest.mark.parametrize("runs", [100, pytest.param(1500, marks=pytest.mark.long)])
def test_a_rate_at_the_bound_is_certified_in_at_most_a_twentieth(
    sensitivity: float, specificity: float, weighted: bool, runs: int
) -> None:
    """Whether the judge is good or says nothing; 1.1 and 1.6 % of 1,500 where labels weigh the same, 0 where not."""
    share, rate = certificates(0.05, sensitivity, specificity, weighted=weighted, runs=runs)
    assert share <= 0.05
    assert rate == pytest.approx(0.05, abs=0.007)


def test_a_good_judge_certifies_more_than_a_useless_one() -> None:
    good, _ = certificates(0.01, 0.9, 0.95, weighted=False, runs=60)
    useless, _ = certificates(0.01, 0.5, 0.5, weighted=False, runs=60)
    assert good > 0.7
    assert good >= useless


def test_a_part_without_labels_may_be_anything() -> None:
    judged = [JudgedVerdict(number < 10) for number in range(100)]
    found = certify([VerdictPair(False, False)] * 50, judged, 0.05)
    assert found.judged == pytest.approx(0.1)
    assert not found.certified
    assert found.upper > 0.09


def test_which_side_fails_where_lower_is_better() -> None:
    assert [ScoreScale(0.3, lower_is_better=True).fails(each) for each in (0.2, 0.3, 0.4)] == [False, False, True]
    assert [ScoreScale(0.7).fails(each) for each in (0.6, 0.7, 0.8)] == [True, False, False]
    assert (ScoreScale(lower_is_better=True).is_bad(1.0), ScoreScale().is_bad(1.0)) == (True, False)


RULES = ScoreScale.of(
    Classifier(
        name="tone",
        question="Which tone?",
        labels={
            "rude": LabelDefinition.model_validate({"meaning": "Rude.", "score": 0, "pass": False}),
            "odd": LabelDefinition(meaning="Odd.", score=0.4),
            "kind": LabelDefinition.model_validate({"meaning": "Kind.", "score": 1, "pass": True}),
        },
    )
)


@pytest.mark.parametrize(
    ("scale", "score", "passed", "label", "of_now"),
    [
        (ScoreScale(0.2), 0.5, False, "fail", (True, "pass")),
        (ScoreScale(0.2, lower_is_better=True), 0.5, True, "pass", (False, "fail")),
        (ScoreScale(0.5), 0.5, None, None, (True, "pass")),
        (ScoreScale(), 0.5, False, "fail", (None, None)),
        (ScoreScale(0.2, labels={"fail": None}), 0.5, False, "fail", (True, "fail")),
        (ScoreScale(0.2), 0.5, False, "rude", (True, "rude")),
        (RULES, 0.5, False, "rude", (False, "rude")),
        (RULES, 0.5, True, "rude", (False, "rude")),  # a threshold let it pass, and is not there any more
        (RULES, 0.5, True, "odd", (None, "odd")),
        (RULES, 0.5, None, "kind", (True, "kind")),
        (RULES, 0.5, True, "of an earlier version", (True, "of an earlier version")),
        (ScoreScale(0.5), None, None, None, (None, None)),
    ],
)
def test_a_verdict_is_by_the_present_threshold_or_label(
    scale: ScoreScale,
    score: float | None,
    passed: bool | None,
    label: str | None,
    of_now: tuple[bool | None, str | None],
) -> None:
    found = scale.of_now(scored(score=score, passed=passed, label=label))
    assert (found.passed, found.label) == of_now
    assert scale.of_now(found) == found
