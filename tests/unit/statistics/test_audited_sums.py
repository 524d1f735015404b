"""The mean by audits: its sums on a stream, its formula, its bias, coverage and gain."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from statistics import fmean, pstdev, stdev, variance

import numpy as np
import pytest
from evaluation_samples import scored

from collector.records.audits import AuditScore, audit_of, audit_outcome
from collector.statistics.audited_sums import (
    PRODUCTS,
    SUM_NAMES,
    AuditedClusters,
    AuditedSums,
    CorrectedMean,
    audited_weight,
    totals_of,
)
from evaluators.results import Sampling


def test_the_sums_of_a_stream_are_those_of_whole_conversations_and_never_fall() -> None:
    chance, clusters, whole = Random(3), AuditedClusters(), dict[int, list[float]]()
    streamed = AuditedSums()
    for _ in range(600):
        conversation = chance.randrange(90)
        audit = AuditScore(chance.random(), 0.25) if chance.random() < 0.25 else None
        weight, score = chance.choice((1.0, 4.0)), chance.random()
        grown = clusters.add(conversation, weight=weight, score=score, audit=audit, time=0.0)
        assert min(grown.values) >= 0.0
        streamed += grown
        totals = whole.setdefault(conversation, [0.0] * 5)
        whole[conversation] = [a + b for a, b in zip(totals, totals_of(weight, score, audit), strict=True)]
    assert streamed.values == pytest.approx(AuditedSums.of(whole.values()).values)
    direct = [sum(each[one] * each[other] for each in whole.values()) for one, other in PRODUCTS]
    assert streamed.values[5:] == pytest.approx(direct)


def test_conversations_are_forgotten_by_time_and_number() -> None:
    clusters = AuditedClusters(capacity=2, pause=10.0)
    for number, time in enumerate((0.0, 1.0, 2.0)):
        clusters.add(number, weight=1.0, score=0.5, audit=None, time=time)
    assert len(clusters) == 2
    again = clusters.add(1, weight=1.0, score=0.5, audit=None, time=12.0)
    assert again.values[SUM_NAMES.index("w_w")] == 1.0, "a cluster of its own, eleven seconds later"
    assert len(clusters) == 2


def by_hand(conversations: list[list[float]]) -> CorrectedMean:
    """The docstring's formula, conversation by conversation."""
    a, ay, ax, w, wx = (math.fsum(each[place] for each in conversations) for place in range(5))
    r_y, r_x, x = ay / a, ax / a, wx / w
    p = [(each[1] - r_y * each[0]) / a for each in conversations]
    q = [(each[2] - r_x * each[0]) / a - (each[4] - x * each[3]) / w for each in conversations]
    power = math.fsum(i * j for i, j in zip(p, q, strict=True)) / math.fsum(j * j for j in q)
    ratio = r_y - power * r_x
    bias = math.fsum(each[0] * (each[1] - power * each[2] - ratio * each[0]) for each in conversations) / a**2
    m = a**2 / math.fsum(each[0] ** 2 for each in conversations)
    squares = math.fsum((i - power * j) ** 2 for i, j in zip(p, q, strict=True))
    alone = math.fsum(i * i for i in p)
    error = math.sqrt(squares * m / (m - 2) + 1e-4 / m)
    return CorrectedMean(ratio + power * x + bias, error, power, m, (alone + 1e-4 / m) / (squares + 1e-4 / m))


Totals = "np.ndarray[tuple[int, int], np.dtype[np.float64]]"


def traffic(
    chance: np.random.Generator, conversations: int, share: float, rho: float, *, drift: float = 0.0, bias: float = 0.1
) -> Totals:
    """Totals of conversations of one to five turns that are alike, weighted 1, 2 or 4; the cheap judge is too low.

    The dear score has a mean of 0.7 and a standard deviation of 0.1, the cheap one correlates with it by `rho`.
    """
    turns = chance.choice((1, 1, 2, 3, 5), conversations)
    of = np.repeat(np.arange(conversations), turns)
    number = len(of)
    weight = chance.choice((1.0, 2.0, 4.0), conversations)[of]
    dear = chance.normal(0, 0.5, conversations)[of] + chance.normal(0, math.sqrt(0.75), number)
    cheap = rho * dear + math.sqrt(1 - rho**2) * chance.normal(0, 1, number)
    moved = drift * of / conversations
    y, x = np.clip(0.7 + moved + 0.1 * dear, 0, 1), np.clip(0.7 - bias + moved / 2 + 0.1 * cheap, 0, 1)
    audited = np.where(chance.random(number) < share, weight / share, 0.0)
    parts = (audited, audited * y, audited * x, weight, weight * x)
    return np.stack([np.bincount(of, each, conversations) for each in parts])


