"""A judge's comparison of the answer with the expected one."""

from typing import ClassVar

from pydantic import field_validator

from evaluators.asking.judge_input import shorten_all
from evaluators.asking.references import OutputCriteria, TargetKey, actual_part, default_expected, expected_part
from evaluators.cases import Json, Turn
from evaluators.evaluator import Evaluator
from evaluators.judge import Judge
from evaluators.mechanisms.rating import RATING_PROMPTS, Rating
from evaluators.prompts import check_placeholders, fill, load
from evaluators.results import Score
from evaluators.scale import Scale
from evaluators.texts.paths import ABSENT

_PLACEHOLDERS = {"ActualOutput": "`actual_output`", "ExpectedOutput": "`expected_output`"}


class LLMJudge(Rating, Evaluator[Turn]):
    """How close in meaning the answer is to the expected output, from 0 to 100 by a judge.

    A prompt of one's own says what counts instead of the meaning; it has to name both {{ActualOutput}} and
    {{ExpectedOutput}}. An answer without the part that `target_output_key` names gets 0, unasked. A description of a
    good answer is no expected output: for that there are `g_eval` and `prompt`.
    """

    revision: ClassVar[int] = 2
    kind: ClassVar[str] = "llm_judge"
    prompts: ClassVar[tuple[str, ...]] = ("llm_judge.txt", "llm_judge_frame.txt", *RATING_PROMPTS)
    default_scale: ClassVar[Scale] = Scale(0, 100)

    prompt: str | None = None
    """Instructions for the judge; the kind's own prompt if left out."""
    target_output_key: TargetKey = "*"
    default_evaluation_criteria: OutputCriteria | None = None
    """The expected output where a turn brings no reference."""

    @field_validator("prompt")
    @classmethod
    def _has_both_placeholders(cls, prompt: str | None) -> str | None:
        check_placeholders(prompt, required=_PLACEHOLDERS.keys(), known=_PLACEHOLDERS.keys())
        return prompt

    @property
    def calculation(self) -> int:
        """1 for whole answers: they have always had the part that is compared."""
        return 1 if self.target_output_key == "*" else 2

    @property
    def requires(self) -> frozenset[str]:
        """The answer, and a reference unless there is a default."""
        reference = () if self.default_evaluation_criteria else ("expected_output",)
        return frozenset({"actual_output", *reference})

    @property
    def lowest_if_trivial(self) -> str | None:
        """The answer."""
        return "actual_output"

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        expected, actual = self._expected(case), actual_part(case, self.target_output_key)
        if actual is ABSENT:
            where = (
                self.target_output_key if isinstance(self.target_output_key, str) else ", ".join(self.target_output_key)
            )
            return Score(
                value=0.0, raw_score=self.score_range[0], range=self.score_range, explanation=f"no part {where}"
            )
        prompt = fill(self.prompt or load("llm_judge.txt"), _PLACEHOLDERS)
        instructions = fill(load("llm_judge_frame.txt"), {"prompt": prompt.strip(), "rating": self.form})
        content: dict[str, Json] = {"expected_output": expected, "actual_output": actual}
        return await self.rate(judge, instructions, shorten_all(content, self.longest_text))

    def _expected(self, case: Turn) -> Json:
        if case.expected_output:
            return expected_part(case.expected_output, self.target_output_key)
        assert self.default_evaluation_criteria is not None, "a reference is required without a default"
        return default_expected(self.default_evaluation_criteria, self.target_output_key)
