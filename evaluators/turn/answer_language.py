"""Whether the answer is in the language of the question."""

from typing import ClassVar

from pydantic import Field

from evaluators.cases import Turn
from evaluators.errors import NotApplicable
from evaluators.evaluator import CodeEvaluator
from evaluators.judge import Judge
from evaluators.results import Score, SkipReason
from evaluators.texts.language import language_of


class AnswerLanguage(CodeEvaluator[Turn]):
    """1 if the answer is in the language of the question, or in the configured `language`; else 0.

    Languages are recognized by script and by frequent words, in the first 2,000 characters and without code. If a text
    has too few of these, the turn is skipped (`unclear_language`).
    """

    kind: ClassVar[str] = "answer_language"

    language: str | None = Field(default=None, pattern=r"^[a-z]{2}$")
    """The ISO 639-1 code of all answers; the question's if left out."""

    @property
    def requires(self) -> frozenset[str]:
        """The answer, and the question unless a language is configured."""
        return frozenset({"actual_output"} if self.language else {"input", "actual_output"})

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        wanted = self.language or language_of(case.input or "")
        if wanted is None:
            raise NotApplicable(SkipReason.UNCLEAR_LANGUAGE.text("input"))
        actual = language_of(case.actual_output or "")
        if actual is None:
            raise NotApplicable(SkipReason.UNCLEAR_LANGUAGE.text("actual_output"))
        return Score(
            value=float(actual == wanted),
            explanation=f"the answer is in {actual}, {wanted} is wanted",
            details={"wanted": wanted, "actual": actual},
        )
