"""False alarms and delays of the alerts on scores, simulated: `python tests/bench/drop_detection.py [--quick]`.

Prints the tables of tests/bench/ALERTS.md. Scores on five levels, in control of mean 0.80 and standard deviation 0.27, held
to 0.77; Poisson arrivals; one look a minute. The detector is the service's own (collector.statistics.incident): its bets,
coefficients and threshold; `alert_lives.py` runs many streams of it at once. False alarms are notifications per 30 days
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

from alert_lives import Minutes, begun, fall_numbers
from stream_sums import COLUMNS, Turns, sums_and_gains
from streams import LEVELS, MEAN, shares

from collector.statistics.bounded_sums import VARIANCE_FLOOR
from collector.statistics.incident import DropDetector, threshold

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
    evidence: Sums | None = None
    """The sums for the detector, where they differ: their weights are shares of its scale."""
    scores: np.ndarray | None = None
    """How many scores there were, where that is not the sum of their weights."""


DETECTOR = DropDetector(target=TARGET, threshold=threshold(90 * 86400.0, 60.0, 1))
SERIES = ("all", "helpful", "v")


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
    sums = [np.zeros(shape) for _ in range(6)]
    base = per_minute / (0.9 + 0.1 * ratio)
    for share, times, offset in ((0.9, 1.0, 0.0333), (0.1, ratio, -0.3)):
        weight = 1.0 / times
        for mean in np.unique(path):
            at = np.where(path == mean)[0]
            for level, part in enumerate(shares(min(0.97, float(mean) + offset))):
                k = rng.poisson(base * share * times * part, size=(len(at), runs))
                y = LEVELS[level]
                for total, each in zip(
                    sums, (weight, weight * y, weight**2, weight**2 * y, weight**2 * y * y, 1.0), strict=True
                ):
                    total[at] += k * each
    return Sums(*sums[:5], scores=sums[5])


@dataclass(frozen=True)
class Sampler:
    """What a sampler before us does with a conversation: `rest` of it is taken, and of turns with an error all."""

    rest: float = 1.0
    keeps_errors: bool = False


ERRORS, ERROR_SCORE = 0.1, 0.3
"""Share of turns with an error, where a sampler keeps them, and their mean score."""
GAP = 2.0
"""Minutes between two turns of a conversation, in the mean."""


def conversations(rng: np.random.Generator, runs: int, per_minute: float, path: np.ndarray, sampler: Sampler) -> Sums:
    """Conversations of 3 turns in the mean, 12 at most, that are good or bad as a whole; `per_minute` turns are judged.

    Half of the variance of a score is its conversation's. Turns come one by one, and are summed up as the exporter and the
    buckets of the watcher do it.
    """
    each = [sums_and_gains(turns_of(rng, per_minute, path, sampler), len(path), DETECTOR) for _ in range(runs)]
    return sums_of_minutes([run[0] for run in each], np.stack([run[1] for run in each], axis=1))


def sums_of_minutes(streams: list[np.ndarray], exact: np.ndarray | None = None) -> Sums:
    """The columns of each stream's minutes as sums over streams."""
    columns = [np.stack([each[:, number] for each in streams], axis=1) for number in range(COLUMNS)]
    return Sums(*columns[:5], exact, Sums(*columns[5:10]), columns[10])


def turns_of(rng: np.random.Generator, per_minute: float, path: np.ndarray, sampler: Sampler) -> Turns:
    """The turns that pass the sampler, in order."""
    errors = ERRORS if sampler.keeps_errors else 0.0
    passing = sampler.rest + errors * (1.0 - sampler.rest)  # of all turns
    started = rng.uniform(0, len(path), rng.poisson(per_minute / 3.0 / passing * len(path)))
    lengths = np.minimum(rng.geometric(1 / 3.0, len(started)), LONGEST)
    taken = rng.random(len(started)) < sampler.rest
    mean = (path[started.astype(int)] - errors * ERROR_SCORE) / (1.0 - errors)
    quality = rng.beta(mean, 1 - mean)  # of concentration 1: half of a score's variance lies between conversations
    of = np.repeat(np.arange(len(started)), lengths)
    failed = rng.random(len(of)) < errors
    gaps = np.cumsum(rng.exponential(GAP, len(of)))
    minute = started[of] + gaps - gaps[np.cumsum(lengths) - lengths][of]
    score = (rng.random(len(of)) < np.where(failed, ERROR_SCORE, quality[of])).astype(float)
    kept = np.flatnonzero((taken[of] | failed) & (minute < len(path)))
    kept = kept[np.argsort(minute[kept], kind="stable")]
    full = 1.0 / np.where(failed[kept], 1.0, sampler.rest)
    return Turns(minute[kept], of[kept], full, np.ones(len(kept)), score[kept])


