from __future__ import annotations

import math
import random

import pytest
from streams import MEAN, Stream, drop_at

from collector.alerting.rules.series import WINDOWS
from collector.alerting.watch.alert_evaluation import (
    DropState,
    fall_of,
    target_misses,
    unscored_share,
)
from collector.alerting.watch.buckets import Buckets, merge_buckets
from collector.records.audits import AuditScore
from collector.statistics.bounded_sums import BoundedSums, Sums, Weight
from collector.statistics.incident import DropDetector, evidence, recovery_threshold, threshold
from evaluators.results import Sampling

RECOVERS = recovery_threshold(7 * 86400.0, 60.0)
SERIES = ("all", "helpful", "v")
DETECTOR = DropDetector(target=0.77, threshold=threshold(90 * 86400.0, 60.0, 1))


def filled(stream: Stream, part: int = 0, parts: int = 1, weight: float = 1.0) -> Buckets:
    buckets = Buckets(60.0, 7 * 86400.0)
    for minute, scores in enumerate(stream.scores):
        for number, (key, score) in enumerate(scores):
            if number % parts == part:
                buckets.add(SERIES, DETECTOR, key, weight=Weight(weight, weight), score=score, time=minute * 60.0 + 1)
    return buckets


def path(stream: Stream, buckets: Buckets) -> list[float]:
    drop = DropState(DETECTOR, RECOVERS)
    evidences = []
    for minute in range(len(stream.scores)):
        drop.advance(merge_buckets([buckets.of(SERIES)]), minute + 1)
        evidences.append(drop.life.evidence)
    return evidences


def test_a_drop_is_found_and_before_it_nothing():
    stream = Stream(2.0, mean=drop_at(400, 0.2), seed=1).run(600)
    found = [value > DETECTOR.threshold for value in path(stream, filled(stream))]
    assert not any(found[:400])
    assert any(found[400:480])


def test_a_window_without_the_heavy_conversations_is_no_miss():
    """A quarter of an hour of errors alone, of which a sampler keeps all, where it keeps a twentieth of the rest."""
    errors, rest = Stream(2.5, mean=lambda _: 0.3, seed=31).run(400), Stream(0.5, mean=lambda _: 0.95, seed=32).run(385)
    buckets = Buckets(60.0, 7 * 86400.0)
    for minute in range(400):
        for stream, upstream in ((errors, 1.0), (rest, 20.0)):
            for key, score in stream.scores[minute] if minute < len(stream.scores) else ():
                weight, name = Weight(upstream, 1.0), f"{upstream}-{key}"
                buckets.add(SERIES, DETECTOR, name, weight=weight, score=score, time=minute * 60.0 + 1)
    misses = target_misses(buckets.of(SERIES), DETECTOR, now=400 * 60.0, interval=60.0, min_n=30)
    last = next(each for each in misses if each.window == "15m")
    assert last.sums.n_eff >= 30
    assert (0.77 - last.sums.mean) / last.sums.stderr > 6
    assert max(each.standard_errors for each in misses) < 3.5


def test_the_exact_evidence_is_never_below_the_bound_from_sums():
    """The rules see only the sums: they are as sure as may be, never surer."""
    stream = Stream(2.0, mean=drop_at(100, 0.2), seed=2).run(200)
    states, bounded = DETECTOR.start(), []
    idle = 0
    for sums in stream.deltas():
        idle += 1
        if sums.w:
            states = DETECTOR.advance(states, [DETECTOR.log_gain_bound(bet, sums) for bet in DETECTOR.bets], idle)
            idle = 0
        bounded.append(evidence(states))
    exact = path(stream, filled(stream))
    fired = next(minute for minute, value in enumerate(exact) if value > DETECTOR.threshold)
    assert 100 < fired < 180
    assert all(one >= other - 1e-9 for one, other in zip(exact[:fired], bounded, strict=False))
    assert exact[fired - 1] > bounded[fired - 1]


