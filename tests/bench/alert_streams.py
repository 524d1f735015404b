"""Alerts on streams as they are in life: `python tests/bench/alert_streams.py [--quick] [--only NAME]`.

Prints the tables of ALERTS.md. Conversations of 3 turns in the mean, good or bad as a whole, about 100 turns judged an
hour, one after the other through the exporter's own sums and the rules' own detector. In control the mean is 0.80 and
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
from dataclasses import dataclass, replace
from math import pi, sin
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from drop_detection import DAY, SERIES, TARGET, Sums, alerts, delay, notifications, pages_after

from collector.export.bounded_sums import BoundedSums, Weight

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
    """The ten sums of each minute."""
    minutes = days * DAY
    sums, exported = np.zeros((minutes, 10)), BoundedSums()
    errors = ERRORS if kind.sampled else 0.0
    passing = 0.05 + errors * 0.95 if kind.sampled else 1.0
    turns: list[tuple[float, str, Weight, float]] = []
    for number, hour in enumerate(hours(rng, kind, days * 24, shift)):
        mean = (hour.mean - errors * ERROR_SCORE) / (1 - errors)
        for place in range(rng.poisson(hour.turns * hour.rate / 3.0 / passing)):
            length = min(int(rng.geometric(1 / 3.0)), LONGEST)
            failed = rng.random(length) < errors
            taken = not kind.sampled or rng.random() < 0.05
            if not taken and not failed.any():
                continue
            quality = rng.beta(mean, 1 - mean)
            minute = (number + rng.random()) * 60
            for error in failed:
                if taken or error:
                    upstream = 1.0 if error or not kind.sampled else 0.05
                    score = float(rng.random() < (ERROR_SCORE if error else quality))
                    weight = Weight(1 / (hour.rate * upstream), 1 / hour.rate)
                    turns.append((minute, f"{number}-{place}", weight, score))
                minute += rng.exponential(GAP)
    for minute, key, weight, score in sorted(turns, key=lambda each: each[0]):
        if minute < minutes:
            grown = exported.add(SERIES, key, weight=weight, score=score, time=minute * 60)
            for first, part in ((0, grown.mean), (5, grown.evidence)):
                sums[int(minute), first : first + 5] += (part.w, part.wy, part.w2, part.w2y, part.w2y2)
    return sums


def sums_of(seed: int, kind: Kind, runs: int, days: int, shift: Callable[[int], float]) -> Sums:
    each = [stream(np.random.default_rng((seed, number)), kind, days, shift) for number in range(runs)]
    columns = [np.stack([run[:, number] for run in each], axis=1) for number in range(10)]
    return Sums(*columns[:5], None, Sums(*columns[5:]))


def false_alarms(kind: Kind, runs: int, days: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for seed, by in ((1, 0.0), (2, TARGET - kind.lowest)):
        for name, alarms in alerts(sums_of(seed, kind, runs, days, lambda _hour, by=by: by)).items():
            found.setdefault(name, []).append(float(notifications(alarms).mean()) * 30 / days)
    return found


def delays(kind: Kind, runs: int, fall: float, lasting: int) -> tuple[dict[str, float], np.ndarray]:
    """Median hours of each alert, and those of a page of the rules in half and in nine of ten."""
    found = alerts(sums_of(3, kind, runs, 2 + lasting, lambda hour: -fall if hour >= 48 else 0.0))
    pages = np.quantile(pages_after(found, 2 * DAY), (0.5, 0.9), method="higher")
    return {name: delay(alarms, 2 * DAY) for name, alarms in found.items()}, pages


def tables(kinds: dict[str, Kind], runs: int, days: int) -> None:
    print("| stream | alert | in control | edge |\n|---|---|---|---|")
    for name, kind in kinds.items():
        for alert, (control, edge) in false_alarms(kind, runs, days).items():
            print(f"| {name} | {alert} | {control:.2f} | {edge:.2f} |", flush=True)
    print("\n| stream | fall of 0.1: half, 9 of 10 | 0.2 |\n|---|---|---|")
    for name, kind in kinds.items():
        cells = [delays(kind, 2 * runs, fall, lasting)[1] for fall, lasting in ((0.1, 4), (0.2, 2))]
        print(f"| {name} | " + " | ".join(f"{half:.1f} h, {most:.1f} h" for half, most in cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="few runs, to see that it works")
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--only", choices=tuple(KINDS), help="one kind of stream")
    chosen = parser.parse_args()
    kinds = KINDS if chosen.only is None else {chosen.only: replace(KINDS[chosen.only])}
    began = time.monotonic()
    tables(kinds, 2 if chosen.quick else chosen.runs, 3 if chosen.quick else 30)
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
