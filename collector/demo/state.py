"""The state of the demo: the figures behind the screen. No clock, no terminal."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from evaluators.cases import Turn
from evaluators.results import Evaluation

BIN_SECONDS = 3.0
"""Width of a column of a sparkline."""
RECENT_SECONDS = 15.0
"""The window of the recent mean, in seconds."""


@dataclass(slots=True)
class EvaluatorScores:
    """The scores of one evaluator, by the time at which they came."""

    scored: int = 0
    skipped: int = 0
    failed: int = 0
    total: float = 0.0
    scores: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    @property
    def mean(self) -> float | None:
        """Mean of all scores."""
        return self.total / self.scored if self.scored else None

    def mean_between(self, start: float, end: float) -> float | None:
        """Mean of the scores that came in [start, end)."""
        chosen = [score for at, score in self.scores if start <= at < end]
        return sum(chosen) / len(chosen) if chosen else None

    def bins(self, now: float, columns: int) -> Iterator[float | None]:
        """The mean of each of the last columns, oldest first; None where nothing was scored."""
        last = int(now // BIN_SECONDS)
        for column in range(max(0, last - columns + 1), last + 1):
            yield self.mean_between(column * BIN_SECONDS, (column + 1) * BIN_SECONDS)


class DemoState:
    """Counts turns and evaluations as they come. Times are seconds since the demo's start."""

    def __init__(self, *, keep: int = 8) -> None:
        self.turns = 0
        self.conversations: set[str] = set()
        self.latest_turns: deque[Turn] = deque(maxlen=keep)
        self.latest_evaluations: deque[Evaluation] = deque(maxlen=keep)
        self.series: dict[str, EvaluatorScores] = {}
        self.first_score_after: float | None = None

    def add_turn(self, turn: Turn) -> None:
        """A turn was assembled."""
        self.turns += 1
        self.conversations.add(turn.conversation_id or turn.turn_id)
        self.latest_turns.append(turn)

    def add_evaluation(self, evaluation: Evaluation, at: float) -> None:
        """An evaluation is in the ledger."""
        self.latest_evaluations.append(evaluation)
        series = self.series.setdefault(evaluation.evaluator, EvaluatorScores())
        if evaluation.score is not None:
            series.scored += 1
            series.total += evaluation.score
            series.scores.append((at, evaluation.score))
            if self.first_score_after is None:
                self.first_score_after = at
        elif evaluation.outcome == "skipped":
            series.skipped += 1
        else:
            series.failed += 1
