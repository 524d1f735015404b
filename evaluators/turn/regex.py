"""A pattern that the answer matches, or does not."""

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from evaluators.asking.judge_input import SearchesText, read_text
from evaluators.cases import Turn
from evaluators.evaluator import CodeEvaluator, Example
from evaluators.judge import Judge
from evaluators.results import Score
from evaluators.texts.linear_regex import check_pattern, matches

LONGEST = 100_000
"""Characters of an answer that are searched."""


class Regex(SearchesText, CodeEvaluator[Turn]):
    """1 if the answer matches a regular expression, else 0.

    Python's syntax, without lookaround, backreferences, atomic groups and possessive repetitions, so no pattern is
    slow. The first 100,000 characters of the answer are searched.
    """

    kind: ClassVar[str] = "regex"
    example: ClassVar[Example] = {"pattern": r"\bINV-\d{6}\b"}

    pattern: Annotated[str, AfterValidator(check_pattern)] = Field(min_length=1)
    """A regular expression."""
    match: Literal["anywhere", "whole"] = "anywhere"
    """The part of the answer that has to match."""
    case_sensitive: bool = True
    """Whether upper and lower case are different."""
    negated: bool = False
    """Score 1 where it does not match instead."""

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        searched, whole = read_text(case, self.searched), self.match == "whole"
        text = searched[:LONGEST]
        hit = matches(self.pattern, text.strip() if whole else text, ignore_case=not self.case_sensitive, whole=whole)
        explanation = "matches" if hit else "does not match"
        if len(searched) <= LONGEST:
            return Score(value=float(hit != self.negated), explanation=explanation)
        explanation += f" in the first {LONGEST:,} characters"
        return Score(value=float(hit != self.negated), explanation=explanation, details={"truncated": True})
