"""Which turns are judged more often: each test by itself, and what it makes of a turn that does not say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from collector.evaluate.sampling.strata import (
    EVERYTHING,
    MAX_BOOST,
    Strata,
    disliked,
    failed,
    scored_below,
    slower_than,
)
from collector.records.feedback import GOOD, feedback_entry
from evaluators.cases import Feedback, Turn

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_slow_is_what_took_longer_than_the_limit() -> None:
    slow = slower_than(10.0)
    for seconds, expected in ((9.9, False), (10.0, False), (10.1, True)):
        assert slow(Turn(turn_id="t", started_at=NOON, ended_at=NOON + timedelta(seconds=seconds)), {}) is expected
    assert not slow(Turn(turn_id="t", started_at=NOON), {})
    assert not slow(Turn(turn_id="t", ended_at=NOON), {})


SCALES = {"stars": (1.0, 5.0), "grade": (5.0, 1.0), "thumbs": (0.0, 1.0)}


@pytest.mark.parametrize(
    ("said", "bad"),
    [
        ({"value": False}, True),
        ({"value": -1}, True),
        ({"value": 0}, True),
        ({"value": 0.1}, True),
        ({"value": 0.5}, False),
        ({"value": "thumbs_down"}, True),
        ({"value": "no"}, True),
        ({"value": "Incorrect"}, True),
        ({"value": None, "label": " bad "}, True),
        ({"name": "other", "value": 7, "label": "Negative"}, True),
        ({"name": "stars", "value": 1}, True),
        ({"name": "stars", "value": 2}, True),
        ({"name": "stars", "value": 3}, False),
        ({"name": "stars", "value": -1}, True),
        ({"name": "grade", "value": -1}, True),
        ({"name": "grade", "value": 5}, True),
        ({"name": "grade", "value": 1}, False),
        ({"name": "other", "value": 2}, False),
        ({"value": True}, False),
        ({"value": 5, "label": "good"}, False),
        ({"value": "fine"}, False),
        ({}, False),
    ],
)
def test_negative_is_what_metrics_call_bad(said: dict[str, object], bad: bool) -> None:
    """0, 0.1, "no" and one star of five were bad in metrics, and no boost."""
    feedback = Feedback(**{"name": "thumbs", **said})
    turn = Turn(turn_id="t", feedback=(Feedback(name="x", value=True), feedback))
    assert disliked(SCALES, turn, {}) is bad
    if (entry := feedback_entry(feedback, "")) is not None:
        score = entry.score(SCALES.get(entry.name))
        assert (score is not None and score < GOOD) is bad


def test_a_low_score_is_below_the_line_and_a_missing_one_is_not_low() -> None:
    low = scored_below("words", 0.5)
    turn = Turn(turn_id="t")
    assert [low(turn, {"words": score}) for score in (0.49, 0.5)] == [True, False]
    assert not low(turn, {})
    assert not scored_below("words", 1.0)(turn, {}), "even where anything but the best is low"


def test_failed_by_its_error_alone() -> None:
    assert failed(Turn(turn_id="t", error="boom"), {})
    assert not failed(Turn(turn_id="t"), {})


def test_without_boosts_all_are_one_stratum() -> None:
    assert (Strata().of(Turn(turn_id="t", error="boom"), {}), Strata().strongest) == ((1.0, EVERYTHING), 1.0)


def test_nothing_is_judged_more_than_four_times_as_often() -> None:
    assert MAX_BOOST == 4.0


def test_where_lower_is_better_a_high_score_is_a_bad_one() -> None:
    bad = scored_below("refusal", 0.4, lower_is_better=True)
    turn = Turn(turn_id="t")
    assert [bad(turn, {"refusal": score}) for score in (0.0, 0.6, 0.61, 1.0)] == [False, False, True, True]
    assert not bad(turn, {}), "it was not scored"
