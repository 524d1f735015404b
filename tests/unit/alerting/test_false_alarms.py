"""False alarms of the drop detector behind samplers, through the exporter's and the watcher's own code.

`tests/bench/drop_detection.py` measures it over many streams; the table is in tests/bench/ALERTS.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from streams import MEAN

sys.path.append(str(Path(__file__).parents[2] / "bench"))  # after others: some names are in both

from alert_streams import KINDS, Shift, stream as sums_of_stream, turns_of
from drop_detection import (
    DAY,
    DETECTOR,
    SAMPLERS,
    SERIES,
    alerts,
    conversations,
    delay,
    gate_alarms,
    notifications,
    sums_of_minutes,
)
from stream_sums import COLUMNS, Turns, sums_and_gains

from collector.alerting.watch.alert_evaluation import target_misses
from collector.alerting.watch.buckets import Buckets
from collector.statistics.bounded_sums import BoundedSums, Weight

EVIDENCE = ("evidence, exact (watcher)", "evidence, from sums (rules)")


def pages(sampler: str, days: int, runs: int, seed: int) -> float:
    """Notifications of both detectors while the mean is 0.80."""
    rng = np.random.default_rng(seed)
    found = alerts(conversations(rng, runs, 100 / 60, np.full(days * DAY, MEAN), SAMPLERS[sampler]))
    return float(sum(notifications(found[name]).sum() for name in EVIDENCE))


def test_one_in_a_hundred_sampled_before_pages_nobody_for_a_day() -> None:
    """Bets for weights of 1 paged once an hour."""
    assert pages("1 %", days=1, runs=1, seed=3) == 0


def test_and_a_fall_behind_it_is_found() -> None:
    path = np.full(DAY, MEAN)
    path[DAY // 2 :] = 0.2
    found = alerts(conversations(np.random.default_rng(4), 1, 100 / 60, path, SAMPLERS["1 %"]))
    assert all(delay(found[name], DAY // 2) < 4.0 for name in EVIDENCE)


def one_by_one(turns: Turns) -> Iterator[tuple[float, int, Weight, float]]:
    columns = (turns.minute, turns.conversation, turns.full, turns.own, turns.rates, turns.score)
    for minute, key, full, own, rate, score in zip(*(each.tolist() for each in columns), strict=True):
        yield minute, key, Weight(full, own, rate), score


def service_sums(turns: Turns, minutes: int) -> tuple[np.ndarray, np.ndarray]:
    """The columns of each minute, and the gains of all bets, by the exporter's and the watcher's own code."""
    exported, watched, sums = BoundedSums(), Buckets(60.0, 1e12), np.zeros((minutes, COLUMNS))
    for minute, key, weight, score in one_by_one(turns):
        grown = exported.add(SERIES, key, weight=weight, score=score, time=minute * 60.0)
        for place, part in ((0, grown.mean), (5, grown.evidence)):
            sums[int(minute), place : place + 5] += (part.w, part.wy, part.w2, part.w2y, part.w2y2)
        sums[int(minute), 10] += 1.0
        watched.add(SERIES, DETECTOR, key, weight=weight, score=score, time=minute * 60.0)
    gains = np.zeros((minutes, len(DETECTOR.bets)))
    for number, bucket in watched.of(SERIES).items():
        gains[number] = bucket.gains
    return sums, gains


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_simulation_sums_up_as_the_service_does(kind: str) -> None:
    """More than a thousand conversations, so that some leave the history of weights, and some are clipped."""
    turns = turns_of(np.random.default_rng(8), KINDS[kind], 4, Shift(0.0))
    sums, gains = sums_and_gains(turns, 4 * DAY, DETECTOR)
    expected, bets = service_sums(turns, 4 * DAY)
    assert np.allclose(sums, expected, rtol=1e-9, atol=1e-9)
    assert np.allclose(gains, bets, rtol=1e-9, atol=1e-9)


def pages_at(minute: int, buckets: Buckets) -> bool:
    known = {number: each for number, each in buckets.of(SERIES).items() if number <= minute}
    found = target_misses(known, DETECTOR, now=(minute + 1) * 60.0, interval=60.0, min_n=30)
    return any(each.standard_errors > 4.0 for each in found)


def test_the_simulation_tests_means_as_the_watcher_does() -> None:
    """In every window of a stream with all kinds of weights, before and after a fall, to the minute."""
    kind, shift, minutes = KINDS["all of it"], Shift(-0.3, since=30), 2 * DAY
    found = gate_alarms(sums_of_minutes([sums_of_stream(np.random.default_rng(5), kind, 2, shift)]), 4.0)[:, 0]
    buckets = Buckets(60.0, 1e12)
    for minute, key, weight, score in one_by_one(turns_of(np.random.default_rng(5), kind, 2, shift)):
        buckets.add(SERIES, DETECTOR, key, weight=weight, score=score, time=minute * 60.0)
    looks = range(10, minutes, 23)
    watched = [pages_at(minute, buckets) for minute in looks]
    assert watched == [bool(found[minute]) for minute in looks]
    assert 0 < sum(watched) < len(watched)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["sampled before", "all of it"])
def test_a_month_of_skewed_weights_is_quiet(kind: str) -> None:
    """Four streams; the test of the mean paged three times in four streams when its error was that of its own scores."""
    found = gate_alarms(
        sums_of_minutes(
            [sums_of_stream(np.random.default_rng((1, each)), KINDS[kind], 30, Shift(0.0)) for each in range(4)]
        ),
        4.0,
    )
    assert notifications(found).sum() <= 1


@pytest.mark.nightly
@pytest.mark.parametrize("sampler", list(SAMPLERS))
def test_a_month_in_control_is_quiet_behind_every_sampler(sampler: str) -> None:
    """Four streams of a month; 0.33 are allowed for each of both detectors, so 2.6 in all."""
    assert pages(sampler, days=30, runs=4, seed=11) <= 2
