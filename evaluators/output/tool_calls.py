"""Whether the application called the right tools."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal, Self, cast

from pydantic import AfterValidator, Field, model_validator

from evaluators.cases import Json, ToolCall, Turn
from evaluators.evaluator import Evaluator
from evaluators.judge import Judge
from evaluators.outcome import Score
from evaluators.paths import as_json

_CONDITION = re.compile(r"\s*(>=|<=|==|=|!=|>|<)?\s*(\d+)\s*")


def _is_condition(text: str) -> str:
    if _CONDITION.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no condition; write for example '>= 1', '= 0' or '2'")
    return text


Condition = Annotated[str, AfterValidator(_is_condition)]


class ToolCalls(Evaluator[Turn]):
    """How far the tools that were called are those that should have been: by order, count, arguments, or output.

    `order`: the longest common subsequence of names, over the number expected; with `strict` 1 for the very sequence,
    else 0. `count`: the share of the conditions in `counts` that hold, like `search: ">= 1"`; without any, each
    expected tool has to be called as often as expected. `arguments`: the share of the expected calls that find a call
    of the same name with the same arguments; with `subset`, it may have more. `output`: the same with results. Without
    expected and without actual calls the score is 1; if only one side has none, 0.
    """

    kind: ClassVar[str] = "tool_calls"
    needs_judge: ClassVar[bool] = False

    compare: Literal["order", "count", "arguments", "output"] = Field(default="order", description="What is compared.")
    strict: bool = Field(default=False, description="For `order`: the very sequence, nothing more and nothing between.")
    subset: bool = Field(default=False, description="For `arguments`: more arguments than expected do no harm.")
    counts: Mapping[str, Condition] = Field(
        default_factory=dict[str, str], description="For `count`: conditions by name of tool, with >, >=, =, !=, <=, <."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name, compare in (("strict", "order"), ("subset", "arguments"), ("counts", "count")):
            if getattr(self, name) and self.compare != compare:
                raise ValueError(f"{name} and compare: {name} is for compare: {compare}")
        return self

    @property
    def requires(self) -> frozenset[str]:
        """The calls that were expected, unless conditions are configured."""
        return frozenset() if self.counts else frozenset({"expected_tools"})

    async def evaluate(self, case: Turn, judge: Judge) -> Score:  # noqa: ARG002 - it asks nobody
        """See `Evaluator.evaluate`."""
        called, expected = case.tools_called, case.expected_tools or ()
        if self.counts:
            conditions = self.counts
        elif not called or not expected:
            return _of(float(not called and not expected), len(expected), len(called))
        else:
            conditions = {name: f"= {count}" for name, count in Counter(call.name for call in expected).items()}
        return _of(self._value(called, expected, conditions), len(expected), len(called))

    def _value(self, called: Sequence[ToolCall], expected: Sequence[ToolCall], conditions: Mapping[str, str]) -> float:
        match self.compare:
            case "order":
                return _in_order([call.name for call in expected], [call.name for call in called], strict=self.strict)
            case "count":
                counts = Counter(call.name for call in called)
                return sum(_holds(text, counts[name]) for name, text in conditions.items()) / len(conditions)
            case "arguments":
                fits = [[self._same_arguments(wanted, call) for call in called] for wanted in expected]
            case "output":
                fits = [[_same_output(wanted, call) for call in called] for wanted in expected]
        return _pairs(fits) / len(expected)

    def _same_arguments(self, wanted: ToolCall, call: ToolCall) -> bool:
        if wanted.name != call.name:
            return False
        ours, theirs = _value_of(wanted.arguments), _value_of(call.arguments)
        if self.subset and isinstance(ours, dict) and isinstance(theirs, dict):
            needed, given = cast("dict[str, Json]", ours), cast("dict[str, Json]", theirs)
            return all(name in given and given[name] == value for name, value in needed.items())
        return bool((ours or {}) == (theirs or {}))


def _of(value: float, expected: int, called: int) -> Score:
    return Score(value=value, explanation=f"{called} called, {expected} expected")


def _in_order(expected: list[str], called: list[str], *, strict: bool) -> float:
    if strict:
        return float(expected == called)
    from rapidfuzz.distance import LCSseq

    return LCSseq.similarity(expected, called) / len(expected)


def _holds(condition: str, count: int) -> bool:
    match = _CONDITION.fullmatch(condition)
    assert match is not None, "conditions are checked when the evaluator is made"
    wanted = int(match.group(2))
    match match.group(1):
        case ">":
            return count > wanted
        case ">=":
            return count >= wanted
        case "<":
            return count < wanted
        case "<=":
            return count <= wanted
        case "!=":
            return count != wanted
        case _:
            return count == wanted


def _same_output(wanted: ToolCall, call: ToolCall) -> bool:
    return wanted.name == call.name and bool(_value_of(wanted.result) == _value_of(call.result))


def _value_of(value: Json) -> Json:
    """Tracers write arguments and results as JSON or as text that holds JSON."""
    return as_json(value) if isinstance(value, str) else value


def _pairs(fits: Sequence[Sequence[bool]]) -> int:
    """How many expected calls can be given a call each, all different: a maximum matching, by augmenting paths.

    First come, first served would do worse where an expected call fits several, and another only one of them.
    """
    taken: dict[int, int] = {}

    def place(wanted: int, tried: set[int]) -> bool:
        for call, fit in enumerate(fits[wanted]):
            if fit and call not in tried:
                tried.add(call)
                if call not in taken or place(taken[call], tried):
                    taken[call] = wanted
                    return True
        return False

    return sum(place(wanted, set()) for wanted in range(len(fits)))
