"""Segments: closed, whatever values strangers send."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from evaluation_samples import scored
from pydantic import ValidationError

from collector.export.exporter import ExportContext, MonitoredEvaluator
from collector.export.prometheus import PrometheusExporter, PrometheusSettings
from collector.export.segments import SETTLING, Segments, count_segments, dimensions_of
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import AUDITED_SUMS, CORRECTED_SUMS, ESTIMATOR_CLIPPED, ESTIMATOR_SUMS, EVIDENCE_SUMS
from evaluators.results import Escalation, Evaluation, Sampling


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def segments(segment_by: Any, values: tuple[str, ...] = ()) -> tuple[Segments, list[str], Clock]:
    announced: list[str] = []
    clock = Clock()
    return Segments(dimensions_of(segment_by, values), announced.append, clock), announced, clock


def test_without_dimensions_everything_is_all() -> None:
    made, announced, _ = segments(None)
    assert made.of({"tier": "gold"}) == "all"
    assert announced == ["all"]


def test_named_values_and_the_rest() -> None:
    made, announced, _ = segments("tier", ("gold", "free"))
    assert [made.of({"tier": each}) for each in ("gold", "free", "else", None, 7)] == ["gold", "free", *["other"] * 3]
    assert sorted(announced) == ["free", "gold", "other"]


def test_several_dimensions_are_combined() -> None:
    made, announced, _ = segments({"tier": ["gold", "free"], "language": ["de"]})
    assert made.of({"tier": "gold", "language": "de"}) == "tier=gold,language=de"
    assert made.of({"tier": "gold", "language": "fr"}) == "tier=gold,language=other"
    assert made.of({}) == "tier=other,language=other"
    assert (
        len(announced)
        == len(set(announced))
        == count_segments(dimensions_of({"tier": ["gold", "free"], "language": ["de"]}))
    )


def test_the_most_frequent_values_become_labels_once_their_series_were_seen_at_0() -> None:
    made, announced, clock = segments({"model": 2})
    for _ in range(30):
        assert made.of({"model": "m-1"}) == "other"
    assert announced == ["other", "m-1"]
    clock.now += SETTLING
    assert made.of({"model": "m-1"}) == "m-1"


def test_a_new_release_takes_the_place_of_one_that_became_rare() -> None:
    made, _, clock = segments({"service_version": 2})
    for version in ("1.0", "1.1", "1.2", "1.3"):
        for _ in range(9000):
            made.of({"service_version": version})
        clock.now += 7 * 86_400
        assert made.of({"service_version": version}) == version
    assert made.of({"service_version": "1.0"}) == "other"


@pytest.mark.parametrize("text", ["x" * 65, "a,b", "a=b", 'a"b', "a\nb", "", "{}"])
def test_what_is_no_label_never_becomes_one(text: str) -> None:
    made, announced, clock = segments({"tier": 3})
    for _ in range(500):
        made.of({"tier": text})
        clock.now += 1
    assert announced == ["other"]


def test_a_flood_of_values_makes_no_label_and_takes_none_away() -> None:
    """Nine of ten values are new ones: the honest ones keep their labels, and no other appears."""
    chance = random.Random(5)
    made, announced, clock = segments({"tier": 5})
    for number in range(60_000):
        clock.now += 1.0
        made.of({"tier": chance.choice(["gold", "free"]) if number % 10 == 0 else f"junk-{number}"})
    assert sorted(announced) == ["free", "gold", "other"]
    assert made.of({"tier": "gold"}) == "gold"


def test_values_that_take_turns_cannot_multiply_series() -> None:
    """Somebody with most of the traffic sends one value after the other, each until it is a label."""
    made, announced, clock = segments({"tier": 5, "language": ["de"]})
    for number in range(200_000):
        clock.now += 1.0
        made.of({"tier": f"value-{number // 400}"})
    assert len(announced) <= 2 * count_segments(dimensions_of({"tier": 5, "language": ["de"]})) + 1


async def test_series_of_a_flooded_exporter_are_bounded() -> None:
    watched = tuple(
        MonitoredEvaluator(evaluator=name, evaluator_version="0" * 12, monitor="all", threshold=0.5) for name in "abc"
    )
    telemetry = Telemetry()
    exporter = PrometheusExporter(
        PrometheusSettings(segment_by={"tier": 4, "model": 3}), ExportContext(telemetry=telemetry, evaluators=watched)
    )
    before = len(list(samples(telemetry)))  # also the first scrape
    for number in range(3000):
        await exporter.export([scored(number, attributes={"tier": f"t{number}", "model": f"m{number // 3}"})])
    after = len(list(samples(telemetry)))
    # the evaluator of the samples is none of the watched: it adds one set of series
    assert after <= before + 60, (before, after)


def samples(telemetry: Telemetry) -> list[str]:
    return [sample.name for family in telemetry.registry.collect() for sample in family.samples]


SUMS = {each.name for each in (*ESTIMATOR_SUMS, *EVIDENCE_SUMS, *CORRECTED_SUMS, AUDITED_SUMS, ESTIMATOR_CLIPPED)}


def crossing() -> list[Evaluation]:
    """Scores of a cascade with audits: conversations of 8 turns, gold and free by turns, and half as many of one turn."""
    chance, made = random.Random(5), list[Evaluation]()
    for number in range(400):
        conversation = f"long {number % 25}" if number % 9 else f"short {number}"
        one = scored(number, sampling=Sampling(probability=chance.choice((0.02, 0.5, 1.0))), score=chance.random())
        made.append(
            replace(
                one, subject=replace(one.subject, conversation_id=conversation),
                attributes={"tier": "gold" if number % 9 and number % 2 else "free"},
                details={"audit": {"probability": 0.5, "score": chance.random(), "version": "dear"}} if number % 3 else {},
                escalation=Escalation(reason="sure", probability=0.5),
            )
        )  # fmt: skip
    return made


async def sums_after(evaluations: list[Evaluation], *, by_segment: bool = False, **settings: Any) -> Counter[str]:
    """The counters from which means are made, over all segments."""
    watched = MonitoredEvaluator(
        evaluator="answers_question", evaluator_version="0123456789ab", monitor="helpdesk", cascade_share=0.5,
        audit_version="dear", by_segment=by_segment,
    )  # fmt: skip
    telemetry, sums = Telemetry(), Counter[str]()
    exporter = PrometheusExporter(
        PrometheusSettings(**settings), ExportContext(telemetry=telemetry, evaluators=(watched,))
    )
    samples(telemetry)  # the first scrape
    await exporter.export(evaluations)
    for sample in (sample for family in telemetry.registry.collect() for sample in family.samples):
        if sample.name in SUMS:
            sums[f"{sample.name} {sample.labels['evaluator']} {sample.labels.get('sum', '')}"] += sample.value
    return sums


async def test_a_mean_over_all_segments_has_the_same_sums_as_without_segments() -> None:
    """A conversation counted once in each of its segments, and each segment had a scale of weights of its own: errors
    were too small, and the drop detector's mean was another than that of all scores.
    """
    evaluations = crossing()
    sums = await sums_after(evaluations, segment_by={"tier": ["gold", "free"]})
    assert len(sums) == 5 + 5 + 3 + 1 + 20 + 5 + 1
    assert sums == pytest.approx(await sums_after(evaluations))


async def test_where_alerts_are_on_segments_each_has_the_sums_of_its_own_scores() -> None:
    evaluations = crossing()
    sums = await sums_after(evaluations, by_segment=True, segment_by={"tier": ["gold", "free"]})
    parts = Counter[str]()
    for tier in ("gold", "free"):
        parts.update(await sums_after([each for each in evaluations if each.attributes["tier"] == tier]))
    assert sums == pytest.approx(parts)


def test_too_many_combinations_are_refused() -> None:
    with pytest.raises(
        ValidationError, match=r"makes 1,331 combinations.*at most 500.*name fewer attributes or values"
    ):
        PrometheusSettings(segment_by=["tier", "model", "language"])
    with pytest.raises(ValidationError, match=r"segments: are the values of one attribute"):
        PrometheusSettings(segment_by=["tier"], segments=("gold",))
    assert count_segments(PrometheusSettings(segment_by=["tier", "model"]).dimensions) == 121
