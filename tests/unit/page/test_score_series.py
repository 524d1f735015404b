from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest
from evaluation_samples import failed, scored, skipped

from collector.page.score_series import RANGES, ScoreSeries, total
from evaluators.results import Evaluation, Sampling, Subject

NOW = 1_800_000_000.0


def at(time: float, score: float, conversation: str = "a", probability: float = 1.0, **changes: Any) -> Evaluation:
    ended = datetime.fromtimestamp(time, UTC)
    return scored(
        score=score, started_at=ended, ended_at=ended, sampling=Sampling(probability=probability),
        subject=Subject(conversation_id=conversation), **changes,
    )  # fmt: skip


def whole(track: ScoreSeries, name: str = "1h"):
    return total(track.columns(name, NOW))


def test_the_mean_is_weighted_by_the_inverse_sampling_probability():
    track = ScoreSeries()
    track.add(at(NOW, 1.0, "a"))
    track.add(at(NOW, 0.0, "b", probability=0.25))
    assert whole(track).across_columns.mean == pytest.approx(1 / 5)


def test_the_error_takes_conversations_as_clusters():
    track = ScoreSeries()
    scores = {"a": [0.2, 0.4], "b": [0.9], "c": [0.6, 0.6, 0.9]}
    for conversation, each in scores.items():
        for score in each:
            track.add(at(NOW, score, conversation))
    flat = [score for each in scores.values() for score in each]
    mean = sum(flat) / len(flat)
    residuals = [sum(each) - mean * len(each) for each in scores.values()]
    expected = math.sqrt(sum(each**2 for each in residuals) * 3 / 2) / len(flat)
    assert whole(track).across_columns.error == pytest.approx(expected)
    assert whole(track).across_columns.conversations == 3


def test_a_columns_error_does_not_grow_with_what_a_conversation_said_before():
    track = ScoreSeries()
    for number in range(40):
        for conversation in "abcde":
            track.add(at(NOW - 2400 + 60 * number, 0.2 if conversation < "c" else 0.9, conversation))
    filled = [column for _, column in track.columns("1h", NOW) if column]
    errors = [column.within_column.error for column in filled]
    assert errors == pytest.approx([errors[0]] * len(errors))
    late = total(track.columns("1h", NOW)[-2:])
    assert late.across_columns.conversations == 5, "although all of them began before"
    assert late.across_columns.error > 3 * errors[-1]


def test_of_one_conversation_no_error_is_known():
    track = ScoreSeries()
    track.add(at(NOW, 0.2))
    track.add(at(NOW, 0.8))
    assert (whole(track).across_columns.mean, whole(track).across_columns.error) == (0.5, None)


def test_a_failure_from_before_a_restart_that_is_repaired_counts_in_no_range():
    """After a restart, short ranges said "8 failed" of 14 repaired ones: their minutes had come back in one column."""
    times = [datetime.fromtimestamp(NOW - 240 + seconds, UTC) for seconds in (1, 17, 43)]
    failures = [failed(started_at=time, ended_at=time) for time in times]
    before, after = ScoreSeries(), ScoreSeries()
    for failure in failures[:2]:
        before.add(failure)
    for minute, what in before.unsaved[0].items():
        after.restore(minute, what)
    after.add(failures[2])
    for failure in failures:
        after.discount(failure)
    assert {name: whole(after, name).failed for name in RANGES} == dict.fromkeys(RANGES, 0)


def test_skips_and_failures_have_no_part_in_the_mean():
    track = ScoreSeries()
    moment = datetime.fromtimestamp(NOW, UTC)
    track.add(at(NOW, 0.5))
    track.add(skipped(started_at=moment, ended_at=moment))
    track.add(failed(started_at=moment, ended_at=moment))
    column = whole(track)
    assert (column.across_columns.mean, column.across_columns.scores, column.skipped, column.failed) == (0.5, 1, 1, 1)


def test_columns_end_now_and_what_is_older_than_the_range_is_gone():
    track = ScoreSeries()
    track.add(at(NOW - 10_000, 0.1))
    track.add(at(NOW - 30, 0.9))
    columns = track.columns("1h", NOW)
    assert len(columns) == RANGES["1h"].bins
    assert [column.within_column.mean for _, column in columns if column] == [0.9]
    assert whole(track, "6h").across_columns.mean == pytest.approx(0.5)


def test_memory_is_bounded_however_long_it_runs_and_whatever_comes_late():
    track = ScoreSeries(capacity=50)
    for number in range(3000):
        track.add(at(NOW + 97 * number, 0.5, f"c{number}"))
    track.add(at(NOW - 1e6, 0.5))
    for name, ring in track._rings.items():
        assert len(ring) <= (RANGES[name].bins if name in RANGES else 9 * 288)
    assert len(track._along) <= 50
    assert len(track._alone) <= 50 * len(RANGES)
