"""The life of alerts on drops, of many streams at once, in numpy.

What an alert does in a minute is decided in `collector.statistics.incident`; `tests/unit/statistics/test_incident.py` holds
the two against each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from collector.config.alerts import DAY as SECONDS_OF_A_DAY, AlertSettings
from collector.statistics.bounded_sums import VARIANCE_FLOOR
from collector.statistics.incident import (
    CONTINUES,
    LARGEST_MARGIN,
    LARGEST_SETTLING_WEIGHT,
    LEAST_SPAN,
    MOST_INTERVALS,
    NOTHING,
    ROOM,
    SETTLING_INTERVALS,
    STAKES,
    DropDetector,
    fans_coefficient,
    recovery_threshold,
)

RECOVERS = recovery_threshold(AlertSettings().false_recovery_days * SECONDS_OF_A_DAY, 60.0)
_CURVES = np.array([fans_coefficient(stake) * stake**2 for stake in STAKES])
_STAKES = np.array(STAKES)


@dataclass
class Minutes:
    """The detector's sums of every minute, and the gains of every bet: arrays of minutes x streams (x bets)."""

    w: np.ndarray
    wy: np.ndarray
    w2: np.ndarray
    w2y: np.ndarray
    w2y2: np.ndarray
    gains: np.ndarray


@dataclass
class Lives:
    """What `DropLife` holds, of many streams. Only for targets that lie below the scores."""

    of: DropDetector
    streams: int
    falls: np.ndarray = field(init=False)
    level: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        runs = self.streams
        self.falls = np.zeros(runs, int)
        self.level = np.zeros(runs)
        self._number, self._recovered = np.zeros(runs, int), np.full(runs, -CONTINUES)
        self._over = np.zeros(runs, bool)
        self._drop = np.full((runs, len(self.of.bets)), NOTHING)
        self._further = np.full((runs, len(STAKES)), NOTHING)
        self._recovering = np.full((runs, len(STAKES)), NOTHING)
        self._idle = np.zeros(runs, int)
        self._short, self._weight = np.zeros(runs), np.zeros(runs)
        self._settled, self._after = np.zeros(runs, bool), np.zeros((6, runs))

    def _settle(
        self, settling: np.ndarray, minute: tuple[np.ndarray, ...], margin: np.ndarray, down: np.ndarray
    ) -> None:
        self._after += np.where(settling, np.stack((*minute, np.ones_like(margin))), 0.0)
        w, wy, w2, w2y, w2y2, intervals = self._after
        mean = wy / np.maximum(w, 1e-12)
        squares = np.maximum(0.0, w2y2 - 2 * mean * w2y + mean**2 * w2) + VARIANCE_FLOOR * w2
        sure = (4 * squares <= (margin * w) ** 2) | (w >= LARGEST_SETTLING_WEIGHT)
        now = settling & sure & down & (intervals >= SETTLING_INTERVALS)
        self.level = np.where(now, np.minimum(self.level, mean), self.level)
        self._settled |= now

    def step(self, minutes: Minutes, minute: int) -> None:
        w = minutes.w[minute]
        wy, w2, w2y, w2y2 = minutes.wy[minute], minutes.w2[minute], minutes.w2y[minute], minutes.w2y2[minute]
        target, known = self.of.target, w > 0
        intervals = np.log(1.0 + self._idle)[:, None]
        self._idle = np.where(known, 0, np.minimum(self._idle + 1, MOST_INTERVALS - 1))
        for states in (self._drop, self._further, self._recovering):
            states[self._over & known] = NOTHING
        self._short[self._over & known] = 0.0
        self._weight[self._over & known] = 0.0
        self._after[:, self._over & known] = 0.0
        incident = self.falls > 0
        margin = np.minimum((target - self.level) / 2.0, LARGEST_MARGIN)
        null = np.where(incident, np.clip(self.level - np.where(self._settled, margin, 1.0), 0.0, 1.0), target)
        quiet = known & ~incident
        _advance(self._drop, minutes.gains[minute], quiet, self.of.ceiling, intervals)
        evidence = np.where(incident, NOTHING, _evidence(self._drop))
        recovery = np.full(self.streams, NOTHING)
        if incident.any():
            inside = known & incident
            better = target - margin
            _advance(
                self._further,
                _gains(null, 1.0 - null, w, wy, w2, w2y, w2y2, 1.0),
                inside,
                self.of.threshold + ROOM,
                intervals,
            )
            _advance(
                self._recovering, _gains(better, better, w, wy, w2, w2y, w2y2, -1.0), inside, RECOVERS + ROOM, intervals
            )
            evidence = np.where(incident, _evidence(self._further), evidence)
            recovery = np.where(incident, _evidence(self._recovering), recovery)
        self._short = np.where(known, np.maximum(0.0, self._short + null * w - wy), self._short)
        self._weight = np.where(known, np.where(self._short > 0, self._weight + w, 0.0), self._weight)
        fired, ended = known & (evidence > self.of.threshold), known & (recovery > RECOVERS)
        self._settle(
            known & incident & ~fired & ~self._settled,
            (w, wy, w2, w2y, w2y2),
            margin,
            (recovery <= RECOVERS / 2) & (wy < (target - margin) * w),
        )
        self._settled &= ~fired
        mean = null - self._short / np.maximum(self._weight, 1e-12)
        self.level = np.where(fired, mean, self.level)
        goes_on = np.where(incident | (minute - self._recovered < CONTINUES), self._number, 0)
        self._number = np.where(fired, goes_on + 1, self._number)
        self._recovered = np.where(ended, minute + 1, self._recovered)
        self.falls = np.where(ended, 0, np.where(fired, self._number, self.falls))
        self._over = np.where(known, fired | ended, self._over)


