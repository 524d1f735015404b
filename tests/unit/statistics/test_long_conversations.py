"""Errors and pages where conversations last for minutes, hours or days, on made-up streams of 150 scores an hour.

The streams are summed up in numpy, many conversations at once; `test_it_is_what_the_service_sums_up` compares that with
the service's own sums. The figures are in `tests/bench/ALERTS.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from collector.statistics.bounded_sums import VARIANCE_FLOOR, BoundedSums, Weight
from collector.statistics.conversations import FADE_DAY, FADE_WEEK, LONGEST, PAUSE
from collector.statistics.incident import DropDetector, threshold

HOUR, DAY = 3600.0, 86_400.0
PER_HOUR = 150.0
SHARES = (0.03, 0.06, 0.13, 0.24, 0.54)
MEAN = float(np.dot(SHARES, np.arange(5) / 4))


@dataclass(frozen=True)
class Kind:
    """Turns of a conversation in the mean and at most, seconds between them, and how often and long users go away."""

    turns: float
    most: int
    gap: float
    away: float = 0.0
    hours: float = 0.0


KINDS = {
    "few turns, minutes apart": Kind(3, 12, 120.0),
    "chats of an hour and more": Kind(15, 60, 360.0),
    "threads, users come back after hours": Kind(6, 60, 180.0, 0.15, 5.0),
    "long threads of one user": Kind(15, 200, 180.0, 0.3, 8.0),
}


@dataclass(frozen=True)
class Stream:
    """Scores by conversation, and in each by time (s); `place` is the score's place in its conversation."""

    time: np.ndarray
    conversation: np.ndarray
    place: np.ndarray
    score: np.ndarray

    def rows(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The indices of all first scores, of all second ones, and so on, with those of the scores before them."""
        order = np.argsort(self.place, kind="stable")
        for number, part in enumerate(np.split(order, np.cumsum(np.bincount(self.place))[:-1])):
            yield part, part - (number > 0)


def stream(rng: np.random.Generator, kind: Kind, days: float, warm: float = 6.0) -> Stream:
    """`days` of scores after `warm` others, whose conversations may still go on.

    Lengths are heavy-tailed. Scores are on five levels, alike by their conversation and by what was just before.
    """

    def lengths(number: int) -> np.ndarray:
        spread = rng.exponential(1.0, number) * np.exp(0.8 * rng.standard_normal(number) - 0.32)
        return np.clip(np.ceil(kind.turns * spread), 1, kind.most).astype(int)

    number = rng.poisson(PER_HOUR / lengths(20_000).mean() * 24 * (days + warm))
    length = lengths(number)
    first = np.cumsum(length) - length
    conversation = np.repeat(np.arange(number), length)
    gaps = rng.exponential(kind.gap, len(conversation))
    gaps = np.where(rng.random(len(gaps)) < kind.away, rng.exponential(kind.hours * HOUR, len(gaps)), gaps)
    gaps[first] = rng.uniform(-warm * DAY, days * DAY, number)
    time = np.cumsum(gaps)
    time -= (time[first] - gaps[first])[conversation]
    made = Stream(time, conversation, np.arange(len(time)) - first[conversation], np.zeros(len(time)))
    near = rng.standard_normal(len(time))
    for now, before in made.rows():
        if made.place[now[0]]:
            near[now] = 0.9 * near[before] + np.sqrt(1 - 0.81) * near[now]
    alike = 0.5 * rng.standard_normal(number)[conversation] + np.sqrt(0.35) * near
    latent = alike + np.sqrt(0.4) * rng.standard_normal(len(time))
    np.copyto(made.score, np.searchsorted(_LIMITS, latent) / 4)
    return made


_LIMITS = np.quantile(np.random.default_rng(0).standard_normal(2_000_000), np.cumsum(SHARES)[:-1])


def is_new(of: Stream, pause: float = PAUSE, longest: float = LONGEST) -> np.ndarray:
    """Whether a score is the first one of a conversation as `collector.statistics.conversations` has it."""
    start, new = of.time.copy(), of.place == 0
    for now, before in of.rows():
        if of.place[now[0]]:
            since = of.time[now] - of.time[before]
            new[now] = (since > pause) | (of.time[now] - start[before] > longest)
            start[now] = np.where(new[now], of.time[now], start[before])
    return new


def growth(of: Stream, fade: float) -> np.ndarray:
    """What each score adds to w, wy, w2, w2y and w2y2, as `FadingTotals` has it with weights of 1."""
    a, b, new = np.zeros(len(of.time)), np.zeros(len(of.time)), is_new(of)
    for now, before in of.rows():
        if of.place[now[0]]:
            kept = np.where(new[now], 0.0, np.exp(-(of.time[now] - of.time[before]) / fade))
            a[now], b[now] = kept * (a[before] + 1), kept * (b[before] + of.score[before])
    y = of.score
    return np.stack([np.ones(len(y)), y, 2 * a + 1, y * (a + 1) + b, y * (2 * b + y)])


def covered(of: Stream, hours: float, days: float) -> np.ndarray:
    """Whether the 95 % interval of each window covers the mean; windows begin three hours apart, or follow each other."""
    order = np.argsort(of.time)
    sums = np.cumsum(growth(of, FADE_WEEK if hours > 24 else FADE_DAY)[:, order], axis=1)
    ends = np.arange(hours * HOUR, days * DAY + 1, max(3.0, hours / 2) * HOUR)
    last, first = (np.searchsorted(of.time[order], at) - 1 for at in (ends, ends - hours * HOUR))
    w, wy, w2, w2y, w2y2 = sums[:, last] - sums[:, first]
    mean = wy / w
    error = np.sqrt(np.maximum(0.0, w2y2 - 2 * mean * w2y + mean**2 * w2) + VARIANCE_FLOOR * w2) / w
    return np.abs(mean - MEAN) < 1.96 * error


def pages(of: Stream, days: int, detector: DropDetector) -> int:
    """How often the drop detector pages, with a scale below which 95 % of the weight lies."""
    run = np.cumsum(is_new(of)) - 1
    size, first = np.bincount(run), np.flatnonzero(is_new(of))
    largest = np.sort(size)[::-1]
    scale = largest[np.searchsorted(np.cumsum(largest), 0.05 * len(run))]
    place = np.arange(len(run)) - first[run]
    short = np.clip(1 - place / scale, 0.0, 1 / scale) * (detector.target - of.score)
    after = np.cumsum(short)
    after -= (after[first] - short[first])[run]
    bets = np.array(detector.bets)
    gains = np.log1p(np.outer(after, bets)) - np.log1p(np.outer(after - short, bets))
    minute = np.floor(of.time / 60).astype(int)
    kept = (minute >= 0) & (minute < days * 1440)
    minutes, place = np.unique(minute[kept], return_inverse=True)
    summed = np.stack([np.bincount(place, gain) for gain in gains[kept].T], axis=1)
    found, states, passed = 0, np.full(len(bets), -100.0), np.minimum(np.diff(minutes, prepend=minutes[0] - 1), 60)
    for gain, ago in zip(summed, passed, strict=True):
        states = np.clip(np.logaddexp(states, np.log(ago)) + gain, -100.0, detector.ceiling)
        if np.logaddexp.reduce(states) - np.log(len(bets)) > detector.threshold:
            found, states = found + 1, np.full(len(bets), -100.0)
    return found


def test_it_is_what_the_service_sums_up() -> None:
    made = stream(np.random.default_rng(1), KINDS["long threads of one user"], 2.0, warm=1.0)
    sums, scores = BoundedSums(), np.argsort(made.time)
    for fade, part in ((FADE_DAY, "mean"), (FADE_WEEK, "week")):
        expected, sums = growth(made, fade), BoundedSums()
        for number in scores:
            grown = sums.add(
                "s",
                made.conversation[number],
                weight=Weight(1.0, 1.0),
                score=made.score[number],
                time=made.time[number],
            )
            got = getattr(grown, part)
            assert [got.w, got.wy, got.w2, got.w2y, got.w2y2] == pytest.approx(expected[:, number])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("hours", "least", "most"), [(6, 0.93, 0.99), (24, 0.92, 0.975), (168, 0.88, 0.99)])
def test_95_percent_intervals_cover(kind: str, hours: float, least: float, most: float) -> None:
    """Eight streams of four weeks: the bounds are those of the measured share, with its own chance."""
    hits = [covered(stream(np.random.default_rng(run), KINDS[kind], 28.0), hours, 28.0) for run in range(8)]
    assert least <= np.mean(hits) <= most


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_95_percent_intervals_cover_in_many_streams(kind: str) -> None:
    for hours, most in ((6, 0.98), (24, 0.97), (168, 0.97)):
        runs = range(400 if hours > 24 else 60)
        share = np.mean([covered(stream(np.random.default_rng(run), KINDS[kind], 28.0), hours, 28.0) for run in runs])
        print(f"{kind}, {hours} h: {share:.1%}", file=sys.stderr)
        assert 0.925 <= share <= most


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_at_its_target_the_mean_pages_no_more_often_than_promised(kind: str) -> None:
    """60 streams of 30 days with the mean exactly at the target: at most one in 90 days, with two standard errors."""
    detector = DropDetector(target=MEAN, threshold=threshold(90 * DAY, 60.0, 1))
    found = [pages(stream(np.random.default_rng(run), KINDS[kind], 30.0), 30, detector) for run in range(60)]
    error = np.std(found) / np.sqrt(len(found))
    print(f"{kind}: {np.mean(found):.2f} ± {1.96 * error:.2f} pages in 30 days", file=sys.stderr)
    assert np.mean(found) <= 0.33 + 2 * error
