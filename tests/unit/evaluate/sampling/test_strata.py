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
from evaluators.cases import Feedback, Turn

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_slow_is_what_took_longer_than_the_limit() -> None:
    slow = slower_than(10.0)
    for seconds, expected in ((9.9, False), (10.0, False), (10.1, True)):
        assert slow(Turn(turn_id="t", started_at=NOON, ended_at=NOON + timedelta(seconds=seconds)), {}) is expected
    assert not slow(Turn(turn_id="t", started_at=NOON), {})
    assert not slow(Turn(turn_id="t", ended_at=NOON), {})


@pytest.mark.parametrize(
    "said",
    [
        {"value": False},
        {"value": -1},
        {"value": -0.5, "label": "fine"},
        {"value": 1, "label": "Negative"},
        {"value": "thumbs_down"},
        {"value": None, "label": " bad "},
    ],
)
def test_a_thumb_down_in_every_way_of_writing(said: dict[str, object]) -> None:
    assert disliked(Turn(turn_id="t", feedback=(Feedback(name="x", value=True), Feedback(name="y", **said))), {})


@pytest.mark.parametrize("said", [{"value": True}, {"value": 0}, {"value": 5, "label": "good"}, {"value": "fine"}, {}])
def test_what_is_no_thumb_down(said: dict[str, object]) -> None:
    assert not disliked(Turn(turn_id="t", feedback=(Feedback(name="x", **said),)), {})


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
