"""Tools that an agent may and may not call."""

from collections import Counter
from typing import ClassVar, Self

from pydantic import Field, model_validator

from evaluators.cases import Turn
from evaluators.evaluator import CodeEvaluator, Example
from evaluators.judge import Judge
from evaluators.mechanisms.rating import NonBlank
from evaluators.results import Score


class ToolPolicy(CodeEvaluator[Turn]):
    """1 if every tool that was called may be called, and none too often; else 0.

    Without tool calls the score is 1. The explanation names the tools.
    """

    kind: ClassVar[str] = "tool_policy"
    needed_fields: ClassVar[frozenset[str]] = frozenset()
    example: ClassVar[Example] = {"forbidden": ["delete_account"]}

    allowed: tuple[NonBlank, ...] | None = None
    """Names of the only tools that may be called; all, if left out."""
    forbidden: tuple[NonBlank, ...] = ()
    """Names of tools that may not be called."""
    most: dict[NonBlank, int] = Field(default_factory=dict[str, int])
    """How often a tool may be called in a turn, by its name."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.allowed is None and not self.forbidden and not self.most:
            raise ValueError("allowed, forbidden and most: give at least one of them; as it is, everything is allowed")
        if both := sorted(set(self.allowed or ()) & set(self.forbidden)):
            raise ValueError(f"allowed and forbidden: {', '.join(both)} is in both")
        if wrong := sorted(name for name, count in self.most.items() if count < 1):
            raise ValueError(f"most: {wrong[0]} may be called less than once; write it into forbidden")
        return self

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        counts = Counter(call.name for call in case.tools_called)
        forbidden = {name for name in counts if name in self.forbidden}
        if self.allowed is not None:
            forbidden |= counts.keys() - set(self.allowed)
        too_often = {name for name, count in counts.items() if count > self.most.get(name, count)}
        problems = [
            *(f"{name} is not allowed" for name in sorted(forbidden)[:20]),
            *(
                f"{name} was called {counts[name]} times, {self.most[name]} are allowed"
                for name in sorted(too_often)[:20]
            ),
        ]
        return Score(
            value=float(not problems),
            explanation="; ".join(problems) or f"{counts.total()} calls, all of them allowed",
            details={"forbidden": sorted(forbidden)[:20], "too_often": sorted(too_often)[:20]},
        )
