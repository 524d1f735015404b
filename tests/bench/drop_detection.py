"""False alarms and delays of the alerts on scores, simulated: `python tests/bench/drop_detection.py [--quick]`.

Prints the tables of deploy/docs/alerts.md. Scores on five levels, in control of mean 0.80 and standard deviation 0.27, held
to 0.77; Poisson arrivals; one look a minute. The detector is the service's own (collector.alerting.detection): its bets,
coefficients, threshold and ceiling; numpy only runs many streams at once. False alarms are notifications per 30 days
and series: two belong together if less than five minutes lie between. "edge" is a mean of exactly 0.77: as bad as it may
be without being wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "prometheus"))

from streams import LEVELS, MEAN, shares

from collector.alerting.detection import SCORES_PER_CONVERSATION, VARIANCE_FLOOR, DropDetector, threshold

DAY = 1440
TARGET = 0.77
RATES = (20, 100, 500, 2000)
WINDOWS = (15, 60, 360, 1440)
LONGEST = 12


@dataclass
class Sums:
    """The five sums of every minute, and what an exact detector adds for every bet: arrays of minutes x streams."""

    w: np.ndarray
    wy: np.ndarray
    w2: np.ndarray
    w2y: np.ndarray
    w2y2: np.ndarray
    exact: np.ndarray | None = None


def detector(scale: float) -> DropDetector:
    return DropDetector(target=TARGET, scale=scale, threshold=threshold(90 * 86400.0, 60.0, 1))


def single(rng: np.random.Generator, runs: int, per_minute: float, path: np.ndarray, of: DropDetector) -> Sums:
    """Conversations of one turn, all of weight 1."""
    counts = np.zeros((len(path), runs, len(LEVELS)))
    for mean in np.unique(path):
        at = np.where(path == mean)[0]
        for level, share in enumerate(shares(float(mean))):
            counts[at, :, level] = rng.poisson(per_minute * share, size=(len(at), runs))
    y = np.array(LEVELS)
    gains = np.array([[of.log_gain(bet, 1.0, level) for level in LEVELS] for bet in of.bets])
    n, s, q = counts.sum(2), counts @ y, counts @ y**2
    return Sums(n, s, n, s, q, counts @ gains.T)


def weighted(rng: np.random.Generator, runs: int, per_minute: float, path: np.ndarray, ratio: float) -> Sums:
    """A tenth of the traffic is flagged, a third worse, and judged `ratio` times as often; weights up to 1."""
    shape = (len(path), runs)
    sums = [np.zeros(shape) for _ in range(5)]
    base = per_minute / (0.9 + 0.1 * ratio)
    for share, times, offset in ((0.9, 1.0, 0.0333), (0.1, ratio, -0.3)):
        weight = 1.0 / times
        for mean in np.unique(path):
            at = np.where(path == mean)[0]
            for level, part in enumerate(shares(min(0.97, float(mean) + offset))):
                k = rng.poisson(base * share * times * part, size=(len(at), runs))
                y = LEVELS[level]
                for total, each in zip(
                    sums, (weight, weight * y, weight**2, weight**2 * y, weight**2 * y * y), strict=True
                ):
                    total[at] += k * each
    return Sums(*sums)


def conversations(rng: np.random.Generator, runs: int, per_minute: float, path: np.ndarray, of: DropDetector) -> Sums:
    """Conversations of 3 turns in the mean, 12 at most, that are good or bad as a whole; `per_minute` turns.

    Half of the variance of a score is its conversation's.
    """
    shape = (len(path), runs)
    flat = len(path) * runs
    sums = [np.zeros(flat) for _ in range(5)]
    exact = np.zeros((flat, len(of.bets)))
    rate = per_minute / 3.0
    counts = rng.poisson(rate, size=flat)
    minute = np.repeat(np.arange(flat), counts)
    turns = np.minimum(rng.geometric(1 / 3.0, size=len(minute)), LONGEST)
    mean = path[minute // runs]
    quality = rng.beta(mean, 1 - mean)  # of concentration 1: half of a score's variance lies between conversations
    good = rng.binomial(turns, quality)
    a, b = turns.astype(float), good.astype(float)
    for number, each in enumerate((a, b, a * a, a * b, b * b)):
        sums[number] += np.bincount(minute, weights=each, minlength=flat)
    part = np.minimum(1.0, of.scale / a)
    for number, bet in enumerate(of.bets):
        gain = np.log1p(bet * (TARGET * a - b) * part / of.scale)
        exact[:, number] = np.bincount(minute, weights=gain, minlength=flat)
    return Sums(*(each.reshape(shape) for each in sums), exact.reshape(*shape, len(of.bets)))


def evidence_alarms(of: DropDetector, increments: np.ndarray) -> np.ndarray:
    """Where the detector alerts; `increments` are minutes x streams x bets. It is held down, not started afresh."""
    states = np.full(increments.shape[1:], -np.inf)
    alarms = np.zeros(increments.shape[:2], bool)
    many = np.log(len(of.bets))
    on = np.zeros(increments.shape[1], bool)
    for minute in range(len(increments)):
        states = np.minimum(np.logaddexp(states, 0.0) + increments[minute], of.ceiling)
        highest = states.max(1)
        evidence = highest + np.log(np.exp(states - highest[:, None]).sum(1)) - many
        on = evidence > np.where(on, of.clear_threshold, of.threshold)
        alarms[minute] = on
    return alarms


def bounds(of: DropDetector, sums: Sums) -> np.ndarray:
    linear = (TARGET * sums.w - sums.wy) / of.scale
    squares = (TARGET**2 * sums.w2 - 2 * TARGET * sums.w2y + sums.w2y2) / of.scale**2
    bets = np.array(of.bets)
    curve = np.array([of.coefficient(bet) * bet**2 for bet in of.bets])
    return linear[:, :, None] * bets - squares[:, :, None] * curve


def gate_alarms(sums: Sums, errors: float) -> np.ndarray:
    """Where the mean is so many standard errors below target in any window."""
    alarms = np.zeros(sums.w.shape, bool)
    for window in WINDOWS:
        w, wy, w2, w2y, w2y2 = (_rolling(each, window) for each in (sums.w, sums.wy, sums.w2, sums.w2y, sums.w2y2))
        safe = np.maximum(w, 1e-9)
        mean = wy / safe
        error = np.sqrt(np.maximum(w2y2 - 2 * mean * w2y + mean**2 * w2, 0) + VARIANCE_FLOOR * w2) / safe
        found = (w**2 >= 30 * w2) & (w > 0) & (mean < TARGET - errors * error)
        found[:window] = False
        alarms |= found
    return alarms


def _rolling(values: np.ndarray, window: int) -> np.ndarray:
    total = np.cumsum(values, axis=0)
    rolled = total.copy()
    rolled[window:] = total[window:] - total[:-window]
    return rolled


def notifications(alarms: np.ndarray) -> np.ndarray:
    """How often somebody is told: starts that lie more than five minutes after the last alarm."""
    counts, last = np.zeros(alarms.shape[1]), np.full(alarms.shape[1], -(10**9))
    for minute, now in enumerate(alarms):
        counts += now & (minute - last > 5)
        last = np.where(now, minute, last)
    return counts


def delay(alarms: np.ndarray, start: int) -> float:
    """Median hours from `start` to the first alarm; what is never found counts as the rest of the time."""
    after = alarms[start:]
    found = np.where(after.any(0), after.argmax(0) + 1, len(after))
    return float(np.median(found)) / 60


def alerts(sums: Sums, exact: DropDetector, rules: DropDetector) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    if sums.exact is not None:
        found["evidence, exact (watcher)"] = evidence_alarms(exact, sums.exact)
    found["evidence, from sums (rules)"] = evidence_alarms(rules, bounds(rules, sums))
    found["mean, 3.5 errors (warn)"] = gate_alarms(sums, 3.5)
    found["mean, 4 errors (page)"] = gate_alarms(sums, 4.0)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="few runs, to see that it works")
    runs, days = (4, 3) if parser.parse_args().quick else (40, 30)
    rng = np.random.default_rng(7)
    began = time.monotonic()
    of = detector(SCORES_PER_CONVERSATION)
    drops = (0.05, 0.1, 0.2)
    print("| judged an hour | alert | in control | edge | " + " | ".join(f"drop {drop}" for drop in drops) + " |")
    print("|---|---|---|---|---|---|---|")
    for rate in RATES:
        rows: dict[str, list[str]] = {}
        for mean in (MEAN, TARGET):
            path = np.full(days * DAY, mean)
            for name, alarms in alerts(single(rng, runs, rate / 60, path, of), of, of).items():
                rows.setdefault(name, []).append(f"{notifications(alarms).mean() * 30 / days:.2f}")
        for drop in drops:
            path = np.full(10 * DAY, MEAN)
            path[3 * DAY :] -= drop
            for name, alarms in alerts(single(rng, 2 * runs, rate / 60, path, of), of, of).items():
                rows[name].append(f"{delay(alarms, 3 * DAY):.2f} h")
        for name, row in rows.items():
            print(f"| {rate} | {name} | " + " | ".join(row) + " |", flush=True)
    print("\nConversations that are good or bad as a whole (3 turns in the mean), 100 turns an hour; per 30 days:")
    for mean in (MEAN, TARGET):
        path = np.full(days * DAY, mean)
        found = alerts(conversations(rng, runs, 100 / 60, path, of), of, of)
        figures = ", ".join(f"{name} {notifications(a).mean() * 30 / days:.2f}" for name, a in found.items())
        print(f"mean {mean:.2f}: {figures}", flush=True)
    path = np.full(10 * DAY, MEAN)
    path[3 * DAY :] -= 0.2
    found = alerts(conversations(rng, 2 * runs, 100 / 60, path, of), of, of)
    print("delay after 0.2: " + ", ".join(f"{name} {delay(a, 3 * DAY):.2f} h" for name, a in found.items()), flush=True)
    print("\nFlagged traffic judged more often, weights 1/p, 100 judged an hour, at the edge; per 30 days:")
    for ratio in (1.0, 4.0):
        path = np.full(days * DAY, TARGET)
        found = alerts(weighted(rng, runs, 100 / 60, path, ratio), of, of)
        figures = ", ".join(f"{name} {notifications(a).mean() * 30 / days:.2f}" for name, a in found.items())
        path = np.full(10 * DAY, MEAN)
        path[3 * DAY :] -= 0.1
        late = alerts(weighted(rng, 2 * runs, 100 / 60, path, ratio), of, of)
        delays = ", ".join(f"{name} {delay(a, 3 * DAY):.2f} h" for name, a in late.items())
        print(f"x{ratio:g}: {figures}; delay after 0.1: {delays}", flush=True)
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
