"""Similarity of the JSON in an answer to the expected JSON."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, cast

from evaluators.asking.judge_input import ComparesOutputs
from evaluators.cases import Json, Turn
from evaluators.errors import TooExpensive
from evaluators.evaluator import CodeEvaluator
from evaluators.judge import Judge
from evaluators.results import Score
from evaluators.texts.paths import ABSENT


class JsonSimilarity(ComparesOutputs, CodeEvaluator[Turn]):
    """The mean likeness of the expected JSON's leaves (single values) to what the answer has in their places.

    Numbers: 1 - |expected - actual| / |expected|, at least 0. Texts: 1 - edit distance / length of the longer. Other
    values: 1 if equal. A missing part, or one of another type, counts 0 with all its leaves; additional parts of the
    answer do not count. Lists are compared by position. Texts that are no JSON are compared as texts. An answer without
    the part that `target_output_key` names gets 0. Texts that differ and are longer than about 63,000 characters each
    end as the failure `too_expensive`.
    """

    kind: ClassVar[str] = "json_similarity"
    revision: ClassVar[int] = 2

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        actual, expected = self.parts(case)
        leaves = likeness(expected, actual)
        value = leaves.alike / leaves.count if leaves.count else float(actual is not ABSENT)
        explanation = f"{leaves.alike:g} of {leaves.count} leaves"
        return Score(value=min(1.0, value), explanation=explanation, details={"leaves": leaves.count})


@dataclass(frozen=True, slots=True)
class Leaves:
    """The number of leaves, and the sum of their likenesses."""

    alike: float
    count: int


def likeness(expected: Json, actual: Json) -> Leaves:
    """Compare an expected value with the value in its place.

    Raises:
        TooExpensive: texts that differ are so long that their edit distance would take more than a moment, or the
            values are nested too deeply.
    """
    try:
        if _edit_cost(expected, actual) > _MOST_EDIT_COST:
            raise TooExpensive("json_similarity: the texts are too long for their edit distance; compare parts of them")
        return _likeness(expected, actual)
    except RecursionError:
        raise TooExpensive("json_similarity: the outputs are nested too deeply") from None


_MOST_EDIT_COST = 4_000_000_000
"""The most edit cost: the sum of the products of two texts' lengths. Two texts of 63,000 characters take an eighth of a
second."""


def _edit_cost(expected: Json, actual: Json) -> int:
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        theirs = cast("Mapping[str, Json]", actual)
        fields = cast("Mapping[str, Json]", expected).items()
        return sum(_edit_cost(value, theirs[key]) for key, value in fields if key in theirs)
    if isinstance(expected, list) and isinstance(actual, list):
        return sum(map(_edit_cost, cast("list[Json]", expected), cast("list[Json]", actual)))
    if isinstance(expected, str) and isinstance(actual, str) and expected != actual:
        return len(expected) * len(actual)
    return 0


def _likeness(expected: Json, actual: Json) -> Leaves:
    if isinstance(expected, Mapping):
        fields = cast("Mapping[str, Json]", expected)
        there = cast("Mapping[str, Json]", actual if isinstance(actual, Mapping) else {})
        return _sum([_likeness(value, there.get(key, ABSENT)) for key, value in fields.items()])
    if isinstance(expected, list):
        items = cast("list[Json]", expected)
        others = cast("list[Json]", actual) if isinstance(actual, list) else []
        padded = [*others[: len(items)], *[ABSENT] * (len(items) - len(others))]
        return _sum([_likeness(item, other) for item, other in zip(items, padded, strict=True)])
    return Leaves(_leaf(expected, actual), 1)


def _sum(parts: list[Leaves]) -> Leaves:
    return Leaves(math.fsum(part.alike for part in parts), sum(part.count for part in parts))


def _leaf(expected: Json, actual: Json) -> float:
    if isinstance(expected, str) and isinstance(actual, str):
        from rapidfuzz.distance import Levenshtein

        return Levenshtein.normalized_similarity(expected, actual)
    if isinstance(expected, bool) or isinstance(actual, bool):
        return float(expected is actual)
    if isinstance(expected, int | float) and isinstance(actual, int | float):
        return _near(expected, actual)
    return float(type(expected) is type(actual) and expected == actual)


def _near(expected: float, actual: float) -> float:
    if expected == actual:
        return 1.0
    return 0.0 if expected == 0 else max(0.0, 1.0 - abs(expected - actual) / abs(expected))
