"""The corrected mean of a cascade: unbiased, with an error that is right, out of the counters of /metrics."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

import pytest
from evaluation_samples import scored
from prometheus_client import generate_latest

from collector.export.exporter import ExportContext, MonitoredEvaluator
from collector.export.prometheus import PrometheusExporter, PrometheusSettings
from collector.statistics.bounded_sums import BoundedSums, Weight
from collector.telemetry.registry import Telemetry
from evaluators.cases import Turn
from evaluators.judge import NoJudge
from evaluators.judges.cascade import Cascade
from evaluators.results import Escalation, Evaluation, Sampling, Score
from evaluators.turn.g_eval import GEval

LABELS = {"evaluator": "answers_question", "evaluator_version": "0123456789ab", "monitor": "helpdesk"}
WATCHED = MonitoredEvaluator(**LABELS, threshold=0.5)
SHARE = 0.1
CASCADE = Cascade(NoJudge(), NoJudge(), share=SHARE)
JUDGED = replace(WATCHED, cascade_share=SHARE)
EVALUATOR = GEval(name="answers_question", evaluation_steps=("Look.",), evaluation_params=("actual_output",))


class Judged(NamedTuple):
    """What a cascade came to in one turn."""

    conversation: int
    weight: float
    score: float
    escalation: Escalation


def traffic(run: int, conversations: int) -> tuple[list[Judged], float]:
    """Evaluations of a cascade whose first judge is sure and too kind to a tenth, and the mean of the second one.

    Conversations have 1 to 4 turns that resemble each other, and weights of 1 to 4.
    """
    draw = random.Random(run)
    made: list[Judged] = []
    strong: list[float] = []
    for conversation in range(conversations):
        good = draw.betavariate(4, 2)
        probability = draw.choice((1.0, 0.5, 0.25))
        is_sampled = draw.random() < probability
        for number in range(draw.randint(1, 4)):
            y = float(draw.random() < good)
            strong.append(y)
            x, deviation = (0.95 if y or draw.random() < 0.3 else 0.05), 0.2
            if draw.random() < 0.2:
                x, deviation = 0.6, 0.45  # in doubt
            if not is_sampled:
                continue
            first = Score(value=x, method="decision", details={"uncertainty": deviation})
            step = CASCADE.escalation(EVALUATOR, Turn(turn_id=f"{run}/{conversation}/{number}"), first)
            assert step is not None
            made.append(Judged(conversation, 1 / probability, y if step.asks else x, step))
    return made, fmean(strong)


def estimate(judged: list[Judged]) -> tuple[float, float, float]:
    """The corrected mean, its error, and the mean without correction, from the increments of the real sums."""
    sums, plain, corrected, shift = BoundedSums(), [0.0] * 3, [0.0] * 3, 1 / SHARE - 1
    for each in judged:
        value = each.escalation.corrected(each.score)
        assert value is not None
        for name, into, score in (("plain", plain, each.score), ("corrected", corrected, value + shift)):
            weight = Weight(each.weight, each.weight)
            grown = sums.add(name, each.conversation, weight=weight, score=score, time=0.0).mean
            into[0] += grown.wy
            into[1] += grown.w2y if name == "corrected" else grown.w
            into[2] += grown.w2y2 if name == "corrected" else grown.w2
    (wy, w, w2), (wz, w2z, w2z2) = plain, corrected
    return wz / w - shift, error_of(w, w2, wz, w2z, w2z2), wy / w


def error_of(w: float, w2: float, wz: float, w2z: float, w2z2: float) -> float:
    shifted = wz / w
    return math.sqrt(max(0.0, w2z2 - 2 * shifted * w2z + shifted**2 * w2)) / w


def as_evaluation(number: int, judged: Judged) -> Evaluation:
    sampling = Sampling(probability=1 / judged.weight)
    one = scored(number, score=judged.score, sampling=sampling, escalation=judged.escalation)
    return replace(one, subject=replace(one.subject, conversation_id=f"c{judged.conversation}"))


class Exported:
    """What /metrics says after some evaluations."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._registry = telemetry.registry

    def __getitem__(self, name: str) -> float | None:
        return self.value(name, **LABELS, segment="all")

    def value(self, name: str, **labels: str) -> float | None:
        return self._registry.get_sample_value(name, labels)


async def exported(*evaluations: Evaluation, watched: MonitoredEvaluator) -> Exported:
    context = ExportContext(telemetry=Telemetry(), evaluators=(watched,))
    exporter = PrometheusExporter(PrometheusSettings(), context)
    generate_latest(context.telemetry.registry)
    await exporter.export(evaluations)
    return Exported(context.telemetry)


def test_the_mean_is_that_of_the_second_judge_and_the_error_covers_it():
    """Few runs here; with 300 of 1,000 conversations see deploy/docs/evaluators.md."""
    runs = 25
    errors: list[float] = []
    plain: list[float] = []
    covered = 0
    for run in range(runs):
        judged, truth = traffic(run, 250)
        mean, error, uncorrected = estimate(judged)
        errors.append(mean - truth)
        plain.append(uncorrected - truth)
        covered += abs(mean - truth) <= 1.96 * error
    assert abs(fmean(errors)) < 0.03
    assert fmean(plain) > 0.04  # what the first judge is sure and wrong about
    assert 0.8 <= covered / runs <= 1.0


async def test_the_counters_have_these_sums():
    judged, _ = traffic(1, 100)
    seen = await exported(*(as_evaluation(*each) for each in enumerate(judged)), watched=JUDGED)
    w, wy, w2 = (seen[f"evalstream_estimator_{name}_total"] or 0.0 for name in ("w", "wy", "w2"))
    wz, w2z, w2z2 = (seen[f"evalstream_corrected_{name}_total"] or 0.0 for name in ("wy", "w2y", "w2y2"))
    shift = seen.value("evalstream_corrected_shift", **LABELS)
    assert shift == pytest.approx(1 / SHARE - 1)
    found = (wz / w - (shift or 0.0), error_of(w, w2, wz, w2z, w2z2), wy / w)
    assert found == pytest.approx(estimate(judged))


async def test_escalations_are_counted_by_reason_and_a_cascade_without_a_share_has_no_corrected_mean():
    evaluations = [as_evaluation(*each) for each in enumerate(traffic(1, 50)[0])]
    seen = await exported(*evaluations, watched=replace(WATCHED, cascade_share=0.0))
    counts = {
        reason: seen.value(
            "evalstream_escalations_total", evaluator="answers_question", monitor="helpdesk", reason=reason
        )
        for reason in ("sure", "share", "doubt", "unknown", "unreadable")
    }
    assert counts == {
        reason: sum(each.escalation is not None and each.escalation.reason == reason for each in evaluations)
        for reason in counts
    }
    assert seen["evalstream_corrected_wy_total"] is None


async def test_evaluators_without_a_cascade_have_none_of_these_series():
    seen = await exported(scored(1), watched=WATCHED)
    assert seen["evalstream_corrected_wy_total"] is None
    assert seen["evalstream_estimator_w_total"] == 4.0
