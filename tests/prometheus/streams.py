"""Scores as a service would count them: streams of scores, and the five sums that they add up to, minute by minute."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise, zip_longest

from collector.statistics.bounded_sums import BoundedSums, Sums, Weight
from collector.statistics.mean_error import WindowSums

LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
USUAL = (0.04, 0.06, 0.10, 0.26, 0.54)  # skewed to the top, as judges are: mean 0.80, standard deviation 0.27
MEAN = sum(level * share for level, share in zip(LEVELS, USUAL, strict=True))


def shares(mean: float) -> tuple[float, ...]:
    """The usual shares of the levels, tilted until the mean is `mean`."""
    low, high = -30.0, 30.0
    while True:
        middle = (low + high) / 2
        tilted = [share * math.exp(middle * level) for level, share in zip(LEVELS, USUAL, strict=True)]
        total = sum(tilted)
        now = sum(level * each for level, each in zip(LEVELS, tilted, strict=True)) / total
        if abs(now - mean) < 1e-9 or high - low < 1e-12:
            return tuple(each / total for each in tilted)
        low, high = (middle, high) if now < mean else (low, middle)


def poisson(chance: random.Random, rate: float) -> int:
    limit, product, count = math.exp(-rate), chance.random(), 0
    while product > limit:
        product *= chance.random()
        count += 1
    return count


@dataclass
class Stream:
    """Conversations of `turns` scores each, `per_minute` of them, at a mean that depends on the minute."""

    per_minute: float
    mean: Callable[[int], float] = lambda _minute: MEAN
    weight: float = 1.0
    turns: int = 1
    seed: int = 1
    totals: list[tuple[Sums, int, float]] = field(default_factory=list)
    """After each minute, the first at 0: the sums, how many scores, and the weight of those that pass 0.5."""
    evidence: list[Sums] = field(default_factory=list)
    """The detector's sums after each minute."""
    scores: list[list[tuple[str, float]]] = field(default_factory=list)
    """The scores of each minute, with their conversation."""

    def run(self, minutes: int) -> Stream:
        chance = random.Random(self.seed)
        self.scores = [list(self._minute(chance, minute)) for minute in range(minutes)]
        return self.counted([self.weighed(minute) for minute in self.scores])

    def weighed(self, scores: Iterable[tuple[str, float]]) -> list[tuple[str, float, float]]:
        return [(key, score, self.weight) for key, score in scores]

    def counted(self, scores: Iterable[Iterable[tuple[str, float, float]]]) -> Stream:
        """This stream with the scores of each minute and their weights, as one process adds them up."""
        sums = BoundedSums()
        total, evidence, count, passed = Sums(), Sums(), 0, 0.0
        self.totals.append((total, count, passed))
        self.evidence.append(evidence)
        for minute, made in enumerate(scores):
            for key, score, weight in made:
                grown = sums.add("s", key, weight=Weight(weight, weight), score=score, time=minute * 60.0)
                total += grown.mean
                evidence += grown.evidence
                passed += grown.mean.w * (score >= 0.5)
                count += 1
            self.totals.append((total, count, passed))
            self.evidence.append(evidence)
        return self

    def _minute(self, chance: random.Random, minute: int) -> Iterator[tuple[str, float]]:
        weights = shares(self.mean(minute))
        for number in range(poisson(chance, self.per_minute)):
            for _ in range(self.turns):
                yield f"{self.seed}-{minute}-{number}", chance.choices(LEVELS, weights)[0]

    def deltas(self) -> list[Sums]:
        """The detector's sums of each minute."""
        return [after - before for before, after in pairwise(self.evidence)]

    def window(self, minutes: int) -> WindowSums:
        """The sums and the number of scores of the last minutes."""
        (until, scores, _), (before, earlier, _) = self.totals[-1], self.totals[max(0, len(self.totals) - 1 - minutes)]
        return WindowSums(until - before, scores - earlier)


def together(*streams: Stream) -> Stream:
    """What one process counts to which all of them come, each with a seed of its own."""
    weighed = (map(each.weighed, each.scores) for each in streams)
    return Stream(0.0).counted(map(chain.from_iterable, zip_longest(*weighed, fillvalue=[])))


def drop_at(minute: int, by: float) -> Callable[[int], float]:
    return lambda now: MEAN - by if now >= minute else MEAN


def values(numbers: Sequence[float]) -> str:
    """Samples as promtool's tests write them; None of them NaN."""
    return " ".join("_" if math.isnan(number) else f"{number:.10g}" for number in numbers)
