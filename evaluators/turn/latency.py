"""Latency: the time that the user waited."""

from typing import ClassVar, Self

from pydantic import Field, model_validator

from evaluators.cases import Turn
from evaluators.evaluator import CodeEvaluator, Example
from evaluators.judge import Judge
from evaluators.results import Score, Skipped, SkipReason


class Latency(CodeEvaluator[Turn]):
    """1 up to the target, then falling evenly to 0 at the limit, by the seconds from request to answer."""

    kind: ClassVar[str] = "latency"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"started_at", "ended_at"})
    needs_content: ClassVar[bool] = False
    example: ClassVar[Example] = {"target": 2.0, "limit": 10.0}

    target: float = Field(ge=0)
    """An answer within so many seconds scores 1."""
    limit: float = Field(gt=0)
    """From so many seconds on the score is 0."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.limit <= self.target:
            raise ValueError("target and limit: the limit has to be above the target")
        return self

    @property
    def score_range(self) -> tuple[float, float]:
        """The seconds that score 0, and the seconds that score 1."""
        return (self.limit, self.target)

    async def evaluate(self, case: Turn, judge: Judge) -> Score | Skipped:
        """See `Evaluator.evaluate`."""
        if case.started_at is None or case.ended_at is None or case.ended_at < case.started_at:
            return Skipped(reason=SkipReason.INVALID_FIELD.text("ended_at"))
        seconds = (case.ended_at - case.started_at).total_seconds()
        value = min(1.0, max(0.0, (self.limit - seconds) / (self.limit - self.target)))
        return Score(value=value, raw_score=seconds, range=self.score_range, explanation=f"{seconds:.3f} s")
