"""Limits of what a turn takes."""

from typing import ClassVar

from evaluators.agents.run_bounds import RunBounds
from evaluators.cases import Turn
from evaluators.evaluator import CodeEvaluator, Example
from evaluators.judge import Judge
from evaluators.results import Score


class RunLimits(RunBounds, CodeEvaluator[Turn]):
    """1 while an agent's run keeps within all its bounds; beyond one it falls evenly, to 0 at twice the bound.

    The bound that is exceeded most decides. A turn without the number that is bounded is skipped.
    """

    kind: ClassVar[str] = "run_limits"
    needed_fields: ClassVar[frozenset[str]] = frozenset()
    needs_content: ClassVar[bool] = False
    example: ClassVar[Example] = {"max_tool_calls": 8}

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        return self.score([case])
