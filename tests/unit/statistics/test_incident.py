"""The life of a drop's alert: it begins with a fall, ends with a recovery, and a second fall pages again."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from streams import MEAN, Stream

from collector.statistics.bounded_sums import Sums
from collector.statistics.incident import (
    SETTLING_INTERVALS,
    STAKES,
    DropDetector,
    DropLife,
    Level,
    margin,
    recovery_threshold,
    threshold,
)

sys.path.append(str(Path(__file__).parents[2] / "bench"))  # after others: some names are in both

from alert_lives import RECOVERS, Minutes, fall_numbers
from drop_detection import bounds

DETECTOR = DropDetector(target=0.77, threshold=threshold(90 * 86400.0, 60.0, 1))


def two_incidents(minute: int) -> float:
    """A drop, its repair, a drop that becomes deeper, and its repair."""
    levels = ((60, MEAN), (110, 0.5), (190, MEAN), (280, 0.6), (350, 0.2), (440, 0.85))
    return next(mean for end, mean in levels if minute < end)


def lived(stream: Stream, of: DropDetector = DETECTOR) -> list[tuple[int, DropLife]]:
    """The number of the fall after each minute; the life goes on."""
    life, numbers = DropLife(of, RECOVERS), []
    for minute, sums in enumerate(stream.deltas()):
        life.step(minute, sums)
        numbers.append((life.fall.number if life.fall else 0, life))
    return numbers


def mirrored(sums: Sums) -> Sums:
    """The sums of scores counted from the other end."""
    return Sums(sums.w, sums.w - sums.wy, sums.w2, sums.w2 - sums.w2y, sums.w2 - 2 * sums.w2y + sums.w2y2)


def test_two_incidents_page_end_and_page_again() -> None:
    stream = Stream(4.0, mean=two_incidents, seed=7).run(440)
    numbers = [number for number, _ in lived(stream)]
    path = [(number, len(list(run))) for number, run in groupby(numbers)]
    assert [number for number, _ in path] == [0, 1, 0, 2, 3, 0]
    first, ended, second, further, last = np.cumsum([length for _, length in path])[:5]
    assert 60 <= first < 110 <= ended < 190 <= second < 280 < further < 350 <= last < 440


@pytest.mark.parametrize("seed", range(6))
def test_a_fall_a_recovery_below_the_target_and_a_second_fall_are_one_incident(seed: int) -> None:
    """To .40, mended to .70 only where the target is .77, and to .40 again: no page of it is a first one but one."""

    def mean(minute: int) -> float:
        return next(level for end, level in ((60, MEAN), (120, 0.4), (700, 0.7), (1000, 0.4)) if minute < end)

    numbers = [number for number, _ in lived(Stream(4.0, mean=mean, seed=seed).run(1000))]
    told = [number for number, _ in groupby(numbers)]
    pages = [number for number in told if number]
    assert told[0] == 0
    assert pages == list(range(1, len(pages) + 1)), "each page has the next number"
    assert numbers[999] != 0, "the second fall has an alert: its own, or the first one's that never ended"


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_one_step_is_one_fall_although_its_first_minutes_are_a_mix(seed: int, lower: bool) -> None:
    """From .9 to .2 within a minute, 60 conversations a minute: the first estimate of the level is a mix of both."""

    def mean(minute: int) -> float:
        return next(level for end, level in ((60, 0.9), (61, 0.75), (62, 0.5), (180, 0.2)) if minute < end)

    target = 0.25 if lower else 0.75
    life = DropLife(DropDetector(target, DETECTOR.threshold, lower_is_better=lower), RECOVERS)
    falls = set[int]()
    for minute, sums in enumerate(Stream(60.0, mean=mean, seed=seed).run(180).deltas()):
        life.step(minute, mirrored(sums) if lower else sums)
        falls |= {life.fall.number} if life.fall else set()
    assert falls == {1}
    assert life.fall is not None
    assert 59 <= life.fall.since <= 62
    assert life.fall.level == pytest.approx(0.8 if lower else 0.2, abs=0.05)


@pytest.mark.parametrize("minutes", [3, 4, 5])
def test_scores_after_a_roll_back_do_not_settle_the_level_of_the_fall(minutes: int) -> None:
    """A fall to .3 was told to have settled at .45, of whose five minutes three were after the roll-back."""

    def mean(minute: int) -> float:
        return 0.3 if 60 <= minute < 60 + minutes else 0.8

    life, falls = DropLife(DETECTOR, RECOVERS), []
    for sums in enumerate(Stream(60.0, mean=mean, seed=4).run(80).deltas()):
        life.step(*sums)
        falls += [life.fall] if life.fall else []
    assert len(falls) > SETTLING_INTERVALS, "it lasts long enough to settle"
    assert life.fall is None
    assert not any(fall.settled for fall in falls)


def test_a_second_fall_is_one_of_its_own_soon_after_the_first_is_settled() -> None:
    def mean(minute: int) -> float:
        return next(level for end, level in ((60, 0.9), (80, 0.6), (180, 0.2)) if minute < end)

    numbers = [number for number, _ in lived(Stream(60.0, mean=mean, seed=3).run(180))]
    first, second = numbers.index(1), numbers.index(2)
    assert 60 <= first < 70
    assert 80 <= second < 84
    assert max(numbers) == 2


def test_a_fall_says_since_when_and_to_which_level() -> None:
    life = DropLife(DETECTOR, RECOVERS)
    for minute, sums in enumerate(Stream(4.0, mean=lambda now: MEAN if now < 200 else 0.4, seed=3).run(240).deltas()):
        life.step(minute, sums)
    assert life.fall is not None
    assert abs(life.fall.since - 200) <= 10
    assert life.fall.level == pytest.approx(0.4, abs=0.1)
    assert life.before is None


def test_where_lower_is_better_the_same_is_turned_round() -> None:
    stream = Stream(4.0, mean=two_incidents, seed=7).run(400)
    down = DropLife(DETECTOR, RECOVERS)
    up = DropLife(DropDetector(0.23, DETECTOR.threshold, lower_is_better=True), RECOVERS)
    falls = 0
    for minute, sums in enumerate(stream.deltas()):
        down.step(minute, sums)
        up.step(minute, mirrored(sums))
        assert up.evidence == pytest.approx(down.evidence, abs=1e-6)
        assert up.recovery == pytest.approx(down.recovery, abs=1e-6)
        if down.fall is not None:
            assert up.fall is not None
            assert (up.fall.number, up.fall.since) == (down.fall.number, down.fall.since)
            assert up.fall.level == pytest.approx(1.0 - down.fall.level)
            falls += 1
    assert falls > 100


def test_a_minute_without_scores_changes_nothing() -> None:
    """So an evaluator that never has a score does not page, however long it runs; an hour of them counts at most."""
    life = DropLife(DETECTOR, RECOVERS)
    life.step(1, Sums(4.0, 2.0, 4.0, 2.0, 2.0))
    before = life.evidence
    life.step(2, Sums())
    assert life.evidence == before
    assert before < 3.0
    after: list[float] = []
    for pause in (60, 1000):
        life = DropLife(DETECTOR, RECOVERS)
        life.step(1, Sums(4.0, 2.0, 4.0, 2.0, 2.0))
        life.step(1 + pause, Sums(1.0, 0.77, 1.0, 0.77, 0.5929))
        after.append(life.evidence)
    assert after[0] == after[1] == pytest.approx(np.log(60.0 + np.exp(before)))


def test_half_a_recovery_from_a_large_fall_is_none_and_from_a_small_one_half_way_back_is() -> None:
    assert margin(0.77, 0.2) == pytest.approx(0.1)
    assert margin(0.77, 0.71) == pytest.approx(0.03)
    stream = Stream(4.0, mean=lambda now: MEAN if now < 60 else 0.2 if now < 120 else 0.5, seed=5).run(900)
    numbers = [number for number, _ in lived(stream)]
    assert all(numbers[119:]), "0.5 is 0.27 short of the target"


def test_a_bet_within_an_incident_loses_its_stake_at_most() -> None:
    """One conversation of weight 1 whose score is as far on the hypothesis' side as can be."""
    for level, score in ((Level(0.6, at_most=False), 1.0), (Level(0.6, at_most=True), 0.0)):
        sums = Sums(1.0, score, 1.0, score, score**2)
        for stake in STAKES:
            assert level.log_gain_bound(stake, sums) == pytest.approx(np.log1p(-stake))


