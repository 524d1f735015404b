"""What `calibrate` says by labels that were drawn with known probabilities, some of them of the same conversation.

Populations of verdicts or five levels, of which every answer is drawn with probability .05, doubtful ones (near the
threshold) with .25; conversations of several turns fail together.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from collector.calibration.labels import HumanLabel, weighted_pairs
from collector.commands.calibrate.calibrate import CalibrateOptions, calibration, mean_by_people
from collector.statistics.agreement import ScoreScale, agreement, interval, verdict_agreement, weighted_kappa
from collector.statistics.certificate import JudgedVerdict, VerdictPair, certify
from collector.statistics.correction import WeightedScore

SCALE = ScoreScale(0.5)


def population(rng: np.random.Generator, size: int, turns: int, levels: int) -> tuple[np.ndarray, ...]:
    """Judge's and people's scores, and conversations, whose turns are alike in part."""
    conversation = np.repeat(np.arange(size // turns), turns)
    alike = np.sqrt(0.6) * rng.standard_normal(size // turns)[conversation] if turns > 1 else 0.0
    quality = 0.5 + alike + np.sqrt(0.4 if turns > 1 else 1.0) * rng.standard_normal(len(conversation))
    judge = np.clip(np.round((0.5 + 0.3 * (quality + 0.5 * rng.standard_normal(len(quality)))) * 20), 0, 20) / 20
    people = np.clip(np.round((0.5 + 0.3 * (quality + 0.5 * rng.standard_normal(len(quality)))) * levels), 0, levels)
    return judge, people / levels, conversation


def drawn(rng: np.random.Generator, judge: np.ndarray, people: np.ndarray, conversation: np.ndarray, share: float):
    doubtful = np.abs(judge - 0.5) <= 0.1
    probability = np.where(doubtful, 5 * share, share)
    chosen = np.flatnonzero(rng.random(len(judge)) < probability)
    return [
        HumanLabel(judge[n], people[n], "all", 1.0, float(probability[n]), conversation=f"c{conversation[n]}")
        for n in chosen
    ]


def whole(rng: np.random.Generator, judge: np.ndarray, people: np.ndarray, conversation: np.ndarray, share: float):
    chosen = np.flatnonzero((rng.random(conversation.max() + 1) < share)[conversation])
    return [HumanLabel(judge[n], people[n], "all", 1.0, share, conversation=f"c{conversation[n]}") for n in chosen]


def coverage(turns: int, levels: int, runs: int, samples: int) -> dict[str, float]:
    """How often each interval covers the measure of the whole population."""
    rng = np.random.default_rng(turns)
    everything = population(rng, 60_000, turns, levels)
    truth = agreement("all", list(zip(*map(list, everything[:2]), strict=True)), SCALE, samples=1).measures
    hits, counts = dict.fromkeys(truth, 0), dict.fromkeys(truth, 0)
    hits["mean"] = counts["mean"] = 0
    for _ in range(runs):
        part = population(rng, 2_000, turns, levels)
        labels = drawn(rng, *part, 0.06) if turns == 1 else whole(rng, *part, 0.12)
        for name, (_, bounds) in agreement("all", weighted_pairs(labels), SCALE, samples=samples).measures.items():
            if bounds is not None:
                counts[name] += 1
                hits[name] += bounds[0] <= truth[name][0] <= bounds[1]
        scores = [WeightedScore(x, 1.0, f"c{c}") for x, c in zip(part[0], part[2], strict=True)]
        labels = [replace(label, name="e") for label in labels]
        found = mean_by_people(labels, scores)
        assert found is not None
        counts["mean"] += 1
        hits["mean"] += found.interval[0] <= everything[1].mean() <= found.interval[1]
    return {name: hits[name] / counts[name] for name in hits}


def test_measures_are_those_of_the_traffic_and_not_of_what_was_labelled() -> None:
    rng = np.random.default_rng(2)
    everything = population(rng, 60_000, 1, 1)
    plain = [*zip(*map(list, everything[:2]), strict=True)]
    truth = agreement("all", plain, SCALE, samples=1).measures
    labels = drawn(rng, *everything, 0.1)
    found = agreement("all", weighted_pairs(labels), SCALE, samples=1).measures
    blind = agreement("all", [(label.judge, label.human) for label in labels], SCALE, samples=1).measures
    for name in ("spearman", "kendall_tau_b", "weighted_kappa", "krippendorff_alpha", "cohen_kappa", "youden_j"):
        assert found[name][0] == pytest.approx(truth[name][0], abs=0.03)
        assert blind[name][0] < truth[name][0] - 0.05, "what forgetting the probabilities would show"
    pairs = weighted_pairs(labels)
    assert SCALE.threshold_for(pairs, 0.9) == pytest.approx(SCALE.threshold_for(plain, 0.9), abs=0.051)
    assert verdict_agreement(weighted_pairs(labels), SCALE).kappa.value == pytest.approx(found["cohen_kappa"][0])


def test_turns_of_a_conversation_are_drawn_together() -> None:
    rng = np.random.default_rng(3)
    labels = whole(rng, *population(rng, 2_000, 10, 1), 0.1)
    pairs = weighted_pairs(labels)
    together = interval(pairs, weighted_kappa, samples=300)
    alone = interval([pair._replace(conversation="") for pair in pairs], weighted_kappa, samples=300)
    assert together is not None
    assert alone is not None
    assert together[1] - together[0] > 1.3 * (alone[1] - alone[0])


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("turns", "levels"), [(1, 1), (1, 4), (5, 1)])
def test_95_percent_intervals_cover(turns: int, levels: int) -> None:
    found = coverage(turns, levels, 200, 200)
    print(turns, levels, {name: f"{share:.1%}" for name, share in found.items()})
    assert min(found.values()) >= 0.91


def certified(turns: int, runs: int) -> float:
    """How often a rate at its bound of 5 % is certified, of conversations of so many turns that fail together."""
    rng, given = np.random.default_rng(turns), 0
    for _ in range(runs):
        number = 3000 // turns
        bad = np.repeat(rng.random(number) < 0.05, turns)
        conversation = np.repeat(np.arange(number), turns)
        fails = np.where(bad, rng.random(len(bad)) < 0.9, rng.random(len(bad)) < 0.05)
        chosen = np.flatnonzero((rng.random(number) < 0.05 * (1 if turns == 1 else 3))[conversation])
        weight = number * turns / max(1, len(chosen))
        labels = [VerdictPair(bool(fails[n]), bool(bad[n]), weight, f"c{conversation[n]}") for n in chosen]
        judged = [JudgedVerdict(bool(x), 1.0, f"c{c}") for x, c in zip(fails, conversation, strict=True)]
        given += certify(labels, judged, 0.05).certified
    return given / runs


@pytest.mark.timeout(600)
@pytest.mark.parametrize("turns", [1, 3, 5, 10])
@pytest.mark.parametrize("runs", [60, pytest.param(1500, marks=pytest.mark.nightly)])
def test_conversations_that_fail_together_are_not_certified_at_the_bound(turns: int, runs: int) -> None:
    share = certified(turns, runs)
    print(f"{turns} turns: certified {share:.1%} of {runs}")
    assert share <= 0.02 + 2 * math.sqrt(0.02 / runs)


def divided(judge: float, number: int) -> list[HumanLabel]:
    """Two labellers of whom one fails the answer."""
    return [
        HumanLabel(judge, 0.5, "all", 4.0, 1.0, by={"ann": (0, 1), "bob": (0, 0)}, conversation=f"{judge} {n}")
        for n in range(number)
    ]


def agreed(judge: float, human: float, number: int) -> list[HumanLabel]:
    return [
        replace(label, human=human, conversation=f"{label.conversation} {human}") for label in divided(judge, number)
    ]


@pytest.mark.parametrize("scale", [SCALE, ScoreScale(0.5, lower_is_better=True)])
def test_people_who_are_divided_count_half_each_way(scale: ScoreScale) -> None:
    """As good, they would raise the agreement with a judge that passes everything."""
    labels = [*divided(1.0, 20), *agreed(1.0, 1.0, 20), *agreed(0.0, 0.0, 20)]
    found = agreement("all", weighted_pairs(labels), scale, samples=20).measures
    of_drawn = verdict_agreement(weighted_pairs(labels), scale)
    assert found["equal_verdicts"][0] == of_drawn.share.value == pytest.approx(50 / 60)
    parts = sorted((found["sensitivity"][0], found["specificity"][0]))
    assert parts == pytest.approx([20 / 30, 1.0])
    assert of_drawn.kappa.value == pytest.approx(found["cohen_kappa"][0])
    assert of_drawn.number == pytest.approx(60), "each answer is still one"


def test_people_who_are_divided_count_half_each_way_in_a_certificate() -> None:
    """As good, the rate of failures would be too low, and every tie counts as one label."""
    options = CalibrateOptions(labels=None, evaluator="exact", certify=0.5)
    labels = [*divided(1.0, 20), *agreed(1.0, 1.0, 20)]
    scores = [WeightedScore(label.judge, 4.0, label.conversation) for label in labels]
    found = calibration(options, labels, scores, SCALE).certificate
    assert found is not None
    assert (found.rate, found.labels) == (pytest.approx(0.25), 40)
    middle = [replace(label, by={}) for label in labels]
    alone = calibration(options, middle, scores, SCALE).certificate
    assert alone is not None
    assert alone.rate == 0.0, "the middle grade of one person passes"
