"""A change detector beside the target, measured before it is built: `python tests/bench/change_detection.py [--runs N]`.

It asks "is the mean of these hours below that of the same hours of the week in the four weeks before?". Time is cut into
blocks of six hours. With d a block's mean less the mean of the four blocks before it, v the variance of d by the scores
(conversations as clusters), and a drift that is no change, each of a ladder of falls δ adds, once a block,

    M ← (1 + M) · exp(-(d + drift) δ / v - δ² / (2 v))

as Shiryaev and Roberts have it for a normal mean; their mean is compared with the number of blocks in 90 days, which is how
many pass on average before a false alarm if d is normal and blocks are independent. Beside it: the service's own pages at
two targets, and a cumulative sum (Page 1954) that knows the distribution before and after, with as many false alarms.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "statistics"))
sys.path.insert(0, str(Path(__file__).parents[1] / "prometheus"))
sys.path.insert(0, str(Path(__file__).parent))

import drop_detection
from streams import LEVELS, MEAN, shares
from test_long_conversations import KINDS as LONG, stream as lasting

from collector.statistics.bounded_sums import VARIANCE_FLOOR
from collector.statistics.incident import DropDetector, threshold

HOURS, WEEK, WEEKS, DAYS = 6, 168, 4, 90
FALLS = (0.03, 0.06, 0.12, 0.25)
DRIFTS = (0.0, 0.01, 0.02)
PER_HOUR = 100.0
LEAST = 10.0

Scores = tuple[np.ndarray, np.ndarray, np.ndarray]
"""When (hours), of which conversation, and the score."""
Means = Callable[[np.random.Generator, np.ndarray], np.ndarray]
"""The mean of each hour."""


def turns(rng: np.random.Generator, hours: int, means: np.ndarray, *, alike: bool, rate: float | np.ndarray) -> Scores:
    """Single turns on five levels; or conversations of three turns in the mean, good or bad as a whole."""
    hour = np.repeat(np.arange(hours), rng.poisson(rate / (3.0 if alike else 1.0), hours))
    mean = np.clip(means, 0.02, 0.98)[hour]
    if not alike:
        score = rng.binomial(4, rng.beta(2.4 * mean, 2.4 * (1 - mean))) / 4
        return hour + rng.random(len(hour)), np.arange(len(hour)), score
    of = np.repeat(np.arange(len(hour)), np.minimum(rng.geometric(1 / 3.0, len(hour)), 12))
    score = (rng.random(len(of)) < rng.beta(mean, 1 - mean)[of]).astype(float)
    return (hour + rng.random(len(hour)))[of], of, score


def blocks(scores: Scores, hours: int) -> tuple[np.ndarray, ...]:
    """Of each block the mean, its variance, and how many conversations."""
    at, conversation, score = scores
    number = hours // HOURS
    block = np.floor(at / HOURS).astype(np.int64)
    kept = (block >= 0) & (block < number)
    most = int(conversation.max()) + 1
    key, place = np.unique(block[kept] * most + conversation[kept], return_inverse=True)
    a, b, of = np.bincount(place), np.bincount(place, score[kept]), key // most
    w, w2 = np.bincount(of, a, number), np.bincount(of, a * a, number)
    mean = np.bincount(of, b, number) / np.maximum(w, 1e-9)
    squares = np.bincount(of, (b - mean[of] * a) ** 2, number) + VARIANCE_FLOOR * w2
    return mean, squares / np.maximum(w, 1e-9) ** 2, w**2 / np.maximum(w2, 1e-9)


def alarms(streams: list[Scores], hours: int, drift: float) -> np.ndarray:
    """Whether each block (after the first weeks) of each stream ends with an alarm; the evidence then begins anew."""
    mean, variance, number = (np.stack(each, 1) for each in zip(*(blocks(one, hours) for one in streams), strict=True))
    week, limit = WEEK // HOURS, np.log(DAYS * 24 / HOURS)
    states = np.full((len(FALLS), len(streams)), -100.0)
    found = np.zeros(mean.shape, bool)
    for block in range(week * WEEKS, len(mean)):
        before = [block - week * back for back in range(1, WEEKS + 1)]
        d = mean[block] - mean[before].mean(0)
        v = variance[block] + variance[before].sum(0) / WEEKS**2
        enough = (number[[block, *before]] >= LEAST).all(0)
        for place, fall in enumerate(FALLS):
            grown = np.logaddexp(0.0, states[place]) - (d + drift) * fall / v - fall**2 / (2 * v)
            states[place] = np.where(enough, np.minimum(grown, 40.0), states[place])
        found[block] = np.log(np.exp(states).mean(0)) > limit
        states[:, found[block]] = -100.0
    return found


def constant(_rng: np.random.Generator, hour: np.ndarray) -> np.ndarray:
    return np.full(len(hour), 0.8)


def wave(size: float, period: float) -> Means:
    return lambda _rng, hour: 0.8 + size * np.sin(2 * np.pi * hour / period)


def by_hour(rng: np.random.Generator, hour: np.ndarray) -> np.ndarray:
    return 0.8 + 0.02 * rng.choice((-1.0, 1.0), len(hour))


def by_week(size: float) -> Means:
    return lambda rng, hour: 0.8 + np.repeat(size * rng.choice((-1.0, 1.0), len(hour) // WEEK + 1), WEEK)[: len(hour)]


def in_control(runs: int) -> None:
    hours = 24 * (7 * WEEKS + DAYS)
    hour = np.arange(hours)
    day = PER_HOUR * (1 + 0.67 * np.sin(2 * np.pi * hour / 24))
    kinds: dict[str, Callable[[np.random.Generator], Scores]] = {
        "single turns": lambda rng: turns(rng, hours, constant(rng, hour), alike=False, rate=PER_HOUR),
        "conversations good or bad as a whole": lambda rng: turns(
            rng, hours, constant(rng, hour), alike=True, rate=PER_HOUR
        ),
        "each hour ±0.02 of its own": lambda rng: turns(rng, hours, by_hour(rng, hour), alike=True, rate=PER_HOUR),
        "daily wave ±0.06, five times the traffic by day": lambda rng: turns(
            rng, hours, wave(0.06, 24)(rng, hour), alike=True, rate=day
        ),
        "weekly wave ±0.04": lambda rng: turns(rng, hours, wave(0.04, WEEK)(rng, hour), alike=True, rate=PER_HOUR),
        "each week ±0.01 of its own, single turns": lambda rng: turns(
            rng, hours, by_week(0.01)(rng, hour), alike=False, rate=PER_HOUR
        ),
        "each week ±0.02 of its own, single turns": lambda rng: turns(
            rng, hours, by_week(0.02)(rng, hour), alike=False, rate=PER_HOUR
        ),
    }
    for name, kind in LONG.items():
        kinds[name] = lambda rng, kind=kind: _lasting(rng, kind, hours)
    print(f"False alarms in {DAYS} days ({runs} streams), by drift that is no change:\n")
    print("| stream | " + " | ".join(f"{drift:g}" for drift in DRIFTS) + " |\n|---|" + "---|" * len(DRIFTS))
    for name, kind in kinds.items():
        streams = [kind(np.random.default_rng((1, run))) for run in range(runs)]
        cells = [f"{alarms(streams, hours, drift).sum() / runs:.2f}" for drift in DRIFTS]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def _lasting(rng: np.random.Generator, kind: object, hours: int) -> Scores:
    made = lasting(rng, kind, hours / 24)
    return made.time / 3600.0, made.conversation, made.score


def quantiles(hours: np.ndarray) -> str:
    half, most = np.quantile(hours, (0.5, 0.9), method="higher")
    return f"{half:.1f} h, {most:.1f} h" if np.isfinite(most) else (f"{half:.1f} h, –" if np.isfinite(half) else "–")


def delays(runs: int) -> None:
    """Hours from a fall to the alarm, in half and in nine of ten, of single turns."""
    print(f"\n| 100 single turns an hour, mean {MEAN:.2f} before ({runs} streams) | " + " | ".join(
        f"falls by {fall:g}" for fall in SHOWN) + " |\n|---|" + "---|" * len(SHOWN))  # fmt: skip
    for drift in DRIFTS:
        print(
            f"| change detector, drift {drift:g} | " + " | ".join(_change(fall, drift, runs) for fall in SHOWN) + " |"
        )
    for target in (0.77, 0.79):
        print(f"| pages at a target of {target:g} | " + " | ".join(_pages(fall, target, runs) for fall in SHOWN) + " |")
    print("| CUSUM that knows both means | " + " | ".join(_oracle(fall, runs) for fall in SHOWN) + " |", flush=True)


SHOWN = (0.02, 0.05, 0.1, 0.3)


def _change(fall: float, drift: float, runs: int) -> str:
    began, hours = 24 * 7 * WEEKS + 11, 24 * (7 * WEEKS + 7)
    streams = []
    for run in range(runs):
        rng = np.random.default_rng((2, run))
        means = np.where(np.arange(hours) >= began, MEAN - fall, MEAN)
        streams.append(turns(rng, hours, means, alike=False, rate=PER_HOUR))
    after = alarms(streams, hours, drift)[began // HOURS :]
    found = (after.argmax(0) + 1 + began // HOURS) * HOURS - began
    return quantiles(np.where(after.any(0), found, np.inf))


def _pages(fall: float, target: float, runs: int) -> str:
    drop_detection.TARGET = target
    drop_detection.DETECTOR = detector = DropDetector(target, threshold(DAYS * 86400.0, 60.0, 1))
    path = np.where(np.arange(9 * 1440) >= 2 * 1440, MEAN - fall, MEAN)
    sums = drop_detection.single(np.random.default_rng(3), runs, PER_HOUR / 60, path, detector)
    return quantiles(drop_detection.pages_after(drop_detection.alerts(sums), 2 * 1440))


def _oracle(fall: float, runs: int) -> str:
    """The limit is that of as many false alarms in a simulation of its own."""
    before, after = np.array(shares(MEAN)), np.array(shares(MEAN - fall))
    ratio = np.log(after / before)
    rng = np.random.default_rng(4)

    def path(minutes: int, levels: np.ndarray) -> np.ndarray:
        return rng.poisson(PER_HOUR / 60 * levels, (minutes, runs, len(LEVELS))) @ ratio

    def sums(steps: np.ndarray, limit: float) -> tuple[np.ndarray, int]:
        now, first, number = np.zeros(runs), np.full(runs, np.inf), 0
        for minute, step in enumerate(steps):
            now = np.maximum(0.0, now + step)
            hit = now > limit
            first = np.where(hit & np.isinf(first), (minute + 1) / 60, first)
            number += int(hit.sum())
            now[hit] = 0.0
        return first, number

    calm = path(30 * 1440, before)
    low, high = 1.0, 14.0
    for _ in range(7):
        middle = (low + high) / 2
        low, high = (middle, high) if sums(calm, middle)[1] > runs * 30 / DAYS else (low, middle)
    return quantiles(sums(path(7 * 1440, after), high)[0])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=24)
    chosen = parser.parse_args()
    began = time.monotonic()
    in_control(chosen.runs)
    delays(chosen.runs)
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