def sums_of(totals: Totals) -> AuditedSums:
    """The same as `AuditedSums.of`, faster."""
    products = totals @ totals.T
    return AuditedSums((*map(float, totals.sum(1)), *(float(products[one, other]) for one, other in PRODUCTS)))


def test_the_mean_is_that_of_the_formula() -> None:
    totals = traffic(np.random.default_rng(5), 900, 0.1, 0.7)
    conversations = [[float(value) for value in each] for each in totals.T]
    found, expected = AuditedSums.of(conversations).corrected(), by_hand(conversations)
    assert found is not None
    assert sums_of(totals).values == pytest.approx(AuditedSums.of(conversations).values)
    for name in ("mean", "error", "power", "audits", "gain"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name)), name


def estimates(rho: float, runs: int, *, share: float = 0.05, drift: float = 0.0) -> list[tuple[CorrectedMean, float]]:
    """Corrected means of many samples, each with the mean of the audits alone."""
    chance, made = np.random.default_rng(round(100 * rho)), list[tuple[CorrectedMean, float]]()
    for _ in range(runs):
        sums = sums_of(traffic(chance, 1700, share, rho, drift=drift))
        mean = sums.corrected()
        assert mean is not None
        made.append((mean, sums.values[1] / sums.values[0]))
    return made


@pytest.mark.parametrize(("rho", "drift"), [(0.5, 0.0), (0.7, 0.0), (0.85, 0.0), (0.7, -0.2)])
@pytest.mark.parametrize("runs", [150, pytest.param(4000, marks=pytest.mark.long)])
def test_it_is_unbiased_its_interval_covers_and_it_gains_what_theory_says(rho: float, drift: float, runs: int) -> None:
    """About 4,000 turns of 1,700 conversations, 5 % of them audited."""
    truth = 0.7 + 0.5 * drift * (1700 - 1) / 1700
    made = estimates(rho, runs, drift=drift)
    errors = [mean.mean - truth for mean, _ in made]
    assert abs(fmean(errors)) < 0.001 + 2.5 * stdev(errors) / math.sqrt(runs)
    covered = fmean(abs(error) <= 1.96 * mean.error for error, (mean, _) in zip(errors, made, strict=True))
    assert abs(covered - 0.95) < 0.02 + 2.5 * math.sqrt(0.95 * 0.05 / runs) * (runs < 1000)
    if not drift:
        theory = 1 / (1 - rho**2 * 0.95)
        assert fmean(mean.gain for mean, _ in made) == pytest.approx(theory, rel=0.1)
        if runs >= 1000:
            alone = variance([each for _, each in made]) / variance(errors)
            assert alone == pytest.approx(theory, rel=0.1)


def test_few_audits_give_no_mean_and_a_useless_cheap_score_does_no_harm() -> None:
    few = sums_of(traffic(np.random.default_rng(1), 60, 0.1, 0.7))
    assert 0 < few.audits < 30
    assert few.corrected() is None
    assert AuditedSums().corrected(fewest=0) is None
    flat = [[20.0 * (number % 20 == 0), 20.0 * (number % 40 == 0), 10.0 * (number % 20 == 0), 1.0, 0.5]
            for number in range(2000)]  # fmt: skip
    mean = AuditedSums.of(flat).corrected()
    assert mean is not None
    assert (mean.power, mean.mean, mean.gain) == (0.0, pytest.approx(0.5), 1.0)
    assert mean.error == pytest.approx(pstdev([0.0, 1.0]) / math.sqrt(100), rel=0.03)


def test_an_audit_is_read_from_the_details_and_weighs_by_its_draw() -> None:
    noted = {"score": 0.25, "probability": 0.05, "version": "abc", "model": "m"}
    evaluation = replace(scored(), score=0.5, details={"audit": noted})
    assert audit_of(evaluation) == AuditScore(0.25, 0.05, "abc")
    assert audit_outcome(evaluation) == "scored"
    lacking = replace(evaluation, details={"audit": {"probability": 0.05, "reason": "judge_unavailable"}})
    assert audit_of(lacking) is None
    assert audit_outcome(lacking) == "judge_unavailable"
    for wrong in ({}, {"audit": 3}, {"audit": {**noted, "score": 2.0}}, {"audit": {**noted, "probability": 0}}):
        assert audit_of(replace(evaluation, details=wrong)) is None
    assert audit_outcome(scored()) is None
    weight = audited_weight(Sampling(probability=0.5, upstream=0.1), AuditScore(0.25, 0.05))
    assert (weight.full, weight.own) == (pytest.approx(40.0), pytest.approx(4.0))
