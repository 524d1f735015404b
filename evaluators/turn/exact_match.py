"""Exact match of the answer with the expected one."""

from __future__ import annotations

from typing import ClassVar

import orjson
from pydantic import Field

from evaluators.cases import Json, Turn
from evaluators.evaluator import Evaluator
from evaluators.judge import Judge
from evaluators.references import TargetKey, both_parts
from evaluators.results import Score


class ExactMatch(Evaluator[Turn]):
    """1 if the answer equals the expected output, else 0.

    Texts are compared without the white space around them, JSON objects and lists by what they hold.
    """

    kind: ClassVar[str] = "exact_match"
    needs_judge: ClassVar[bool] = False

    target_output_key: TargetKey = "*"
    case_sensitive: bool = Field(default=True, description="Whether upper and lower case are different.")
    negated: bool = Field(default=False, description="Score 1 where they differ instead.")

    @property
    def requires(self) -> frozenset[str]:
        """The answer and a reference."""
        return frozenset({"actual_output", "expected_output"})

    async def evaluate(self, case: Turn, judge: Judge) -> Score:  # noqa: ARG002 - it asks nobody
        """See `Evaluator.evaluate`."""
        actual, expected = both_parts(case, self.target_output_key)
        equal = actual == expected or self._text(actual) == self._text(expected)
        return Score(value=float(equal != self.negated), explanation="equal" if equal else "different")

    def _text(self, value: Json) -> str:
        text = value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
        return text.strip() if self.case_sensitive else text.strip().casefold()
