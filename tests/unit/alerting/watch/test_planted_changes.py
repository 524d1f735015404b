"""System or judge on a hundred streams each: the pure cores, with time passed in and no service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from collector.golden.own_past import CASES as OWN_CASES
from collector.golden.runner import MOST_CHANGES, MOST_RUNS
from collector.statistics.bounded_sums import Sums
from collector.statistics.incident import DropDetector, DropLife, recovery_threshold, threshold
from collector.statistics.judge_change import (
    GoldenRun,
    JudgeVerdict,
    SingleCaseTest,
    Suspicion,
    judge_since,
    score_shift,
)

DAY, MINUTES, PLANTED = 86_400.0, 1440, 240
TARGET, MEAN, SPREAD, PER_MINUTE = 0.8, 0.83, 0.2, 3
NOISE, CASES, SHARE = 0.1, 60, 0.02
STREAMS = 120
WINDOWS = (15, 60, 360, 1440)


class Minute(NamedTuple):
    """What the watcher knows after a minute: since when the mean is off, and if it suspects, and pages."""

    since: float
    suspects: bool
    pages: bool


def watched(chance: np.random.Generator, fall: float) -> list[Minute]:
    """The minutes up to the page: the detector's evidence, and each window's errors beyond the target."""
    detector = DropDetector(target=TARGET, threshold=threshold(90 * DAY, 60.0, 1))
    life = DropLife(detector, recovery_threshold(7 * DAY, 60.0))
    means = np.where(np.arange(MINUTES) >= PLANTED, MEAN - fall, MEAN)[:, None]
    scores = np.clip(means + SPREAD * chance.standard_normal((MINUTES, PER_MINUTE)), 0.0, 1.0)
    sums, squares = np.cumsum(scores.sum(1)), np.cumsum((scores**2).sum(1))
    minutes: list[Minute] = []
    for minute in range(MINUTES):
        gains = [sum(detector.log_gain(bet, 1.0, score) for score in scores[minute]) for bet in detector.bets]
        w, wy = float(PER_MINUTE), float(scores[minute].sum())
        life.step(minute, Sums(w, wy, w, wy, float((scores[minute] ** 2).sum())), gains)
        worst = max(_errors(sums, squares, minute, window) for window in WINDOWS)
        suspects = life.fall is not None or life.evidence > 0.3 * detector.threshold or worst > 2.0
        pages = life.fall is not None or worst > 3.5
        minutes.append(Minute(60.0 * life.start, suspects, pages))
        if pages:
            break
    return minutes


def _errors(sums: np.ndarray, squares: np.ndarray, minute: int, window: int) -> float:
    first = minute - window
    number = PER_MINUTE * min(window, minute + 1)
    total, square = ((part[minute] - (part[first] if first >= 0 else 0.0)) / number for part in (sums, squares))
    if number < 30:
        return 0.0
    return float((TARGET - total) / np.sqrt((square - total**2) / number + 1e-4 / number))


@dataclass
class Told:
    """What people were told: before the page, and by it."""

    before: bool
    verdict: JudgeVerdict | None


def with_golden_set(chance: np.random.Generator, minutes: list[Minute], moved: float) -> Told:
    """Runs of three days, single cases among live calls, and runs that they, suspicion and the alert ask for."""
    true = chance.choice([0.25, 0.5, 0.75, 1.0], CASES)

    def scores(at: float) -> np.ndarray:
        shift = moved if at >= 60.0 * PLANTED else 0.0
        return np.clip(true - shift + NOISE * chance.standard_normal(CASES), 0.0, 1.0)

    def run(at: float) -> GoldenRun:
        return GoldenRun(at, {str(case): float(score) for case, score in enumerate(scores(at))})

    runs, drip, dripped, suspicion, told = [run(DAY * day) for day in (-3, -2, -1)], SingleCaseTest(), 0, None, False
    references = runs[0].scores
    for number, minute in enumerate(minutes):
        now = 60.0 * (number + 1)
        for _ in range(int(SHARE * PER_MINUTE * (number + 1)) - dripped):
            drip.add(str(dripped % CASES), float(scores(now)[dripped % CASES]), runs)
            dripped += 1
        if minute.suspects:
            suspicion = Suspicion(minute.since, now if minute.pages else None)
        made = len(runs) - 3
        asks = drip.has_tripped or (suspicion is not None and suspicion.asks(runs, now))
        if asks and made < (MOST_RUNS if minute.pages else MOST_CHANGES):
            runs.append(run(now))
            shift = score_shift(runs[-1].scores, references)
            told = told or (not minute.pages and shift is not None and shift.exceeds(0.02))
            drip = SingleCaseTest(now) if drip.has_tripped else drip
    return Told(told, judge_since(runs, minutes[-1].since))


def with_own_past(chance: np.random.Generator, minutes: list[Minute], moved: float) -> Told:
    """As the page begins, cases of the day before are scored again; some may be by the changed judge already."""
    true, since = chance.choice([0.25, 0.5, 0.75, 1.0], OWN_CASES), minutes[-1].since
    at = since - DAY * chance.random(OWN_CASES)
    old, new = (
        np.clip(true - shift + NOISE * chance.standard_normal(OWN_CASES), 0.0, 1.0)
        for shift in (np.where(at >= 60.0 * PLANTED, moved, 0.0), moved)
    )
    runs = [
        GoldenRun(when, {str(case): float(score) for case, score in enumerate(scores)})
        for when, scores in ((0.0, old), (60.0 * len(minutes), new))
    ]
    return Told(False, judge_since(runs, max(since, 1.0)))


Judges = Callable[[np.random.Generator, list[Minute], float], Told]


def told_on(judges: Judges, fall: float, moved: float) -> tuple[float, float, float]:
    """The shares of pages of which the judge was named before, at the latest with it; and the hours until the page."""
    before, named, hours = 0, 0, []
    for seed in range(STREAMS):
        chance = np.random.default_rng((seed, int(1000 * fall), int(1000 * moved)))
        minutes = watched(chance, fall)
        told = judges(chance, minutes, moved)
        before += told.before
        named += told.before or (told.verdict is not None and told.verdict.has_changed)
        hours.append((len(minutes) - PLANTED) / 60.0)
    return before / STREAMS, named / STREAMS, float(np.median(hours))


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fall", [0.1, 0.3])
@pytest.mark.parametrize("judges", [with_golden_set, with_own_past])
def test_planted_changes_of_the_judge_are_named_and_those_of_the_system_are_not(judges: Judges, fall: float) -> None:
    before, named, hours = told_on(judges, fall, fall)
    _, blamed, _ = told_on(judges, fall, 0.0)
    print(f"{judges.__name__}, {fall}: named {named:.3f} (before {before:.3f}), blamed {blamed:.3f}, {hours:.1f} h")
    assert named >= 0.95
    assert blamed <= 0.02
