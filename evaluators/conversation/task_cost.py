"""The cost of a completed task."""

from typing import ClassVar

from evaluators.agents.run_bounds import RunBounds
from evaluators.cases import Conversation
from evaluators.errors import NotApplicable
from evaluators.evaluator import CodeEvaluator, Example
from evaluators.judge import Judge
from evaluators.results import Score, SkipReason


class TaskCost(RunBounds, CodeEvaluator[Conversation]):
    """1 while the turns of a completed conversation together keep within all bounds, falling to 0 at twice a bound.

    The bounds are those of `run_limits`: calls, tokens, money, seconds of work. A conversation whose last turn failed
    or has no answer is skipped (`not_completed`), so the mean covers completed tasks only.
    """

    kind: ClassVar[str] = "task_cost"
    needed_fields: ClassVar[frozenset[str]] = frozenset()
    scope: ClassVar = "conversation"
    needs_content: ClassVar[bool] = False
    example: ClassVar[Example] = {"max_tool_calls": 20}

    async def evaluate(self, case: Conversation, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        if not case.turns:
            raise NotApplicable(SkipReason.MISSING_FIELD.text("turns"))
        last = case.turns[-1]
        if last.error is not None or (not last.actual_output and last.incomplete is None):
            raise NotApplicable(SkipReason.NOT_COMPLETED.text())
        return self.score(case.turns)
