"""The gate: what it says of versions that are worse, alike or barely seen, and how often it is wrong."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from release_traffic import BEGAN, SAMPLE, Traffic, rules

from collector.alerting.releases.gate import GateAnswer, GateQuestion, decide
from collector.alerting.releases.hourly_scores import HOUR, ComparedAttribute, HourlyScores
from collector.alerting.releases.places import ComparedPlace, SumsKey
from collector.alerting.releases.releases import ReleaseRules
from collector.statistics.bounded_sums import Sums
from evaluators.results import ErrorDetail, Retry, Subject

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
    assert "in the same hours" in answer.reason
    assert "effective conversations of 1.42 and" in answer.reason


def test_one_that_cannot_be_worse_by_the_tolerance_is_promoted() -> None:
    traffic = both(30, 100, 0.8)
    answer = at(traffic, 30)
    assert answer.decision == "promote"
    assert answer.reason.startswith("no evaluator is worse by 0.05; nearest to that is helpful of all (shop): ")
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
        (
            lambda: both(3, 100, 0.8),
            3,
            {"against": None},
            "with, or it came within two hours of the first score; name a baseline",
        ),
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
    old["1.42"][SumsKey("safe", "1")] = next(iter(old["1.42"].values()))
    two = replace(rules(), evaluators={"all": ("helpful", "safe")})
    answer = at(traffic, 30, two)
    assert (answer.decision, answer.reason) == ("hold", "safe of all has scored 1.42, but not 1.43")
    assert at(traffic, 30).decision == "promote", "an evaluator that the monitor no longer uses is not waited for"
    traffic.hour(29, "1.42", 40, service="search")
    assert at(traffic, 30).decision == "promote", "another service stays on 1.42"


def lose(traffic: Traffic, hours: int, version: str, each: int, **changes: Any) -> None:
    """Cases of a version without a score, so many an hour."""
    for hour in range(hours):
        for number in range(each):
            at, name = datetime.fromtimestamp(BEGAN + hour * HOUR + 60.0, UTC), f"lost {version} {hour} {number}"
            known = {"service": "shop", "service_version": version}
            kept = {"subject": Subject(conversation_id=name), "attributes": known, "ended_at": at}
            traffic.parts[0].add(replace(SAMPLE, **{"outcome": "failed", "score": None, **kept, **changes}))


FAILED = {"error": ErrorDetail(type="judge_refused", message="no")}


@pytest.mark.parametrize(
    "why", [FAILED, {"outcome": "skipped", "reason": "application_error"}, {"outcome": "skipped", "reason": "shed"}]
)
def test_a_version_whose_evaluations_fail_more_is_held_with_the_reason(why: dict[str, Any]) -> None:
    traffic = both(30, 100, 0.8)
    lose(traffic, 30, "1.43", 20, **why)
    answer = at(traffic, 30)
    assert answer.decision == "hold"
    assert re.search(r"1\d\.\d% of the cases of 1\.43 have no score, and 0\.0% of those of 1\.42", answer.reason), (
        answer
    )
    assert answer.compared[0].lost[0] == 0.0
    lose(traffic, 30, "1.42", 20, **why)
    assert at(traffic, 30).decision == "promote", "both lose alike"


def test_lost_cases_neither_roll_back_nor_hide_a_fall() -> None:
    traffic = both(10, 100, 0.6)
    lose(traffic, 10, "1.43", 20, **FAILED)
    assert at(traffic, 10).decision == "roll back", "a tenth that is lost cannot make up for it"
    lose(traffic, 10, "1.43", 100, **FAILED)
    assert at(traffic, 10).decision == "hold", "half of it could"


def test_a_failure_that_was_made_again_is_not_lost_and_one_by_design_never_was() -> None:
    traffic = both(30, 100, 0.8)
    lose(traffic, 30, "1.43", 20, **FAILED)
    lose(traffic, 30, "1.43", 20, outcome="scored", score=0.8, retry=Retry(attempt=2, reason="judge_refused"))
    lose(traffic, 30, "1.43", 100, outcome="skipped", reason="gated: cheap")
    answer = at(traffic, 30)
    assert (answer.decision, answer.compared[0].lost) == ("promote", (0.0, pytest.approx(0.0)))


def test_what_a_judge_was_not_shown_is_lost_in_part() -> None:
    traffic = both(30, 100, 0.8)
    lose(traffic, 30, "1.43", 100, outcome="scored", score=1.0, details={"unshown": 0.9})
    answer = at(traffic, 30)
    assert answer.decision == "hold"
    assert answer.compared[0].lost[1] == pytest.approx(0.4, abs=0.05)


def test_a_version_of_which_every_evaluation_failed_is_no_unknown_one() -> None:
    traffic = both(3, 100, 0.8)
    for hours in traffic.parts[0].places.values():
        del hours["1.43"]
    lose(traffic, 3, "1.43", 50, **FAILED)
    reason = "helpful of all has scored 1.42, but not 1.43: every evaluation of it failed or was skipped"
    assert (at(traffic, 3).decision, at(traffic, 3).reason) == ("hold", reason)


def test_lower_is_better_turns_it_around() -> None:
    lower = rules(lower=frozenset({"helpful"}))
    assert at(both(10, 100, 0.6), 10, lower).decision == "promote"
    assert at(both(10, 100, 0.95), 10, lower).decision == "roll back"


def asked_often(
    streams: int,
    per_hour: float,
    share: float,
    wave: float,
    fall: float = 0.0,
    refused: tuple[float, float] = (0.0, 0.0),
) -> dict[str, float]:
    """Shares of canaries that are ever rolled back, and ever promoted, in 33 looks of four days at two evaluators.

    Conversations arrive by chance, scores are 0 or 1 with a mean of 0.8 and a daily wave; the canary's share grows.
    `refused` are the shares of the wrong answers of each version that the judge gives no score.
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
        for (version, shares, change), hidden in zip(
            (("1.42", 1.0 - part, 0.0), ("1.43", part, -fall)), refused, strict=True
        ):
            number = chance.poisson(per_hour * shares, (2, len(hours)))
            good = chance.binomial(number, mean + change)
            lost = chance.binomial(number - good, hidden)
            counted = [*zip(number - lost, good, strict=True), *zip(number, lost, strict=True)]
            arms[version] = [
                [Sums(n, y, n, y, y) for n, y in zip(row.tolist(), right.tolist(), strict=True)]
                for row, right in ((row.astype(float), right.astype(float)) for row, right in counted)
            ]
        names = [SumsKey(name, "1", lost) for lost in (False, True) for name in ("helpful", "safe")]
        places = scores.places[ComparedPlace("all", "service_version", "shop")] = {
            version: {judged: {0: Sums()} for judged in names} for version in arms
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
@pytest.mark.parametrize("streams", [3, pytest.param(100, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(
    ("fall", "refused"), [(0.1, (0.0, 0.4)), (0.1, (0.1, 0.5)), (0.0, (0.3, 0.3))], ids=["new", "more", "alike"]
)
def test_refusals_of_wrong_answers_promote_no_worse_version_and_roll_back_no_alike_one(
    fall: float, refused: tuple[float, float], streams: int
) -> None:
    """With 0.4 of its wrong answers refused a version that is worse by 0.1 scores 0.80 in place of 0.70."""
    ever = asked_often(streams, 150.0, 0.3, 0.06, fall, refused)
    print(f"worse by {fall}, refused {refused}: {ever}")
    if fall:
        assert ever["promote"] == 0.0
    else:
        assert ever["roll back"] <= 0.01


@pytest.mark.timeout(900)
@pytest.mark.parametrize("streams", [5, pytest.param(100, marks=pytest.mark.nightly)])
def test_a_canary_that_is_worse_by_a_tenth_is_rolled_back_and_not_promoted(streams: int) -> None:
    ever = asked_often(streams, 150.0, 0.3, 0.06, fall=0.1)
    print(f"worse by 0.1: {ever}")
    assert ever["roll back"] >= 0.95
    assert ever["promote"] <= 0.03
