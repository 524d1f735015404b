"""Containment: is a certain text in the answer?"""

from typing import ClassVar

from pydantic import Field

from evaluators.asking.judge_input import SearchesText, read_text
from evaluators.cases import Turn
from evaluators.evaluator import CodeEvaluator, Example
from evaluators.judge import Judge
from evaluators.results import Score


class Contains(SearchesText, CodeEvaluator[Turn]):
    """1 if the answer holds the text that is looked for, else 0."""

    kind: ClassVar[str] = "contains"
    example: ClassVar[Example] = {"search_text": "terms and conditions"}

    search_text: str = Field(min_length=1)
    """The text to look for."""
    case_sensitive: bool = False
    """Whether upper and lower case are different."""
    negated: bool = False
    """Score 1 where it is absent instead."""

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        there = self._normal(self.search_text) in self._normal(read_text(case, self.searched))
        return Score(value=float(there != self.negated), explanation="found" if there else "not found")

    def _normal(self, text: str) -> str:
        return text if self.case_sensitive else text.casefold()
