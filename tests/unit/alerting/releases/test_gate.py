"""The gate: what it says of versions that are worse, alike or barely seen, and how often it is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from release_traffic import BEGAN, Traffic, rules

from collector.alerting.releases.gate import GateAnswer, GateQuestion, decide
from collector.alerting.releases.hourly_scores import HOUR, ComparedAttribute, ComparedPlace, HourlyScores, Judged
from collector.alerting.releases.releases import ReleaseRules
from collector.statistics.estimator import Sums

ASKED = GateQuestion(attribute="service_version", version="1.43", against="1.42")


def at(traffic: Traffic, hour: int, of: ReleaseRules | None = None, **changes: Any) -> GateAnswer:
    return decide(traffic.parts, of or rules(), replace(ASKED, **changes), BEGAN + hour * HOUR)


def both(hours: int, count: int, mean: float, **attributes: str) -> Traffic:
    traffic = Traffic()
    for hour in range(hours):
        traffic.hour(hour, "1.42", count, **attributes)
        traffic.hour(hour, "1.43", count, mean=mean, **attributes)
    return traffic


def test_a_worse_version_is_rolled_back_with_its_interval_in_the_reason() -> None:
    answer = at(both(10, 100, 0.6), 10)
    assert answer.decision == "roll back"
    assert answer.reason.startswith("helpful of all (shop) is worse for sure: -0.2")
    assert "side by side" in answer.reason
    assert "effective conversations of 1.42 and" in answer.reason


def test_one_that_cannot_be_worse_by_the_tolerance_is_promoted() -> None:
    traffic = both(30, 100, 0.8)
    answer = at(traffic, 30)
    assert answer.decision == "promote"
    assert answer.reason.startswith("no evaluator is worse by 0.05; nearest to it is helpful of all (shop): ")
    strict = at(traffic, 30, tolerance=0.01)
    assert strict.decision == "hold"
    assert "may still be worse by 0.01" in strict.reason


@pytest.mark.parametrize(
    ("traffic", "hour", "changes", "reason"),
    [
        (lambda: both(1, 5, 1.0), 1, {}, "has too few scores yet: 4"),
        (lambda: both(3, 100, 0.8), 3, {"version": "1.44"}, "service_version 1.44 has no score yet"),
        (lambda: both(3, 100, 0.8), 3, {"against": "1.41"}, "1.41 has no scores to compare 1.43 with"),
        (lambda: both(3, 100, 0.8), 3, {"against": "1.43"}, "1.43 has no scores to compare 1.43 with"),
        (lambda: both(3, 100, 0.8), 3, {"against": None}, "no version before it has no scores"),
        (lambda: both(30, 100, 0.8), 60, {}, "1.43 has had no score for a day"),
        (lambda: both(30, 100, 0.8), 30, {"monitor": "other"}, "service_version 1.43 has no score yet"),
        (lambda: both(30, 100, 0.8), 30, {"within": "search"}, "service_version 1.43 has no score yet"),
    ],
)
def test_want_of_data_holds(traffic: Any, hour: int, changes: dict[str, Any], reason: str) -> None:
    answer = at(traffic(), hour, **changes)
    assert answer.decision == "hold"
    assert reason in answer.reason


def test_a_version_that_replaced_the_other_at_once_is_held_until_something_tells_it_from_the_time_of_day() -> None:
    traffic = Traffic()
    for hour in range(40):
        traffic.hour(hour, "1.42" if hour < 26 else "1.43", 40, mean=0.8 if hour < 26 else 0.5)
    answer = at(traffic, 40)
    assert answer.decision == "hold"
    assert "ran neither beside 1.43 nor at the same hours a week before" in answer.reason


def test_every_evaluator_of_the_baseline_has_to_agree_and_other_services_are_not_asked() -> None:
    traffic = both(30, 100, 0.8)
    old = next(traffic.parts[0].places[place] for place in traffic.parts[0].places)
    old["1.42"][Judged("safe", "1")] = next(iter(old["1.42"].values()))
    two = replace(rules(), evaluators={"all": ("helpful", "safe")})
    answer = at(traffic, 30, two)
    assert (answer.decision, answer.reason) == ("hold", "safe of all has scored 1.42, but not 1.43")
    assert at(traffic, 30).decision == "promote", "an evaluator that the monitor no longer uses is not waited for"
    traffic.hour(29, "1.42", 40, service="search")
    assert at(traffic, 30).decision == "promote", "another service stays on 1.42"


def test_lower_is_better_turns_it_around() -> None:
    lower = rules(lower=frozenset({"helpful"}))
    assert at(both(10, 100, 0.6), 10, lower).decision == "promote"
    assert at(both(10, 100, 0.95), 10, lower).decision == "roll back"


def asked_often(streams: int, per_hour: float, share: float, wave: float, fall: float = 0.0) -> dict[str, float]:
    """Shares of canaries that are ever rolled back, and ever promoted, in 33 looks of four days at two evaluators.

    Conversations arrive by chance, scores are 0 or 1 with a mean of 0.8 and a daily wave; the canary's share grows.
    """
    chance = np.random.default_rng(int(per_hour * 100 + share * 10))
    two = replace(rules(), evaluators={"all": ("helpful", "safe")})
    hours = np.arange(96)
    mean = 0.8 + wave * np.sin(2 * np.pi * hours / 24)
    part = np.minimum(1.0 - share, share * (1.0 + hours / 24.0))
    ever = {"roll back": 0, "promote": 0}
    attribute = ComparedAttribute("service_version", "service")
    for _ in range(streams):
        scores = HourlyScores({"all": (attribute,)}, 1e9)
        arms: dict[str, list[list[Sums]]] = {}
        for version, shares, change in (("1.42", 1.0 - part, 0.0), ("1.43", part, -fall)):
            number = chance.poisson(per_hour * shares, (2, len(hours)))
            good = chance.binomial(number, mean + change)
            arms[version] = [
                [Sums(n, y, n, y, y) for n, y in zip(row.tolist(), right.tolist(), strict=True)]
                for row, right in zip(number.astype(float), good.astype(float), strict=True)
            ]
        places = scores.places[ComparedPlace("all", "service_version", "shop")] = {
            version: {Judged(name, "1"): {0: Sums()} for name in ("helpful", "safe")} for version in arms
        }
        found: set[str] = set()
        for hour in hours.tolist():
            for version, both_evaluators in arms.items():
                for judged, sums in zip(places[version].values(), both_evaluators, strict=True):
                    if sums[hour].w:
                        judged[hour] = sums[hour]
            if hour >= 12 and hour % 4:
                continue
            found.add(decide([scores], two, ASKED, (hour + 1) * HOUR - 1.0).decision)
        for decision in ever:
            ever[decision] += decision in found
    return {decision: count / streams for decision, count in ever.items()}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("streams", [5, pytest.param(300, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(
    ("per_hour", "share", "wave"), [(12.0, 0.1, 0.05), (40.0, 0.1, 0.0), (40.0, 0.3, 0.1), (150.0, 0.2, 0.06)]
)
def test_of_canaries_that_change_nothing_one_in_a_hundred_is_rolled_back_at_most(
    per_hour: float, share: float, wave: float, streams: int
) -> None:
    ever = asked_often(streams, per_hour, share, wave)
    print(f"{per_hour} an hour, {share}, ±{wave}: {ever}")
    assert ever["roll back"] <= 0.01


@pytest.mark.timeout(900)
@pytest.mark.parametrize("streams", [5, pytest.param(100, marks=pytest.mark.nightly)])
def test_a_canary_that_is_worse_by_a_tenth_is_rolled_back_and_not_promoted(streams: int) -> None:
    ever = asked_often(streams, 150.0, 0.3, 0.06, fall=0.1)
    print(f"worse by 0.1: {ever}")
    assert ever["roll back"] >= 0.95
    assert ever["promote"] <= 0.03
