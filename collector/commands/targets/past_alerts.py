"""The alerts that past scores would have raised, as they were and with a simulated drop.

The service's own sums, bets and tests, minute by minute: the drop detector of the rules, and the test of the mean over
every window. Pages within a day of each other belong together.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from collector.alerting.watch.alert_evaluation import WINDOWS
from collector.statistics.bounded_sums import BoundedSums
from collector.statistics.drop_detector import DropDetector, evidence
from collector.statistics.estimator import Sums
from collector.statistics.mean_error import WindowSums
from collector.statistics.score_history import DAY, PastScore

MINUTE = 60.0
LONGEST = 7 * DAY
"""How long a planted fall is looked for."""


@dataclass(frozen=True, slots=True)
class Minute:
    """The sums of a minute's scores, for the mean and for the detector."""

    mean: Sums
    evidence: Sums
    scores: int


@dataclass(frozen=True, slots=True)
class PastAlerts:
    """The two alerts on a mean: `errors` standard errors page, from `least` effective conversations on."""

    detector: DropDetector
    errors: float
    least: float

    def pages(self, scores: Iterable[PastScore]) -> list[float]:
        """When they would have paged (s), the first page of each day."""
        pages: list[float] = []
        for time in self._pages(scores):
            if not pages or time - pages[-1] >= DAY:
                pages.append(time)
        return pages

    def delay(self, scores: Iterable[PastScore], start: float) -> float | None:
        """Seconds from `start` to the first page after it."""
        return next((time - start for time in self._pages(scores) if time > start), None)

    def _pages(self, scores: Iterable[PastScore]) -> Iterator[float]:
        detector, bets = self.detector, self.detector.bets
        states = detector.start()
        numbers: list[int] = []
        totals = [WindowSums()]
        starts = dict.fromkeys(WINDOWS, 0)
        for number, minute in minutes_of(scores):
            numbers.append(number)
            totals.append(WindowSums(totals[-1].sums + minute.mean, totals[-1].scores + minute.scores))
            gains = [detector.log_gain_bound(bet, minute.evidence) for bet in bets]
            states = detector.advance(states, gains)
            dropped = evidence(states) > detector.threshold
            if dropped:
                states = detector.start()
            for window, length in WINDOWS.items():
                while numbers[starts[window]] <= number - length / MINUTE:
                    starts[window] += 1
            windows = [_between(totals[first], totals[-1]) for first in starts.values()]
            if dropped or any(self._misses(window, day=windows[-1]) for window in windows):
                yield (number + 1) * MINUTE

    def _misses(self, window: WindowSums, day: WindowSums) -> bool:
        sums = window.sums
        if sums.w <= 0.0 or sums.n_eff < self.least:
            return False
        return self.detector.shortfall(1.0, sums.mean) > self.errors * window.stderr(day)


def _between(before: WindowSums, until: WindowSums) -> WindowSums:
    return WindowSums(until.sums - before.sums, until.scores - before.scores)


def minutes_of(scores: Iterable[PastScore]) -> Iterator[tuple[int, Minute]]:
    """Each minute with scores, which are in order of time, and its sums."""
    sums = BoundedSums()
    for number, group in groupby(scores, key=lambda each: int(each.time // MINUTE)):
        mean, evidence_, count = Sums(), Sums(), 0
        for score in group:
            count += 1
            grown = sums.add(None, score.conversation, weight=score.weight, score=score.score, time=score.time)
            mean += grown.mean
            evidence_ += grown.evidence
        yield number, Minute(mean, evidence_, count)


def with_fall(
    scores: Sequence[PastScore], start: float, fall: float, mean: float, *, lower_is_better: bool, seed: int = 0
) -> Iterator[PastScore]:
    """Past scores as they would have been, had their mean got worse by `fall` at `start` (s).

    A share of the conversations is as bad as can be from then on. They begin a day before, and go round at their end.
    """
    chance = random.Random(seed)
    room = 1.0 - mean if lower_is_better else mean
    share = min(1.0, fall / room) if room > 0.0 else 0.0
    bad: dict[str, bool] = {}
    for score in _round(scores, start - DAY, start + LONGEST):
        if score.time < start:
            yield score
            continue
        if score.conversation not in bad:
            bad[score.conversation] = chance.random() < share
        yield score._replace(score=float(lower_is_better)) if bad[score.conversation] else score


def _round(scores: Sequence[PastScore], begin: float, end: float) -> Iterator[PastScore]:
    """Scores of a time span: where there are none left, those of whole days earlier or later again."""
    first, last = scores[0].time, scores[-1].time
    span = max(1.0, (last - first) // DAY + ((last - first) % DAY > 0)) * DAY
    lap = int((begin - first) // span)
    while first + lap * span < end:
        for score in scores:
            time = score.time + lap * span
            if begin <= time < end:
                yield score._replace(time=time, conversation=f"{lap}/{score.conversation}")
        lap += 1
