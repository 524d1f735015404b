"""Recoveries, second incidents and uneven streams, simulated: `python tests/bench/incidents.py [--quick]`.

Prints the tables of tests/bench/ALERTS.md on the life of alerts. As in `drop_detection.py`: in control of mean 0.80, held
to 0.77. A mean falls for a day, is repaired for a day and a half, falls again for a day, and is repaired. Figures are
hours in half and in nine of ten of the streams.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from alert_lives import Minutes, begun, fall_numbers, held_down
from drop_detection import DAY, DETECTOR, MEAN, SAMPLERS, TARGET, bounds, conversations, minutes_of, single

QUIET, FALL, REPAIRED = 2 * DAY, DAY, 36 * 60
FIRST, REPAIR, SECOND, SECOND_REPAIR = QUIET, QUIET + FALL, QUIET + FALL + REPAIRED, QUIET + 2 * FALL + REPAIRED
LENGTH = SECOND_REPAIR + REPAIRED
BURST = 30
"""Minutes of a burst."""


def two_incidents(level: float) -> np.ndarray:
    """The mean, minute by minute."""
    path = np.full(LENGTH, MEAN)
    path[FIRST:REPAIR] = path[SECOND:SECOND_REPAIR] = level
    return path


def until(marks: np.ndarray, start: int, end: int) -> np.ndarray:
    """Hours from `start` to the first mark of each stream; infinite where there is none before `end`."""
    after = marks[start:end]
    return np.where(after.any(0), after.argmax(0) + 1, np.inf) / 60


def quantiles(hours: np.ndarray) -> str:
    half, most = np.quantile(hours, (0.5, 0.9), method="higher")
    return ", ".join("later" if np.isinf(each) else f"{each:.1f}" for each in (half, most))


def life(minutes: Minutes) -> list[str]:
    """How soon both incidents page and end, the false ends and pages, and how it is without a test of recovery."""
    numbers = fall_numbers(DETECTOR, minutes)
    starts, ends = begun(numbers), _ended(numbers)
    plain = held_down(DETECTOR, minutes)
    plain_starts = plain & ~np.vstack((np.zeros((1, plain.shape[1]), bool), plain[:-1]))
    inside = ends[FIRST:REPAIR].sum() + ends[SECOND:SECOND_REPAIR].sum()
    outside = starts[:FIRST].sum() + starts[REPAIR + 60 : SECOND].sum() + starts[SECOND_REPAIR + 60 :].sum()
    return [
        quantiles(until(starts, FIRST, REPAIR)),
        quantiles(until(numbers == 0, REPAIR, SECOND)),
        quantiles(until(starts, SECOND, SECOND_REPAIR)),
        quantiles(until(numbers == 0, SECOND_REPAIR, LENGTH)),
        f"{inside}, {outside}",
        quantiles(until(~plain, REPAIR, SECOND)),
        f"{plain_starts[SECOND:SECOND_REPAIR].any(0).mean():.0%}",
    ]


def _ended(numbers: np.ndarray) -> np.ndarray:
    before = np.vstack((np.zeros((1, numbers.shape[1]), numbers.dtype), numbers[:-1]))
    return (before > 0) & (numbers == 0)


def recoveries(rng: np.random.Generator, runs: int, _days: int) -> None:
    print(
        "\n| traffic | mean falls to | first page | ends after the repair | second page | ends | wrong ends, pages | before: ends | before: second paged |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for rate in (20, 100, 500, 2000):
        for level in (0.70, 0.60, 0.40):
            sums = single(rng, runs, rate / 60, two_incidents(level), DETECTOR)
            print(f"| {rate}/h | {level:.2f} | " + " | ".join(life(minutes_of(sums))) + " |", flush=True)
    for name in ("none", "5 %"):
        for level in (0.60, 0.40):
            sums = conversations(rng, max(2, runs // 3), 100 / 60, two_incidents(level), SAMPLERS[name])
            row = " | ".join(life(minutes_of(sums)))
            print(f"| 100/h, conversations, sampler before: {name} | {level:.2f} | {row} |", flush=True)


def _bernoulli(rng: np.random.Generator, rates: np.ndarray, means: np.ndarray) -> Minutes:
    """Scores of 0 or 1, by themselves, so many a minute."""
    n = rng.poisson(rates).astype(float)
    s = rng.binomial(n.astype(int), means).astype(float)
    minutes = Minutes(n, s, n, s, s, np.zeros(0))
    minutes.gains = bounds(DETECTOR, minutes)
    return minutes


def uneven(rng: np.random.Generator, runs: int, days: int) -> None:
    """Alerts in 30 days of streams whose traffic comes in bursts, whose mean wanders, and that have a night."""
    print("\n| stream, 100 judged an hour | in control | edge |")
    print("|---|---|---|")
    shape, rate = (days * DAY, runs), 100 / 60
    bursts = np.repeat(rng.gamma(0.5, 2.0, (days * DAY // BURST, runs)), BURST, axis=0)
    wander = np.repeat(rng.normal(0.0, 0.05, (days * DAY // BURST, runs)), BURST, axis=0)
    night = 1.0 + 0.9 * np.sin(np.arange(days * DAY) * 2 * np.pi / DAY)[:, None]
    still = np.zeros(shape)
    for name, rates, moved in (
        ("even", still + rate, still),
        (f"bursts of {BURST} minutes, gamma of shape 0.5", rate * bursts, still),
        (f"the mean itself wanders by 0.05 every {BURST} minutes", still + rate, wander),
        ("bursts, and the mean wanders", rate * bursts, wander),
        ("nearly nothing at night", rate * (still + night), still),
    ):
        cells: list[str] = []
        for mean in (MEAN, TARGET):
            numbers = fall_numbers(DETECTOR, _bernoulli(rng, rates, np.clip(mean + moved, 0.0, 1.0)))
            cells.append(f"{begun(numbers).sum(0).mean() * 30 / days:.2f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="few runs, to see that it works")
    parser.add_argument("--only", choices=("recoveries", "uneven"), help="one part of it")
    chosen = parser.parse_args()
    runs, days = (4, 3) if chosen.quick else (48, 30)
    began = time.monotonic()
    for part in (recoveries, uneven):
        if chosen.only in (None, part.__name__):
            part(np.random.default_rng(7), runs, days)
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
