"""Tool calls compared with the expected ones."""

import operator
import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Annotated, ClassVar, Literal, Self, cast

from pydantic import AfterValidator, Field, model_validator

from evaluators.cases import Json, ToolCall, Turn
from evaluators.errors import TooExpensive
from evaluators.evaluator import ADDED_LATER, CodeEvaluator
from evaluators.judge import Judge
from evaluators.results import Score
from evaluators.texts.hashable_json import to_hashable
from evaluators.texts.paths import parse_json_or_text

_CONDITION = re.compile(r"\s*+(>=|<=|==|=|!=|>|<)?\s*+(\d+)\s*+")


def _is_condition(text: str) -> str:
    if _CONDITION.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no condition; write for example '>= 1', '= 0' or '2'")
    return text


NamedValue = tuple[str, Json]
"""A tool's name, with its arguments or its result."""

_MOST_PAIRS = 250_000

Condition = Annotated[str, AfterValidator(_is_condition)]


class ToolCalls(CodeEvaluator[Turn]):
    """How well the tool calls match the expected ones: by order, count, arguments, or output.

    `order`: the longest common subsequence of names, over the number expected. `count`: the share of the conditions in
    `counts` that hold, like `search: ">= 1"`; without any, each expected tool has to be called as often as expected.
    `arguments`: the share of the expected calls that find a call of the same name with the same arguments. `output`:
    the same with results. Without expected and without actual calls the score is 1; if only one side has none, 0.
    Otherwise, calls beyond the expected do no harm unless `forbid_extra` or `strict` is set.
    """

    kind: ClassVar[str] = "tool_calls"
    revision: ClassVar[int] = 2

    compare: Literal["order", "count", "arguments", "output"] = "order"
    """The property of the calls that is compared."""
    strict: bool = False
    """For `order`: 1 for the very sequence, with nothing more and nothing between, else 0."""
    forbid_extra: Annotated[bool, ADDED_LATER] = False
    """Whether calls beyond the expected lower the score: by expected / called."""
    subset: bool = False
    """For `arguments`: more arguments than expected do no harm."""
    counts: Mapping[str, Condition] = Field(default_factory=dict[str, str])
    """For `count`: conditions by name of tool, with >, >=, =, !=, <=, <."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.forbid_extra and self.counts:
            raise ValueError("forbid_extra and counts: a condition such as '= 0' says which calls must not be there")
        for name, compare in (("strict", "order"), ("subset", "arguments"), ("counts", "count")):
            if getattr(self, name) and self.compare != compare:
                raise ValueError(f"{name} and compare: {name} is for compare: {compare}")
        return self

    @property
    def calculation(self) -> int:
        """1 where no arguments or results are compared: only their comparison changed in revision 2."""
        return 2 if self.compare in {"arguments", "output"} else 1

    @property
    def requires(self) -> frozenset[str]:
        """The calls that were expected, unless conditions are configured."""
        return frozenset() if self.counts else frozenset({"expected_tools"})

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        called, expected = case.tools_called, case.expected_tools or ()
        if self.counts:
            conditions = self.counts
        elif not called or not expected:
            return _of(float(not called and not expected), len(expected), len(called))
        else:
            conditions = {name: f"= {count}" for name, count in Counter(call.name for call in expected).items()}
        value = self._value(called, expected, conditions)
        if self.forbid_extra and len(called) > len(expected):
            value *= len(expected) / len(called)
        return _of(value, len(expected), len(called))

    def _value(self, called: Sequence[ToolCall], expected: Sequence[ToolCall], conditions: Mapping[str, str]) -> float:
        match self.compare:
            case "order":
                return _in_order([call.name for call in expected], [call.name for call in called], strict=self.strict)
            case "count":
                counts = Counter(call.name for call in called)
                return sum(_holds(text, counts[name]) for name, text in conditions.items()) / len(conditions)
            case "arguments" | "output" as part:
                wanted, actual = ([(call.name, _part(call, part)) for call in calls] for calls in (expected, called))
        try:
            return (_subset_pairs(wanted, actual) if self.subset else _equal_pairs(wanted, actual)) / len(expected)
        except RecursionError:
            raise TooExpensive(f"tool_calls: {part} are nested too deeply") from None


def _of(value: float, expected: int, called: int) -> Score:
    return Score(value=value, explanation=f"{called} called, {expected} expected")


def _in_order(expected: list[str], called: list[str], *, strict: bool) -> float:
    if strict:
        return float(expected == called)
    from rapidfuzz.distance import LCSseq

    return LCSseq.similarity(expected, called) / len(expected)


_COMPARISONS: Mapping[str | None, Callable[[int, int], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "!=": operator.ne,
    **dict.fromkeys(("=", "==", None), operator.eq),
}


def _holds(condition: str, count: int) -> bool:
    match = _CONDITION.fullmatch(condition)
    assert match is not None, "conditions are checked when the evaluator is made"
    return _COMPARISONS[match[1]](count, int(match[2]))


def _part(call: ToolCall, part: Literal["arguments", "output"]) -> Json:
    """The compared part; missing arguments count as an empty object."""
    return _value_of(call.arguments) or cast("Json", {}) if part == "arguments" else _value_of(call.result)


def _value_of(value: Json) -> Json:
    """Tracers write arguments and results as JSON or as text that holds JSON."""
    return parse_json_or_text(value) if isinstance(value, str) else value


def _equal_pairs(wanted: Sequence[NamedValue], actual: Sequence[NamedValue]) -> int:
    """How many expected calls can be given an equal call each, all different."""
    ours, theirs = (Counter((name, to_hashable(value)) for name, value in calls) for calls in (wanted, actual))
    return (ours & theirs).total()


def _subset_pairs(wanted: Sequence[NamedValue], actual: Sequence[NamedValue]) -> int:
    """The same, where a call may have more arguments than expected."""
    if len(wanted) * len(actual) > _MOST_PAIRS:
        raise TooExpensive(f"tool_calls: {len(wanted)} expected and {len(actual)} actual calls are too many to pair")
    numbers: dict[Hashable, int] = {}
    needed, present = ([(name, _numbered(value, numbers)) for name, value in calls] for calls in (wanted, actual))
    fits = [
        sum(1 << at for at, (name, parts) in enumerate(present) if name == our_name and _within(ours, parts))
        for our_name, ours in needed
    ]
    return _pairs(fits)


def _numbered(value: Json, numbers: dict[Hashable, int]) -> Mapping[str, int] | int:
    """Every argument as a number, the same for equal ones: so comparing takes no time, however long they are."""
    if isinstance(value, dict):
        items = cast("dict[str, Json]", value).items()
        return {name: numbers.setdefault(to_hashable(value), len(numbers)) for name, value in items}
    return numbers.setdefault(to_hashable(value), len(numbers))


def _within(ours: Mapping[str, int] | int, theirs: Mapping[str, int] | int) -> bool:
    if not ours and isinstance(ours, Mapping):
        return True  # no arguments are expected, so any will do, even a bare value
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return ours.items() <= theirs.items()
    return ours == theirs


def _pairs(fits: Sequence[int]) -> int:
    """How many expected calls can be given a call each, all different: a maximum matching, by augmenting paths.

    Bit n of `fits[m]` says that call n fits expected call m. Taking the first fit would do worse if one expected call
    fits several calls and another fits only one of them.
    """
    expected_by_call: dict[int, int] = {}
    call_by_expected: dict[int, int] = {}
    return sum(_augment(root, fits, expected_by_call, call_by_expected) for root in range(len(fits)))


def _augment(
    root: int, fits: Sequence[int], expected_by_call: dict[int, int], call_by_expected: dict[int, int]
) -> bool:
    """Give one more expected call a call, reassigning those of others where needed; whether that is possible."""
    reached: dict[int, int] = {}
    untried = -1
    queue = [root]
    for expected in queue:
        while free := fits[expected] & untried:
            call = (free & -free).bit_length() - 1
            untried &= ~(1 << call)
            reached[call] = expected
            if call in expected_by_call:
                queue.append(expected_by_call[call])
                continue
            while True:
                owner = reached[call]
                previous = call_by_expected.get(owner)
                expected_by_call[call], call_by_expected[owner] = owner, call
                if previous is None:
                    return True
                call = previous
    return False
