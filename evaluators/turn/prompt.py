"""A judge's rating of a turn by a prompt of the user's own, or by guidelines."""

from typing import ClassVar

from evaluators.asking.judge_input import TURN_FIELDS, build_judge_input
from evaluators.asking.reading import ReadingSettings
from evaluators.cases import Turn
from evaluators.evaluator import Evaluator, Example
from evaluators.judge import Judge
from evaluators.mechanisms.rating import PROMPT_PROMPTS, PromptDefinition
from evaluators.results import Score


class PromptEvaluator(ReadingSettings, PromptDefinition, Evaluator[Turn]):
    """How the judge rates a turn by a prompt out of the configuration.

    `{{input}}`, `{{actual_output}}` and the like in the prompt say which fields the judge is shown, `{{inputs.text}}`
    and `{{outputs.summary}}` those of a structured program. The texts themselves are not put there: the judge gets them
    apart, as data. The scale and the form of the answer are added to the prompt.
    """

    kind: ClassVar[str] = "prompt"
    prompts: ClassVar[tuple[str, ...]] = PROMPT_PROMPTS
    known_fields: ClassVar[tuple[str, ...]] = TURN_FIELDS
    of_turns: ClassVar[bool] = True
    example: ClassVar[Example] = {"prompt": "Is {{actual_output}} polite, given what the user said in {{input}}?"}

    @property
    def requires(self) -> frozenset[str]:
        """The fields that the prompt names."""
        return self.named_fields

    @property
    def lowest_if_trivial(self) -> str | None:
        """The answer, if the prompt names it; guidelines may be kept by an answer without a word."""
        return "actual_output" if self.prompt is not None and "actual_output" in self.requires else None

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        return await self.score_material(judge, build_judge_input(case, self.ordered_fields, self.longest_text))
