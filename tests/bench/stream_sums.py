"""The sums of a long stream, much faster than one score after the other through the service's code.

What `collector.statistics.bounded_sums` does for one series, with numbers in lists where it has objects, and everything that
does not depend on the order in numpy. `tests/unit/alerting/test_false_alarms.py` holds the two against each other.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from collector.statistics.bounded_sums import LARGEST
from collector.statistics.conversations import FADE_DAY, PAUSE
from collector.statistics.incident import DropDetector

HISTORY, ENOUGH, COVERED, SCORES, STEPS, TOO_HIGH, LEVELLED = 1000, 20, 0.95, 4.0, 8, 2.0, 16.0
"""As in `collector.statistics.bounded_sums`."""
HOUR, DAY, FADE = 60.0, PAUSE / 60.0, FADE_DAY / 60.0
"""In minutes, as times are. Conversations here end before a day without a score has passed, or a week."""
COLUMNS = 11
"""Of a minute: five sums for the mean, five for the detector, and how many scores."""


@dataclass(frozen=True)
class Turns:
    """Turns that are judged, in order of time: minute, conversation (a number), weight, our own part of it, score.

    `rate` is that of `collector.statistics.bounded_sums.Weight`: our own part, unless there are boosts.
    """

    minute: np.ndarray
    conversation: np.ndarray
    full: np.ndarray
    own: np.ndarray
    score: np.ndarray
    rate: np.ndarray | None = None

    @property
    def rates(self) -> np.ndarray:
        return self.own if self.rate is None else self.rate


def sums_by_minute(turns: Turns, minutes: int) -> np.ndarray:
    """The columns of every minute."""
    return sums_and_gains(turns, minutes, None)[0]


def sums_and_gains(turns: Turns, minutes: int, of: DropDetector | None) -> tuple[np.ndarray, np.ndarray]:
    """The columns of every minute, and what it adds to the logarithm of each bet, as in the watcher's buckets."""
    w, wy, admitted, share, share_y, part = np.array(_admitted(turns)).reshape(-1, 6).T
    at = turns.minute.astype(int)
    grown = (*_grown(w, wy, admitted, turns.score), *_grown(share, share_y, part, turns.score), np.ones(len(at)))
    sums = np.stack([np.bincount(at, each, minutes) for each in grown], axis=1)
    if of is None:
        return sums, np.zeros((minutes, 0))
    short = of.target * share - share_y
    after = short + of.target * part - part * turns.score
    gains = [np.bincount(at, np.log1p(bet * after) - np.log1p(bet * short), minutes) for bet in of.bets]
    return sums, np.stack(gains, axis=1)


def _grown(w: np.ndarray, wy: np.ndarray, weight: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, ...]:
    """What scores add to the five sums, as in `collector.statistics.bounded_sums.increments`."""
    more = weight * score
    return weight, more, weight * (2.0 * w + weight), more * (w + weight) + weight * wy, more * (2.0 * wy + more)


def _admitted(turns: Turns) -> list[tuple[float, ...]]:
    """Of every turn the sums of its conversation before it, and what is admitted: for the mean, and for the detector."""
    lasts: list[float] = []
    hours: list[float] = []
    in_hour: list[float] = []
    totals: list[float] = []
    ws: list[float] = []
    wys: list[float] = []
    levelled: list[float] = []
    shares: list[float] = []
    share_ys: list[float] = []
    places: list[int] = []
    of: dict[int, int] = {}
    rates: deque[float] = deque(maxlen=ENOUGH)
    oldest, total, all_levelled, largest, top, level = 0, 0.0, 0.0, 0.0, 0, 0.0
    counts, weights = [0] * 256, [0.0] * 256
    found: list[tuple[float, ...]] = []
    log2, ceil = math.log2, math.ceil
    for time, key, full, own, score, rate in zip(
        turns.minute.tolist(),
        turns.conversation.tolist(),
        turns.full.tolist(),
        turns.own.tolist(),
        turns.score.tolist(),
        turns.rates.tolist(),
        strict=True,
    ):
        new = max(rates, default=rate) / LEVELLED
        if not new <= level <= new * TOO_HIGH:
            level = new
        rates.append(rate)
        one = of.get(key, -1)
        if one < 0 or time - lasts[one] > DAY:
            one = of[key] = len(lasts)
            lasts.append(time)
            hours.append(time)
            for each in (in_hour, totals, levelled, ws, wys, shares, share_ys):
                each.append(0.0)
            places.append(0)
            counts[0] += 1
            if one - oldest >= HISTORY:
                place = places[oldest]
                counts[place] -= 1
                weights[place] = weights[place] - levelled[oldest] if counts[place] else 0.0
                total -= totals[oldest]
                all_levelled -= levelled[oldest]
                oldest += 1
        left = math.exp((lasts[one] - time) / FADE)
        lasts[one] = time
        if time - hours[one] > HOUR:
            hours[one], in_hour[one] = time, 0.0
        w, wy, share, share_y = left * ws[one], left * wys[one], shares[one], share_ys[one]
        known = len(lasts) - oldest
        if known >= ENOUGH:
            room = max(LARGEST * total / known, own) - in_hour[one]
            while top and not counts[top]:
                top -= 1
            beyond, rest, scale = 0.0, (1.0 - COVERED) * all_levelled, 1.0
            if counts[top] == 1:
                rest = max(rest, weights[top])
            for place in range(top, -1, -1):
                beyond += weights[place]
                if beyond > rest:
                    scale = 2.0 ** (place / STEPS)
                    break
        else:
            room = LARGEST * own
            scale = SCORES * max(largest, min(full, room) / level)
        admitted = min(full, max(0.0, room))
        part = min(admitted / level / scale, 1.0 - share)
        found.append((w, wy, admitted, share, share_y, part))
        wys[one] = wy + admitted * score
        shares[one] = share + part
        share_ys[one] = share_y + part * score
        noted = admitted / max(level, rate / LEVELLED)
        largest = max(largest, noted)
        ws[one] = w + admitted
        in_hour[one] += admitted
        totals[one] += admitted
        before, levelled[one] = levelled[one], levelled[one] + noted
        more = levelled[one]
        if one >= oldest:
            place = places[one]
            counts[place] -= 1
            weights[place] = weights[place] - before if counts[place] else 0.0
            places[one] = place = ceil(STEPS * log2(more) - 1e-9) if more > 1.0 else 0
            counts[place] += 1
            weights[place] += more
            total += admitted
            all_levelled += noted
            top = max(top, place)
    return found