def test_the_plain_product_is_what_the_recursion_computes():
    """Nineteen scores count for a quarter of the scale each; then it is known that conversations have one."""
    stream = Stream(2.0, seed=3).run(50)
    states, count, idle = [0.0] * len(DETECTOR.bets), 0, 0
    for scores in stream.scores:
        idle += 1
        if not scores:
            continue
        shares = [0.25 if count + number < 19 else 1.0 for number in range(len(scores))]
        count += len(scores)
        states = [
            ((idle if count > len(scores) else 1) + state)
            * math.prod(1 + bet * share * (0.77 - score) for share, (_, score) in zip(shares, scores, strict=True))
            for state, bet in zip(states, DETECTOR.bets, strict=True)
        ]
        idle = 0
    assert path(stream, filled(stream))[-1] == pytest.approx(math.log(sum(states) / len(states)), abs=1e-9)


def test_partitions_and_the_order_they_are_read_in_change_nothing():
    stream = Stream(4.0, mean=drop_at(100, 0.3), seed=4).run(200)
    whole, one, other = filled(stream), filled(stream, 0, 2), filled(stream, 1, 2)
    at_once = DropState(DETECTOR, RECOVERS)
    at_once.advance(merge_buckets([other.of(SERIES), one.of(SERIES)]), 200)
    assert at_once.life.evidence == pytest.approx(path(stream, whole)[-1], abs=0.2), (
        "each partition learns its own scale"
    )

    late = DropState(DETECTOR, RECOVERS)
    late.advance(merge_buckets([one.of(SERIES)]), 200)
    late.invalidate(other.touched[SERIES])
    late.advance(merge_buckets([one.of(SERIES), other.of(SERIES)]), 200)
    assert late.life.evidence == pytest.approx(at_once.life.evidence)


def test_minutes_without_scores_change_nothing():
    """Looking once gives what looking every minute gives."""
    one, other = DropState(DETECTOR, RECOVERS), DropState(DETECTOR, RECOVERS)
    stream = Stream(0.05, seed=5).run(400)
    buckets = filled(stream).of(SERIES)
    one.advance(merge_buckets([buckets]), 400)
    for minute in range(1, 401):
        other.advance(merge_buckets([buckets]), minute)
    assert one.life.evidence == pytest.approx(other.life.evidence)


def test_a_conversation_counts_as_one_throw_however_long_it_is():
    """Twelve bad turns of one conversation tell far less than twelve of as many conversations."""

    def after(key):
        buckets = Buckets(60.0, 86400.0)
        for number in range(12):
            buckets.add(SERIES, DETECTOR, key(number), weight=Weight(1.0, 1.0), score=0.0, time=number * 60.0)
        return sum(bucket.gains[5] for bucket in buckets.of(SERIES).values())

    alone = after(lambda _number: "same")
    assert alone == pytest.approx(DETECTOR.log_gain(DETECTOR.bets[5], 1.0, 0.0))
    assert after(str) > 2 * alone


def test_sums_are_those_of_the_metrics():
    stream = Stream(3.0, turns=3, seed=6).run(30)
    sums, total = BoundedSums(), Sums()
    for minute, scores in enumerate(stream.scores):
        for key, score in scores:
            grown = sums.add(SERIES, key, weight=Weight(2.0, 2.0), score=score, time=minute * 60.0).mean
            total += grown
    counted = Sums()
    for bucket in filled(stream, weight=2.0).of(SERIES).values():
        counted += bucket.sums
    assert counted.w2y2 == pytest.approx(total.w2y2)
    assert counted.stderr == pytest.approx(total.stderr)


@pytest.mark.parametrize(("mean", "wrong"), [(MEAN, False), (0.6, True)])
def test_the_mean_is_tested_in_every_window(mean: float, wrong: bool):
    stream = Stream(2.0, mean=lambda _minute: mean, seed=7).run(300)
    buckets = filled(stream).of(SERIES)
    found = target_misses(buckets, DETECTOR, now=300 * 60.0, interval=60.0, min_n=30)
    assert any(each.standard_errors > 4 for each in found) == wrong
    assert (
        target_misses(buckets, DETECTOR, now=300 * 60.0, interval=60.0, min_n=30, doubts=dict.fromkeys(WINDOWS, 0.3))
        == []
    )


