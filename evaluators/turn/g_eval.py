"""G-Eval: a judge scores an answer by criteria in everyday language."""

from typing import ClassVar

from evaluators.asking.judge_input import ProgramField, TurnField, build_judge_input
from evaluators.asking.reading import ReadingSettings
from evaluators.cases import Turn
from evaluators.evaluator import Evaluator, Example
from evaluators.judge import Judge
from evaluators.mechanisms.rating import G_EVAL_PROMPTS, GEvalDefinition, UniqueNames
from evaluators.results import Score


class GEval(ReadingSettings, GEvalDefinition, Evaluator[Turn]):
    """How well a turn meets criteria in everyday language.

    The judge turns the criteria into steps once; several processes use the first answer in the log. Then each turn gets
    a whole number on the scale, and a reason. If the judge gives token probabilities, the score is the mean of the
    scale's numbers, weighted by them. After "G-Eval" (Liu et al. 2023).
    """

    kind: ClassVar[str] = "g_eval"
    prompts: ClassVar[tuple[str, ...]] = G_EVAL_PROMPTS
    example: ClassVar[Example] = {
        "criteria": "The answer is correct and complete.",
        "evaluation_params": ["input", "actual_output"],
    }

    evaluation_params: UniqueNames[TurnField | ProgramField]
    """The turn's fields that the judge is shown, and that the turn must have."""

    @property
    def requires(self) -> frozenset[str]:
        """The fields of `evaluation_params`; a preset about images also needs `attachments`."""
        pictures = {"attachments"} if (self.preset or "").startswith("image_") else set[str]()
        return frozenset(self.evaluation_params) | pictures

    @property
    def lowest_if_trivial(self) -> str | None:
        """A shown answer without words scores worst."""
        return "actual_output" if "actual_output" in self.evaluation_params else None

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        material = build_judge_input(case, self.evaluation_params, self.longest_text)
        return await self.rate_by_steps(judge, self.evaluation_params, material)
