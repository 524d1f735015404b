"""Errors of tools, and whether the agent got over them."""

from typing import ClassVar

from evaluators.agents.tool_outcomes import failure_of
from evaluators.cases import Json, Turn
from evaluators.evaluator import CodeEvaluator
from evaluators.judge import Judge
from evaluators.results import Score


class ToolErrors(CodeEvaluator[Turn]):
    """The share of the tool calls that succeeded, or whose tool succeeded in a later call.

    A call failed if its span did, or if its result says so: by a field `error`, `isError: true`, `success: false`, a
    status of 400 and above, or a text that begins like an error. Without tool calls the score is 1.
    """

    kind: ClassVar[str] = "tool_errors"
    needed_fields: ClassVar[frozenset[str]] = frozenset()

    count_recovered: bool = True
    """Whether a failed call counts as good once its tool works."""

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        calls = case.tools_called
        failures = {at: why for at, call in enumerate(calls) if (why := failure_of(call)) is not None}
        last_success = {call.name: at for at, call in enumerate(calls) if at not in failures}
        recovered = {at for at in failures if last_success.get(calls[at].name, -1) > at}
        errors: list[Json] = [
            {"call": at + 1, "tool": calls[at].name, "error": why[:200], "recovered": at in recovered}
            for at, why in list(failures.items())[:50]
        ]
        return Score(
            value=1 - (len(failures) - (len(recovered) if self.count_recovered else 0)) / len(calls) if calls else 1.0,
            explanation=f"{len(failures)} of {len(calls)} calls failed, {len(recovered)} of them recovered",
            details={"failed": len(failures), "recovered": len(recovered), "errors": errors},
        )
