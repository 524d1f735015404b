"""The same tool call made again and again."""

from collections import Counter
from typing import ClassVar

from pydantic import Field

from evaluators.agents.tool_outcomes import failure_of
from evaluators.cases import Turn
from evaluators.errors import TooExpensive
from evaluators.evaluator import CodeEvaluator
from evaluators.judge import Judge
from evaluators.mechanisms.rating import NonBlank
from evaluators.results import Score
from evaluators.texts.hashable_json import to_hashable
from evaluators.texts.paths import parse_json_or_text


class RepeatedCalls(CodeEvaluator[Turn]):
    """The share of the tool calls that do not repeat an earlier one of the same tool with equal arguments.

    A call that repeats a failed one is another attempt, not a repetition. Without tool calls the score is 1.
    """

    kind: ClassVar[str] = "repeated_calls"
    needed_fields: ClassVar[frozenset[str]] = frozenset()

    allowed: int = Field(default=0, ge=0)
    """How often the same call may be repeated."""
    ignore: tuple[NonBlank, ...] = ()
    """Names of tools whose calls are not counted, such as one that waits."""

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        seen: Counter[object] = Counter()
        repeated: Counter[str] = Counter()
        calls = [call for call in case.tools_called if call.name not in self.ignore]
        try:
            for call in calls:
                arguments = parse_json_or_text(call.arguments) if isinstance(call.arguments, str) else call.arguments
                key = (call.name, to_hashable(arguments or {}))
                repeated[call.name] += seen[key] > self.allowed
                seen[key] += failure_of(call) is None
        except RecursionError:
            raise TooExpensive("repeated_calls: arguments are nested too deeply") from None
        repeated = +repeated
        most = ", ".join(f"{name} {count} times" for name, count in repeated.most_common(3))
        return Score(
            value=1 - repeated.total() / len(calls) if calls else 1.0,
            explanation=f"{repeated.total()} of {len(calls)} calls repeat an earlier one"
            + (f": {most}" if most else ""),
            details={"repeated": dict(repeated.most_common(20))},
        )
