"""Strata of turns that are judged more often: errors, negative feedback, long latency, low scores, attributes.

A turn belongs to the stratum of the strongest boost whose test it meets; a conversation belongs to the stratum of its
most boosted turn. A subject that is judged more often weighs less, by the inclusion probability in its record, so means
stay unbiased.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from collector.records.feedback import GOOD, feedback_entry
from evaluators.cases import Turn

MAX_BOOST = 4.0
"""The strongest boost. Beyond it the error of the mean grows faster than the knowledge of the boosted turns
(measured)."""

EVERYTHING = "all"

Test = Callable[[Turn, Mapping[str, float]], bool]
"""Whether a turn meets the condition of a boost, given the scores of `Strata.code_evaluators`."""


@dataclass(frozen=True, slots=True)
class Boost:
    """Turns that meet the test are judged `factor` (1 to `MOST`) times as often; records name the `stratum`."""

    stratum: str
    factor: float
    test: Test


@dataclass(frozen=True, slots=True)
class Strata:
    """The boosts of a monitor. `code_evaluators` are evaluators without a judge whose scores the tests need."""

    boosts: tuple[Boost, ...] = ()
    code_evaluators: tuple[Any, ...] = ()

    @property
    def strongest(self) -> float:
        """The factor beyond which no turn is boosted."""
        return max((boost.factor for boost in self.boosts), default=1.0)

    @property
    def by_name(self) -> Mapping[str, float]:
        """The strata that records can name, with their boosts; the first has the subjects without a boost."""
        strata = {EVERYTHING: 1.0}
        for boost in self.boosts:
            strata[boost.stratum] = max(strata.get(boost.stratum, 1.0), boost.factor)
        return strata

    def of(self, turn: Turn, scores: Mapping[str, float]) -> tuple[float, str]:
        """The boost of a turn and the name of its stratum."""
        met = [(boost.factor, boost.stratum) for boost in self.boosts if boost.test(turn, scores)]
        return max(met, default=(1.0, EVERYTHING))


def failed(turn: Turn, _scores: Mapping[str, float]) -> bool:
    """Whether the application failed."""
    return turn.error is not None


def disliked(scales: Mapping[str, tuple[float, float]], turn: Turn, _scores: Mapping[str, float]) -> bool:
    """Whether any feedback in a turn is bad, as in metrics; `scales` have the worst and the best number by name."""
    entries = (feedback_entry(feedback, "") for feedback in turn.feedback)
    scores = [entry.score(scales.get(entry.name)) for entry in entries if entry is not None]
    return any(score is not None and score < GOOD for score in scores)


def slower_than(seconds: float) -> Test:
    """Whether the answer took longer than `seconds`."""

    def slow(turn: Turn, _scores: Mapping[str, float]) -> bool:
        start, end = turn.started_at, turn.ended_at
        return start is not None and end is not None and (end - start).total_seconds() > seconds

    return slow


def scored_below(evaluator: str, score: float, *, lower_is_better: bool = False) -> Test:
    """Whether an evaluator without a judge gave a score below `score`; where lower is better, above 1 - `score`."""
    highest = round(1.0 - score, 9)

    def low(_turn: Turn, scores: Mapping[str, float]) -> bool:
        return scores.get(evaluator, 0.0) > highest if lower_is_better else scores.get(evaluator, 1.0) < score

    return low


def having(read: Callable[[Turn], str], values: Iterable[str]) -> Test:
    """Whether a field or attribute has one of the values."""
    wanted = frozenset(values)

    def has(turn: Turn, _scores: Mapping[str, float]) -> bool:
        return read(turn) in wanted

    return has
