"""Whether the answer matches a pattern."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from evaluators.cases import Turn
from evaluators.evaluator import Evaluator, Example
from evaluators.judge import Judge
from evaluators.outcome import Score

LONGEST = 100_000
"""Characters of an answer that are searched."""


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    return pattern


class Regex(Evaluator[Turn]):
    """1 if the answer matches a regular expression, else 0.

    Python's syntax. Nested repetitions like `(a+)+` can take for ever on an unlucky answer: avoid them.
    """

    kind: ClassVar[str] = "regex"
    needs_judge: ClassVar[bool] = False
    example: ClassVar[Example] = {"pattern": r"\bINV-\d{6}\b"}

    pattern: Annotated[str, AfterValidator(_compiles)] = Field(min_length=1, description="A regular expression.")
    match: Literal["anywhere", "whole"] = Field(default="anywhere", description="What of the answer has to match.")
    case_sensitive: bool = Field(default=True, description="Whether upper and lower case are different.")
    negated: bool = Field(default=False, description="Score 1 where it does not match instead.")

    @property
    def requires(self) -> frozenset[str]:
        """The answer."""
        return frozenset({"actual_output"})

    async def evaluate(self, case: Turn, judge: Judge) -> Score:  # noqa: ARG002 - it asks nobody
        """See `Evaluator.evaluate`."""
        pattern = re.compile(self.pattern, 0 if self.case_sensitive else re.IGNORECASE)  # kept by the module
        text = (case.actual_output or "")[:LONGEST]
        matches = (pattern.fullmatch(text.strip()) if self.match == "whole" else pattern.search(text)) is not None
        return Score(value=float(matches != self.negated), explanation="matches" if matches else "does not match")
