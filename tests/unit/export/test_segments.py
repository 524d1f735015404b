"""Segments: closed, whatever values strangers send."""

from __future__ import annotations

import random
from typing import Any

import pytest
from evaluation_samples import scored
from pydantic import ValidationError

from collector.export.exporter import ExportContext, MonitoredEvaluator
from collector.export.prometheus import PrometheusExporter, PrometheusSettings
from collector.export.segments import SETTLING, Segments, count_segments, dimensions_of
from collector.telemetry.registry import Telemetry


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


def test_too_many_combinations_are_refused() -> None:
    with pytest.raises(
        ValidationError, match=r"makes 1,331 combinations.*at most 500.*name fewer attributes or values"
    ):
        PrometheusSettings(segment_by=["tier", "model", "language"])
    with pytest.raises(ValidationError, match=r"segments: are the values of one attribute"):
        PrometheusSettings(segment_by=["tier"], segments=("gold",))
    assert count_segments(PrometheusSettings(segment_by=["tier", "model"]).dimensions) == 121