def minutes_of(sums: Sums, gains: np.ndarray | None = None) -> Minutes:
    """What a detector sees of the sums; without the gains of its bets, their lower bounds."""
    of = sums.evidence or sums
    return Minutes(of.w, of.wy, of.w2, of.w2y, of.w2y2, bounds(DETECTOR, of) if gains is None else gains)


def bounds(of: DropDetector, sums: Sums) -> np.ndarray:
    linear = TARGET * sums.w - sums.wy
    squares = TARGET**2 * sums.w2 - 2 * TARGET * sums.w2y + sums.w2y2
    bets = np.array(of.bets)
    curve = np.array([of.coefficient(bet) * bet**2 for bet in of.bets])
    return linear[:, :, None] * bets - squares[:, :, None] * curve


def gate_alarms(sums: Sums, errors: float) -> np.ndarray:
    """Where the mean is so many standard errors below target in any window.

    In numpy what `watch.alert_evaluation.target_misses` does; `tests/unit/alerting/test_false_alarms.py` holds the two
    against each other.
    """
    alarms = np.zeros(sums.w.shape, bool)
    *_, of_day, scores_of_day = _window(sums, WINDOWS[-1])
    for window in WINDOWS:
        w, mean, w2, squares, scores = _window(sums, window)
        expected = scores / np.maximum(scores_of_day, 1.0) * of_day
        error = np.sqrt(np.maximum(squares, expected)) / np.maximum(w, 1e-9)
        alarms |= (w**2 >= 30 * w2) & (scores > 0) & (mean < TARGET - errors * error)
    return alarms


def _window(sums: Sums, window: int) -> tuple[np.ndarray, ...]:
    """Of so many minutes up to each: the weight, the mean, the squared weights, the residual squares and the scores."""
    w, wy, w2, w2y, w2y2 = (_rolling(each, window) for each in (sums.w, sums.wy, sums.w2, sums.w2y, sums.w2y2))
    mean = wy / np.maximum(w, 1e-9)
    squares = np.maximum(w2y2 - 2 * mean * w2y + mean**2 * w2, 0) + VARIANCE_FLOOR * w2
    return w, mean, w2, squares, np.rint(_rolling(sums.w if sums.scores is None else sums.scores, window))


def _rolling(values: np.ndarray, window: int) -> np.ndarray:
    total = np.cumsum(values, axis=0)
    rolled = total.copy()
    rolled[window:] = total[window:] - total[:-window]
    return rolled


def notifications(alarms: np.ndarray) -> np.ndarray:
    """How often somebody is told: falls, or starts that lie more than five minutes after the last alarm."""
    if alarms.dtype != bool:
        return begun(alarms).sum(0)
    counts, last = np.zeros(alarms.shape[1]), np.full(alarms.shape[1], -(10**9))
    for minute, now in enumerate(alarms):
        counts += now & (minute - last > 5)
        last = np.where(now, minute, last)
    return counts


def delay(alarms: np.ndarray, start: int) -> float:
    """Median hours from `start` to the first alarm; what is never found counts as the rest of the time."""
    after = alarms[start:] > 0
    found = np.where(after.any(0), after.argmax(0) + 1, len(after))
    return float(np.median(found)) / 60


def alerts(sums: Sums) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    if sums.exact is not None:
        found["evidence, exact (watcher)"] = fall_numbers(DETECTOR, minutes_of(sums, sums.exact))
    found["evidence, from sums (rules)"] = fall_numbers(DETECTOR, minutes_of(sums))
    found["mean, 3.5 errors (warn)"] = gate_alarms(sums, 3.5)
    found["mean, 4 errors (page)"] = gate_alarms(sums, 4.0)
    return found


def tables(rng: np.random.Generator, runs: int, days: int) -> None:
    """False alarms and delays of single turns."""
    drops = (0.05, 0.1, 0.2)
    print("| judged an hour | alert | in control | edge | " + " | ".join(f"drop {drop}" for drop in drops) + " |")
    print("|---|---|---|---|---|---|---|")
    for rate in RATES:
        rows: dict[str, list[str]] = {}
        for mean in (MEAN, TARGET):
            path = np.full(days * DAY, mean)
            for name, alarms in alerts(single(rng, runs, rate / 60, path, DETECTOR)).items():
                rows.setdefault(name, []).append(f"{notifications(alarms).mean() * 30 / days:.2f}")
        for drop in drops:
            path = np.full(10 * DAY, MEAN)
            path[3 * DAY :] -= drop
            for name, alarms in alerts(single(rng, 2 * runs, rate / 60, path, DETECTOR)).items():
                rows[name].append(f"{delay(alarms, 3 * DAY):.2f} h")
        for name, row in rows.items():
            print(f"| {rate} | {name} | " + " | ".join(row) + " |", flush=True)


