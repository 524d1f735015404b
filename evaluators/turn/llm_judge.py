"""A judge's comparison of the answer with the expected one."""

from typing import ClassVar

from evaluators.asking.judge_input import ComparesOutputs, ComparisonPrompt, OutputCriteria, actual_part, shorten_all
from evaluators.cases import Json, Turn
from evaluators.evaluator import Evaluator
from evaluators.judge import Judge
from evaluators.mechanisms.rating import RATING_PROMPTS, Rating
from evaluators.prompts import fill, load
from evaluators.results import Score
from evaluators.scale import Scale
from evaluators.texts.paths import ABSENT

_PLACEHOLDERS = {"ActualOutput": "`actual_output`", "ExpectedOutput": "`expected_output`"}


class LLMJudge(ComparesOutputs, Rating, Evaluator[Turn]):
    """How close in meaning the answer is to the expected output, from 0 to 100 by a judge.

    A prompt of one's own says what counts instead of the meaning; it has to name both {{ActualOutput}} and
    {{ExpectedOutput}}. An answer without the part that `target_output_key` names gets 0, unasked. To judge by a
    description of a good answer, use `g_eval` or `prompt`.
    """

    revision: ClassVar[int] = 2
    kind: ClassVar[str] = "llm_judge"
    prompts: ClassVar[tuple[str, ...]] = ("llm_judge.txt", "llm_judge_frame.txt", *RATING_PROMPTS)
    default_scale: ClassVar[Scale] = Scale(0, 100)
    trivial_without: ClassVar[str | None] = "actual_output"

    prompt: ComparisonPrompt = None
    """Instructions for the judge; the kind's own prompt if left out."""
    default_evaluation_criteria: OutputCriteria | None = None
    """The expected output where a turn brings no reference."""

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        target, score_range = self.target_output_key, self.score_range
        expected, actual = self.reference(case), actual_part(case, target)
        if actual is ABSENT:
            where = target if isinstance(target, str) else ", ".join(target)
            return Score(value=0.0, raw_score=score_range[0], range=score_range, explanation=f"no part {where}")
        prompt = fill(self.prompt or load("llm_judge.txt"), _PLACEHOLDERS)
        instructions = fill(load("llm_judge_frame.txt"), {"prompt": prompt.strip(), "rating": self.form})
        content: dict[str, Json] = {"expected_output": expected, "actual_output": actual}
        return await self.rate(judge, instructions, shorten_all(content, self.longest_text))
