"""Exact match of the answer with the expected one."""

import json
from typing import ClassVar

from evaluators.asking.judge_input import ComparesOutputs
from evaluators.cases import Json, Turn
from evaluators.evaluator import CodeEvaluator
from evaluators.judge import Judge
from evaluators.results import Score
from evaluators.texts.hashable_json import equal
from evaluators.texts.paths import ABSENT


class ExactMatch(ComparesOutputs, CodeEvaluator[Turn]):
    """1 if the answer equals the expected output, else 0.

    Texts are compared without the white space around them. JSON objects, lists and numbers are compared by what they
    hold: 1 is 1.0, and true is not 1. An answer without the part that `target_output_key` names differs.
    """

    kind: ClassVar[str] = "exact_match"
    revision: ClassVar[int] = 2

    case_sensitive: bool = True
    """Whether upper and lower case are different."""
    negated: bool = False
    """Score 1 where they differ instead."""

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        actual, expected = self.parts(case)
        same = actual is not ABSENT and self._equal(actual, expected)
        return Score(value=float(same != self.negated), explanation="equal" if same else "different")

    def _equal(self, actual: Json, expected: Json) -> bool:
        if isinstance(actual, str) != isinstance(expected, str):  # such as 7 and "7"
            actual, expected = _text(actual), _text(expected)
        if isinstance(actual, str) and isinstance(expected, str):
            actual, expected = actual.strip(), expected.strip()
        return equal(actual, expected, str if self.case_sensitive else str.casefold)


def _text(value: Json) -> Json:
    """A number, true, false or null as it is written; any other text unchanged."""
    return json.dumps(value) if value is None or isinstance(value, bool | int | float) else value
