"""How often a comparison of two versions is wrong at any time, and how soon it finds a worse one.

`python tests/bench/release_comparison.py [--quick]` prints the tables of ALERTS.md. Conversations of 3 turns in the mean,
12 at most, that are good or bad as a whole (half of the variance lies between conversations; scores of 0 or 1) or have
scores on five levels; a tenth is flagged, worse, and judged four times as often, so that weights are 1 and 4; the mean
has a daily wave of 0.04. Scores go one by one through the service's own code, which is asked after every hour: a
comparison is wrong if its interval misses the truth at any of these times.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import pi, sin
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "prometheus"))
sys.path.insert(0, str(Path(__file__).parents[1] / "contract"))

from evaluation_samples import scored
from streams import LEVELS, shares

from collector.alerting.releases.hourly_scores import HOUR, ComparedAttribute, HourlyScores
from collector.alerting.releases.releases import Release, ReleaseRules, releases
from evaluators.results import Sampling, Subject

RULES = ReleaseRules(
    attributes={"all": (ComparedAttribute("service_version", "service"),)}, evaluators={"all": ("helpful",)}
)
BEGAN = 1_700_000_000 // 86_400 * 86_400
MEAN = 0.80
FLAGGED, WORSE, RATIO = 0.1, 0.3, 4.0


@dataclass(frozen=True)
class Case:
    """Turns judged an hour, the new version's share of the traffic from its release on, by how much it is worse."""

    per_hour: float
    share: Callable[[int], float]
    fall: float = 0.0
    levels: bool = False
    wave: float = 0.04
    hours: int = 44
    before: int = 4
    """Hours before the release."""


def canary(_hour: int) -> float:
    return 0.2


def rolled_out(hour: int) -> float:
    """5 % for half a day, a half for half a day, then all."""
    return 0.05 if hour < 12 else 0.5 if hour < 24 else 1.0


def half(_hour: int) -> float:
    return 0.5


def at_once(_hour: int) -> float:
    return 1.0


SAMPLE = scored(1)


def run(seed: int, case: Case, *, until_worse: bool = False) -> list[Release | None]:
    """The comparison after each hour since the release; `until_worse`: no longer than until it is said to be worse."""
    chance = random.Random(seed)
    scores = HourlyScores(RULES.attributes, 7 * 86400.0)
    found: list[Release | None] = []
    arrivals = np.random.default_rng(seed)
    flagged = FLAGGED * RATIO / (1.0 - FLAGGED + FLAGGED * RATIO)  # of what is judged
    number = 0
    for hour in range(case.before + case.hours):
        pending: list[tuple[float, str, str, float, float]] = []
        since = hour - case.before
        for _ in range(arrivals.poisson(case.per_hour / 3.0)):
            number += 1
            is_new = since >= 0 and chance.random() < case.share(since)
            is_flagged = chance.random() < flagged
            mean = MEAN + case.wave * sin(2 * pi * hour / 24) - case.fall * is_new
            mean += -WORSE if is_flagged else WORSE * FLAGGED / (1.0 - FLAGGED)
            weight = 1.0 if is_flagged else RATIO
            at = hour * HOUR + chance.random() * HOUR
            for score in _scores(chance, mean, levels=case.levels):
                pending.append((at, f"c{number}", "2" if is_new else "1", weight, score))
                at = min(at + chance.expovariate(1 / 120.0), (hour + 1) * HOUR - 1e-3)
        for at, conversation, version, weight, score in sorted(pending):
            scores.add(
                replace(
                    SAMPLE,
                    evaluator="helpful",
                    monitor="all",
                    subject=Subject(conversation_id=conversation),
                    score=score,
                    sampling=Sampling(probability=1.0 / weight),
                    attributes={"service": "shop", "service_version": version},
                    ended_at=datetime.fromtimestamp(BEGAN + at, UTC),
                )
            )
        if since >= 0:
            now = releases([scores], RULES, BEGAN + (hour + 1) * HOUR - 1.0)
            found.append(now[0] if now else None)
            if until_worse and now and now[0].is_worse:
                break
    return found


def _scores(chance: random.Random, mean: float, *, levels: bool) -> list[float]:
    count = 1
    while count < 12 and chance.random() > 1 / 3:
        count += 1
    mean = min(0.98, max(0.02, mean))
    if levels:
        return chance.choices(LEVELS, shares(mean), k=count)
    quality = chance.betavariate(mean, 1.0 - mean)
    return [float(chance.random() < quality) for _ in range(count)]


def is_wrong(found: list[Release | None], truth: float) -> bool:
    """Whether the interval missed the truth at any time."""
    intervals = [each.difference for each in found if each is not None and each.difference is not None]
    return any(not each.low <= truth <= each.high for each in intervals)


def coverage(runs: int) -> None:
    print("| versions | scores | judged an hour | difference | interval holds at all times | said to be worse |")
    print("|---|---|---|---|---|---|")
    cases = {
        "canary of 20 %": Case(100, canary),
        "canary of 20 %, five levels": Case(100, canary, levels=True),
        "rolled out in a day": Case(100, rolled_out),
        "half and half": Case(100, half),
        "half and half, worse": Case(100, half, fall=0.1),
        "half and half, much": Case(400, half, hours=20),
    }
    for name, case in cases.items():
        found = [run(seed, case) for seed in range(runs)]
        wrong = sum(is_wrong(each, -case.fall) for each in found) / runs
        worse = sum(any(one is not None and one.is_worse for one in each) for each in found) / runs
        kind = "five levels" if case.levels else "0 or 1"
        print(f"| {name} | {kind} | {case.per_hour:g} | {-case.fall:g} | {1 - wrong:.1%} | {worse:.1%} |", flush=True)


def replaced(runs: int) -> None:
    """All at once: no version beside the other, and a wave that goes on."""
    print("\n| replaced at once | judged an hour | wave | said to be worse |\n|---|---|---|---|")
    for wave in (0.0, 0.02, 0.04):
        case = Case(200, at_once, wave=wave, before=26)
        worse = sum(_until_worse(seed, case) is not None for seed in range(runs)) / runs
        print(f"| no change | 200 | ±{wave:g} | {worse:.1%} |", flush=True)


def delays(runs: int) -> None:
    print("\n| versions | judged an hour | fall of 0.05: half, 9 of 10 | 0.1 | 0.2 |\n|---|---|---|---|---|")
    for name, share in (("canary of 20 %", canary), ("half and half", half), ("replaced at once", at_once)):
        cells: list[str] = []
        for fall in (0.05, 0.1, 0.2):
            case = Case(100, share, fall, hours=120, before=26 if share is at_once else 4)
            after = [_until_worse(seed, case) or np.inf for seed in range(runs)]
            cells.append(", ".join(_hours(each) for each in np.quantile(after, (0.5, 0.9), method="higher")))
        print(f"| {name} | 100 | " + " | ".join(cells) + " |", flush=True)


def _until_worse(seed: int, case: Case) -> int | None:
    """Hours until the new version is said to be worse."""
    found = run(seed, case, until_worse=True)
    return len(found) if found[-1] is not None and found[-1].is_worse else None


def _hours(hours: float) -> str:
    return f"{hours:.0f} h" if np.isfinite(hours) else "not in 5 days"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="few runs, to see that it works")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", choices=("coverage", "replaced", "delays"), help="one part of it")
    chosen = parser.parse_args()
    began = time.monotonic()
    for part in (coverage, replaced, delays):
        if chosen.only in (None, part.__name__):
            part(3 if chosen.quick else chosen.runs // 5 if part is delays else chosen.runs)
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