def test_what_is_older_than_the_memory_is_forgotten():
    buckets = Buckets(60.0, 86400.0)
    chance = random.Random(1)
    for minute in range(0, 10 * 1440, 7):
        buckets.add(SERIES, DETECTOR, str(minute), weight=Weight(1.0, 1.0), score=chance.random(), time=minute * 60.0)
        buckets.forget(minute * 60.0)
    assert len(buckets.of(SERIES)) <= 1440 // 7 + 2


def test_an_alert_ends_when_the_mean_has_recovered_and_a_second_drop_alerts_again():
    """From to what, since when; and the windows that hold the incident do not say that the mean is low."""

    def mean(minute: int) -> float:
        return 0.3 if 200 <= minute < 260 or 500 <= minute < 560 else MEAN

    stream = Stream(4.0, mean=mean, seed=8).run(560)
    buckets = merge_buckets([filled(stream).of(SERIES)])
    drop, falls = DropState(DETECTOR, RECOVERS), []
    for minute in range(1, 561):
        drop.advance(buckets, minute)
        falls.append(fall_of(drop, buckets, 60.0))
    assert [bool(fall) for fall in (falls[199], falls[259], falls[499], falls[559])] == [False, True, False, True]
    first, second = falls[259], falls[559]
    assert first is not None
    assert second is not None
    assert first.began[0] <= 200 * 60.0 <= first.began[1]
    assert second.began[0] <= 500 * 60.0 <= second.began[1]
    assert first.before == pytest.approx(MEAN, abs=0.05)
    assert first.level < 0.5, "of the few scores until it was found"

    looked = DropState(DETECTOR, RECOVERS)
    looked.advance(buckets, 420)
    assert looked.life.recovered is not None
    known = {number: bucket for number, bucket in buckets.items() if number < 420}
    whole = target_misses(known, DETECTOR, now=420 * 60.0, interval=60.0, min_n=30)
    assert {"6h", "24h"} <= {each.window for each in whole if each.standard_errors > 4}
    now = target_misses(known, DETECTOR, now=420 * 60.0, interval=60.0, min_n=30, recovered=looked.life.recovered)
    assert not [each for each in now if each.standard_errors > 3.5]


def test_the_share_without_a_score_is_of_the_last_hour_and_of_enough():
    buckets = Buckets(60.0, 86400.0)
    for number in range(19):
        buckets.add(SERIES, DETECTOR, str(number), weight=Weight(1.0, 1.0), score=1.0, time=7200.0 + number)
    parts = [buckets.of(SERIES)]
    assert unscored_share(parts, now=7300.0, interval=60.0) == 0.0, "of too few"
    for _ in range(6):
        buckets.add_unscored(SERIES, time=7250.0)
    assert unscored_share(parts, now=7300.0, interval=60.0) == pytest.approx(6 / 25)
    buckets.add_unscored(SERIES, time=7260.0, number=-1)
    assert unscored_share(parts, now=7300.0, interval=60.0) == pytest.approx(5 / 24), "one was made again"
    assert unscored_share(parts, now=7300.0 + 3700.0, interval=60.0) == 0.0


def test_refused_audits_leave_bounds_of_a_miss() -> None:
    buckets, series = Buckets(60.0, 7 * 86400.0), ("all", "helpful:audit", "a")
    for number in range(600):
        drawn, refused = number % 2 == 0, number % 20 == 0
        audit = AuditScore(float(number % 3 > 0), 0.5) if drawn and not refused else None
        buckets.add_audited(
            series, DETECTOR, f"c{number}", sampling=Sampling(), score=0.7, audit=audit,
            lost=0.5 * (drawn and refused), time=number,
        )  # fmt: skip
    misses = target_misses(buckets.of(series), DETECTOR, now=700.0, interval=60.0, min_n=30)
    assert misses
    low, high = misses[-1].bounds
    assert high - low == pytest.approx(0.1, abs=0.002)