def test_a_recovery_has_an_error_rate_of_its_own() -> None:
    assert recovery_threshold(7 * 86400.0, 60.0) == pytest.approx(np.log(7 * 1440))


def test_many_streams_at_once_are_as_one_by_one() -> None:
    streams = [Stream(4.0, mean=two_incidents, seed=seed).run(400) for seed in (7, 8)]
    sums = [
        np.array([[getattr(each, key) for each in stream.deltas()] for stream in streams]).T
        for key in ("w", "wy", "w2", "w2y", "w2y2")
    ]
    minutes = Minutes(*sums, np.zeros(0))
    minutes.gains = bounds(DETECTOR, minutes)
    numbers = fall_numbers(DETECTOR, minutes)
    for place, stream in enumerate(streams):
        assert [number for number, _ in lived(stream)] == numbers[:, place].tolist()


def test_a_mean_that_was_bad_from_the_first_score_is_not_below_its_target_before() -> None:
    """The page named the minute before the first score; intervals without a score do not count either."""
    life = DropLife(DETECTOR, RECOVERS)
    for minute, sums in enumerate([Sums()] * 3 + Stream(60.0, mean=lambda _: 0.1).run(20).deltas()):
        life.step(minute, sums)
    assert life.fall is not None
    assert (life.fall.earliest, life.fall.since) == (3, 3)


@pytest.mark.parametrize("seed", range(20))
def test_a_fall_is_told_to_begin_when_it_did_although_the_mean_was_little_above_its_target(seed: int) -> None:
    """The sum of shortfalls left 0 by chance minutes before: that was told, with a level of good and bad scores."""
    life, minutes = DropLife(DropDetector(0.79, DETECTOR.threshold), RECOVERS), iter(range(200))
    deltas = Stream(60.0, mean=lambda now: 0.8 if now < 100 else 0.58, seed=seed).run(120).deltas()
    while life.fall is None:
        minute = next(minutes)
        life.step(minute, deltas[minute])
    assert minute >= 100
    assert life.fall.earliest <= 100 <= life.fall.latest <= life.fall.earliest + 6
    assert life.fall.mean == pytest.approx(0.58, abs=0.1)