def _advance(states: np.ndarray, gains: np.ndarray, where: np.ndarray, ceiling: float, intervals: np.ndarray) -> None:
    grown = np.clip(np.logaddexp(states[where], intervals[where]) + gains[where], NOTHING, ceiling)
    states[where] = grown


def _evidence(states: np.ndarray) -> np.ndarray:
    highest = states.max(1)
    return highest + np.log(np.exp(states - highest[:, None]).mean(1))


def _gains(
    level: np.ndarray, span: np.ndarray, w: np.ndarray, wy: np.ndarray, w2: np.ndarray, w2y: np.ndarray, w2y2: np.ndarray,
    sign: float,
) -> np.ndarray:  # fmt: skip
    span = np.maximum(span, LEAST_SPAN)
    short = sign * (level * w - wy) / span
    squares = (level**2 * w2 - 2 * level * w2y + w2y2) / span**2
    return short[:, None] * _STAKES - squares[:, None] * _CURVES


def fall_numbers(of: DropDetector, minutes: Minutes) -> np.ndarray:
    """The fall that the alert fires for in every minute of every stream; 0 where it does not."""
    count, streams = minutes.w.shape
    lives, numbers = Lives(of, streams), np.zeros((count, streams), np.int8)
    for minute in range(count):
        lives.step(minutes, minute)
        numbers[minute] = lives.falls
    return numbers


def held_down(of: DropDetector, minutes: Minutes) -> np.ndarray:
    """Where a detector alerts that has no test for recoveries: its evidence is held down, and falls with good scores."""
    states = np.full(minutes.gains.shape[1:], NOTHING)
    alarms, on = np.zeros(minutes.w.shape, bool), np.zeros(minutes.w.shape[1], bool)
    for minute, gains in enumerate(minutes.gains):
        states = np.clip(np.logaddexp(states, 0.0) + gains, NOTHING, of.ceiling)
        on = _evidence(states) > np.where(on, of.threshold - 4.0, of.threshold)
        alarms[minute] = on
    return alarms


def begun(numbers: np.ndarray) -> np.ndarray:
    """Where an alert begins that notifies: a fall, or a further one."""
    before = np.vstack((np.zeros((1, numbers.shape[1]), numbers.dtype), numbers[:-1]))
    return numbers > before