def boosted(rng: np.random.Generator, runs: int, days: int) -> None:
    print("\nFlagged traffic judged more often, weights 1/p, 100 judged an hour, at the edge; per 30 days:")
    for ratio in (1.0, 4.0):
        path = np.full(days * DAY, TARGET)
        found = alerts(weighted(rng, runs, 100 / 60, path, ratio))
        figures = ", ".join(f"{name} {notifications(a).mean() * 30 / days:.2f}" for name, a in found.items())
        path = np.full(10 * DAY, MEAN)
        path[3 * DAY :] -= 0.1
        late = alerts(weighted(rng, 2 * runs, 100 / 60, path, ratio))
        delays = ", ".join(f"{name} {delay(a, 3 * DAY):.2f} h" for name, a in late.items())
        print(f"x{ratio:g}: {figures}; delay after 0.1: {delays}", flush=True)


SAMPLERS = {
    "none": Sampler(),
    "10 %": Sampler(0.1),
    "5 %": Sampler(0.05),
    "1 %": Sampler(0.01),
    "errors, and 1/15 of the rest": Sampler(1 / 15, keeps_errors=True),
}


def clustered(rng: np.random.Generator, runs: int, days: int) -> None:
    """False alarms and delays of conversations, with samplers before us."""
    print("\n| sampler before | alert | in control | edge | drop 0.1 | drop 0.2 | drop 0.4 |")
    print("|---|---|---|---|---|---|---|")
    for sampler_name, sampler in SAMPLERS.items():
        rows: dict[str, list[str]] = {}
        for mean in (MEAN, TARGET):
            path = np.full(days * DAY, mean)
            for name, alarms in alerts(conversations(rng, runs, 100 / 60, path, sampler)).items():
                rows.setdefault(name, []).append(f"{notifications(alarms).mean() * 30 / days:.2f}")
        for drop in (0.1, 0.2, 0.4):
            path = np.full(4 * DAY, MEAN)
            path[2 * DAY :] -= drop
            for name, alarms in alerts(conversations(rng, runs, 100 / 60, path, sampler)).items():
                rows[name].append(f"{delay(alarms, 2 * DAY):.2f} h")
        for name, row in rows.items():
            print(f"| {sampler_name} | {name} | " + " | ".join(row) + " |", flush=True)


def pages_after(alarms: dict[str, np.ndarray], start: int) -> np.ndarray:
    """Hours from `start` to the first page of the generated rules, in each stream; infinite where there is none."""
    after = ((alarms["evidence, from sums (rules)"] > 0) | alarms["mean, 4 errors (page)"])[start:]
    return np.where(after.any(0), after.argmax(0) + 1, np.inf) / 60


def delays(rng: np.random.Generator, runs: int, days: int) -> None:
    """When the rules page after a fall from 0.80, of turns by themselves and of conversations of 3 turns."""
    print("\n| judged an hour | mean falls to | single turns: half, 9 of 10 | conversations: half, 9 of 10 |")
    print("|---|---|---|---|")
    lasting = max(4, days // 3)
    for rate in RATES[:3]:
        for mean in (0.74, 0.72, 0.67, 0.57):
            path = np.full((2 + lasting) * DAY, MEAN)
            path[2 * DAY :] = mean
            cells: list[str] = []
            for found in (
                alerts(single(rng, 2 * runs, rate / 60, path, DETECTOR)),
                alerts(conversations(rng, runs, rate / 60, path, Sampler())),
            ):
                half, most = np.quantile(pages_after(found, 2 * DAY), (0.5, 0.9), method="higher")
                cells.append(f"{half:.2f} h, {most:.2f} h")
            print(f"| {rate} | {mean:.2f} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="few runs, to see that it works")
    parser.add_argument("--only", choices=("tables", "boosted", "clustered", "delays"), help="one part of it")
    chosen = parser.parse_args()
    runs, days = (4, 3) if chosen.quick else (40, 30)
    began = time.monotonic()
    for part in (tables, boosted, clustered, delays):
        if chosen.only in (None, part.__name__):
            few = part in (clustered, delays) and not chosen.quick
            part(np.random.default_rng(7), 16 if few else runs, days)
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
