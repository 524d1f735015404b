"""Alerts on streams as they are in life: `python tests/bench/alert_streams.py [--quick] [--runs N] [--only NAME]`.

Prints the tables of ALERTS.md. Conversations of 3 turns in the mean, good or bad as a whole, about 100 turns judged an
hour, summed up as the exporter does it (`stream_sums.py`), with the rules' own detector. In control the mean is 0.80 and
never below the target of 0.77, whatever the hour; "edge" is the same stream, as much lower as that allows.

- clustered: nothing besides.
- over-dispersed: an hour has between none and four times the usual traffic, and a mean of its own (±0.02).
- seasonal: five times as much by day as by night, and a mean that goes up and down by 0.025.
- sampled before: a sampler before evalstream takes all turns with an error and a twentieth of the rest; it is trusted.
- budgeted: traffic of 130 to 670 turns an hour, whose quality falls with the load; the rate follows the last hour's
  traffic, so that as many are judged as before, with weights between 1.3 and 6.7.
- budget of a quarter: the same traffic as clustered has, a quarter of which is judged.
- all of it: over-dispersed, seasonal, sampled before and budgeted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import exp, factorial, pi, sin
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from drop_detection import (
    DAY,
    TARGET,
    Sums,
    alerts,
    notifications,
    pages_after,
    sums_of_minutes,
)
from stream_sums import Turns, sums_by_minute

MEAN = 0.80
GAP, LONGEST = 2.0, 12
ERRORS, ERROR_SCORE = 0.1, 0.3
JUDGED = 100.0
"""Turns an hour."""


@dataclass(frozen=True)
class Kind:
    """A kind of stream; see the module. `lowest` is the lowest mean of an hour in control."""

    dispersed: bool = False
    wave: float = 0.0
    sampled: bool = False
    budget: bool = False
    share: float = 1.0
    lowest: float = MEAN


KINDS = {
    "clustered": Kind(),
    "over-dispersed": Kind(dispersed=True, lowest=MEAN - 0.02),
    "seasonal": Kind(wave=0.025, lowest=MEAN - 0.025),
    "sampled before": Kind(sampled=True),
    "budgeted": Kind(budget=True, wave=0.025, lowest=MEAN - 0.025),
    "budget of a quarter": Kind(share=0.25),
    "all of it": Kind(True, 0.02, True, True, lowest=MEAN - 0.03),
}


@dataclass(frozen=True)
class Hour:
    """Turns that come, their mean, and the share that is judged."""

    turns: float
    mean: float
    rate: float


def hours(rng: np.random.Generator, kind: Kind, number: int, shift: Callable[[int], float]) -> Iterator[Hour]:
    past = JUDGED
    for hour in range(number):
        day = sin(2 * pi * hour / 24)
        turns, mean = JUDGED, MEAN + shift(hour)
        if kind.wave:
            turns *= 1 + 0.67 * day
            mean -= kind.wave * day  # the more traffic, the worse
        if kind.budget:
            turns *= 4.0
        if kind.dispersed:
            turns *= min(4.0, rng.gamma(2.0, 0.5))
            mean += 0.02 * (0.5 if kind.wave else 1.0) * rng.choice((-1.0, 1.0))
        rate = min(1.0, max(1 / 16, JUDGED / past)) if kind.budget else kind.share
        yield Hour(turns, mean, rate)
        past = max(1.0, turns)


def stream(rng: np.random.Generator, kind: Kind, days: int, shift: Callable[[int], float]) -> np.ndarray:
    """The sums of each minute, and how many scores."""
    return sums_by_minute(turns_of(rng, kind, days, shift), days * DAY)


def turns_of(rng: np.random.Generator, kind: Kind, days: int, shift: Callable[[int], float]) -> Turns:
    """The turns that are judged, in order of time."""
    errors, rest = (ERRORS, 0.05) if kind.sampled else (0.0, 1.0)
    passing = rest + errors * (1.0 - rest)
    each = list(hours(rng, kind, days * 24, shift))
    turns, means, rates = (np.array([getattr(hour, name) for hour in each]) for name in ("turns", "mean", "rate"))
    hour = np.repeat(np.arange(len(each)), rng.poisson(turns * rates / 3.0 / passing))
    lengths = np.minimum(rng.geometric(1 / 3.0, len(hour)), LONGEST)
    taken = rng.random(len(hour)) < rest
    mean = (means[hour] - errors * ERROR_SCORE) / (1 - errors)
    quality = rng.beta(mean, 1 - mean)
    of = np.repeat(np.arange(len(hour)), lengths)
    failed = rng.random(len(of)) < errors
    gaps = np.cumsum(rng.exponential(GAP, len(of)))
    first = np.cumsum(lengths) - lengths
    minute = (hour + rng.random(len(hour)))[of] * 60 + gaps - gaps[first][of]
    score = (rng.random(len(of)) < np.where(failed, ERROR_SCORE, quality[of])).astype(float)
    own = 1.0 / rates[hour[of]]
    full = own / (np.where(failed, 1.0, rest) if kind.sampled else 1.0)
    kept = np.flatnonzero((taken[of] | failed) & (minute < days * DAY))
    kept = kept[np.argsort(minute[kept], kind="stable")]
    return Turns(minute[kept], of[kept], full[kept], own[kept], score[kept])


@dataclass(frozen=True)
class Shift:
    """How much the mean is moved, from an hour on."""

    by: float
    since: int = 0

    def __call__(self, hour: int) -> float:
        return self.by if hour >= self.since else 0.0


def sums_of(seed: int, kind: Kind, runs: int, days: int, shift: Shift, processes: int = 1) -> Sums:
    numbered = ((seed, number, kind, days, shift) for number in range(runs))
    if processes == 1:
        return sums_of_minutes([_numbered(each) for each in numbered])
    with ProcessPoolExecutor(processes) as pool:
        return sums_of_minutes(list(pool.map(_numbered, numbered)))


def _numbered(of: tuple[int, int, Kind, int, Shift]) -> np.ndarray:
    seed, number, kind, days, shift = of
    return stream(np.random.default_rng((seed, number)), kind, days, shift)


def false_alarms(kind: Kind, runs: int, days: int, processes: int) -> dict[str, list[int]]:
    """How many notifications each alert sent in all streams, in control and at the edge."""
    found: dict[str, list[int]] = {}
    for seed, by in ((1, 0.0), (2, TARGET - kind.lowest)):
        for name, alarms in alerts(sums_of(seed, kind, runs, days, Shift(by), processes)).items():
            found.setdefault(name, []).append(int(notifications(alarms).sum()))
    return found


def most(found: int, months: float) -> float:
    """The rate that so many events or fewer still have a chance of one in twenty with (Poisson, exact)."""
    low, high = 0.0, 10.0 * (found + 1)
    for _ in range(60):
        mean = (low + high) / 2
        chance = sum(exp(-mean) * mean**number / factorial(number) for number in range(found + 1))
        low, high = (mean, high) if chance > 0.05 else (low, mean)
    return high / months


def delays(kind: Kind, runs: int, fall: float, lasting: int, processes: int) -> np.ndarray:
    """Hours until a page of the rules, in half and in nine of ten."""
    found = alerts(sums_of(3, kind, runs, 2 + lasting, Shift(-fall, 48), processes))
    return np.quantile(pages_after(found, 2 * DAY), (0.5, 0.9), method="higher")


def tables(kinds: dict[str, Kind], runs: int, days: int, processes: int) -> None:
    months = runs * days / 30
    print(f"Notifications per 30 days ({runs} streams of {days} days; how many; not above, with 95 % certainty):\n")
    print("| stream | alert | in control | edge |\n|---|---|---|---|")
    for name, kind in kinds.items():
        for alert, each in false_alarms(kind, runs, days, processes).items():
            cells = [f"{found / months:.2f} ({found}; {most(found, months):.2f})" for found in each]
            print(f"| {name} | {alert} | " + " | ".join(cells) + " |", flush=True)
    print("\n| stream | fall of 0.1: half, 9 of 10 | 0.2 |\n|---|---|---|")
    for name, kind in kinds.items():
        cells = [delays(kind, runs, fall, lasting, processes) for fall, lasting in ((0.1, 4), (0.2, 2))]
        print(f"| {name} | " + " | ".join(f"{half:.1f} h, {most_:.1f} h" for half, most_ in cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="few runs, to see that it works")
    parser.add_argument("--runs", type=int, default=32)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", choices=tuple(KINDS), help="one kind of stream")
    chosen = parser.parse_args()
    kinds = KINDS if chosen.only is None else {chosen.only: KINDS[chosen.only]}
    began = time.monotonic()
    tables(kinds, 2 if chosen.quick else chosen.runs, 3 if chosen.quick else 30, chosen.processes)
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
