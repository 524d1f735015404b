"""The mean by people through the real parts: the queue's draw, stored labels, the index, the sums, the formula."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from statistics import NormalDist, fmean, stdev

import pytest
from evaluation_samples import START, scored

from collector.calibration.agreement_watch import labels_of_queue, people_sums
from collector.calibration.page_labels import LabelIndex
from collector.logs.log import StoredRecord
from collector.page.label_queue import LabelQueue, LabelQueueSettings, QueuedEvaluation, QueueVerdict, draw
from collector.page.view import EvaluatorView, ListedEvaluation, View
from collector.records.audits import FEWEST_AUDITS, audit_of
from collector.records.json import label_to_json
from collector.statistics.audited_sums import (
    AuditedClusters,
    AuditedSums,
    CorrectedMean,
    corrected_by_people,
    sums_of_scores,
)
from collector.statistics.bounded_sums import BoundedSums, Sums, Weight
from evaluators.results import Evaluation, Sampling

THRESHOLD = 0.5
OF = EvaluatorView(monitor="chatbot", evaluator="answers_question", threshold=THRESHOLD)
VERSION = ("answers_question", "0123456789ab")
AUDITS = ("answers_question:audit", "dear")
_BAR = {1.0: -1.0, 2.0: -0.6, 4.0: -0.2}
"""How good an answer has to be for people, by weight: the rarely sampled are worse, so weights matter."""


@dataclass(frozen=True, slots=True)
class Planted:
    """Traffic of one sample: `rho` is how much the judges know, the cheap one is too low, all get worse by `drift`."""

    rho: float
    drift: float = 0.0
    audited: float = 0.0

    @property
    def truth(self) -> float:
        steps = [number / 200 for number in range(200)]
        total = sum(
            weight * fmean(NormalDist().cdf(-bar - self.drift * at) for at in steps) for weight, bar in _BAR.items()
        )
        return total / sum(_BAR)


def traffic(chance: Random, of: Planted, conversations: int) -> Iterator[tuple[Evaluation, bool]]:
    """Evaluations with what people would say of them; turns of a conversation are alike."""
    number = 0
    for conversation in range(conversations):
        weight, common = chance.choice((1.0, 2.0, 4.0)), chance.gauss(0.0, 0.5)
        at = conversation / conversations
        for _ in range(chance.choice((1, 1, 2, 3))):
            number += 1
            quality = common + chance.gauss(0.0, math.sqrt(0.75)) - of.drift * at
            cheap = of.rho * quality + math.sqrt(1 - of.rho**2) * chance.gauss(0.0, 1.0)
            details = {}
            if chance.random() < of.audited:
                dear = 0.6 + 0.15 * (0.9 * quality + math.sqrt(0.19) * chance.gauss(0.0, 1.0))
                details = {"audit": {"score": min(1.0, max(0.0, dear)), "probability": of.audited, "version": "dear"}}
            yield (
                replace(
                    SCORED,
                    evaluation_id=f"{chance.getrandbits(128):032x}",
                    subject=replace(SCORED.subject, conversation_id=str(conversation)),
                    score=min(1.0, max(0.0, 0.5 + 0.15 * cheap)),
                    sampling=Sampling(probability=1.0 / weight),
                    details=details,
                ),
                quality > _BAR[weight],
            )


SCORED = replace(scored(), monitor="chatbot")
QUEUE = LabelQueue(View([OF]), LabelQueueSettings(random=0.05, doubtful=0.1, audited=0.5))


def corrected_mean(chance: Random, of: Planted, conversations: int) -> CorrectedMean:
    """One sample, through all parts."""
    index, scores, audits = LabelIndex(), BoundedSums(), AuditedClusters()
    sums, audited = [0.0] * 5, AuditedSums()
    for evaluation, good in traffic(chance, of, conversations):
        assert evaluation.score is not None
        time, key = START.timestamp(), evaluation.subject.conversation_id
        weight = Weight.of(evaluation.sampling)
        grown = scores.add("series", key, weight=weight, score=evaluation.score, time=time).mean
        sums = [a + b for a, b in zip(sums, (grown.w, grown.wy, grown.w2, grown.w2y, grown.w2y2), strict=True)]
        if of.audited:
            audited += audits.add(key, weight=grown.w, score=evaluation.score, audit=audit_of(evaluation), time=time)
        how = draw(evaluation, THRESHOLD, QUEUE._settings)  # pyright: ignore[reportPrivateUsage]
        if how is not None:
            queued = QueuedEvaluation(ListedEvaluation(evaluation, 0, 0, time), how, {})
            given = QUEUE.label_of(queued, QueueVerdict(by="ann", verdict="good" if good else "bad"), START)
            index.add(StoredRecord(0, 0, time, b"k", label_to_json(given)))
    of_audits = people_sums(labels_of_queue(index.labels(AUDITS)), are_scored=False)
    if of_audits.audits >= FEWEST_AUDITS:
        labels = of_audits
        mean = audited.corrected()
        assert mean is not None
        found = corrected_by_people(labels, mean)
    else:
        labels = people_sums(labels_of_queue(index.labels(VERSION)))
        found = (labels + sums_of_scores(Sums(*sums))).corrected()
    assert found is not None
    return found


@pytest.mark.parametrize(
    "of",
    [
        Planted(0.5),
        Planted(0.7),
        Planted(0.85),
        Planted(0.7, drift=0.5),
        Planted(0.5, audited=0.3),
        Planted(0.5, audited=0.05),
    ],
    ids=["half", "some", "much", "drift", "audited", "few_audited"],
)
@pytest.mark.parametrize("runs", [12, pytest.param(1000, marks=pytest.mark.nightly)])
def test_people_correct_the_mean_without_bias_and_their_interval_covers(of: Planted, runs: int) -> None:
    chance = Random(11)
    made = [corrected_mean(chance, of, 1000) for _ in range(runs)]
    errors = [each.mean - of.truth for each in made]
    print(of, "bias", fmean(errors), "±", stdev(errors) / math.sqrt(runs),
          "covered", fmean(abs(e) <= 1.96 * m.error for e, m in zip(errors, made, strict=True)),
          "labels", fmean(m.audits for m in made), "gain", fmean(m.gain for m in made))  # fmt: skip
    assert abs(fmean(errors)) < 0.005 + 3.0 * stdev(errors) / math.sqrt(runs) * (runs < 500)
    covered = sum(abs(error) <= 1.96 * mean.error for error, mean in zip(errors, made, strict=True))
    assert 0.915 - 0.15 * (runs < 500) <= covered / runs <= 0.97 + 0.03 * (runs < 500)
    naive = [each.mean for each in made]
    assert fmean(naive) > 0


def test_what_others_pick_of_what_was_drawn_does_not_enter_the_mean() -> None:
    """Somebody looks through the worst and speaks where they disagree; others have labelled some of these blindly."""
    chance, index = Random(3), LabelIndex(most=10_000)
    blind: list[tuple[float, float]] = []
    for evaluation, good in traffic(chance, Planted(0.5), 6000):
        assert evaluation.score is not None
        time, weight = START.timestamp(), 1.0 / evaluation.sampling.probability
        how = draw(evaluation, THRESHOLD, QUEUE._settings)  # pyright: ignore[reportPrivateUsage]
        if how is None:
            continue
        queued = QueuedEvaluation(ListedEvaluation(evaluation, 0, 0, time), how, {})
        seen = [good if chance.random() < 0.8 else not good for _ in range(2)]  # people err, each on their own
        drawn = QUEUE.label_of(queued, QueueVerdict(by="ann", verdict="good" if seen[0] else "bad"), START)
        index.add(StoredRecord(0, 0, time, b"k", label_to_json(drawn)))
        if evaluation.score < THRESHOLD and seen[1]:
            by_hand = replace(drawn, label_id="p", given_by="ben", score=1.0, label_probability=None)
            index.add(StoredRecord(0, 0, time, b"k", label_to_json(by_hand)))
        blind.append((weight / how.probability, float(seen[0])))

    def mean(of: list[tuple[float, float]]) -> float:
        return sum(weight * value for weight, value in of) / sum(weight for weight, _ in of)

    labels = [(each.weighted().weight, each.human) for each in labels_of_queue(index.labels(VERSION))]
    assert len(labels) == len(blind)
    assert mean(labels) == pytest.approx(mean(blind)), "with what is picked it is 0.046 too good"
