"""A judge's rating of a whole conversation by a prompt of the user's own, or by guidelines."""

from typing import ClassVar

from evaluators.asking.judge_input import TURN_FIELDS
from evaluators.asking.reading import ReadingSettings
from evaluators.asking.transcript import OF_THE_WHOLE, TranscriptSettings, build_conversation_input, required_fields
from evaluators.cases import Conversation
from evaluators.evaluator import Evaluator, Example
from evaluators.judge import Judge
from evaluators.mechanisms.rating import PROMPT_PROMPTS, PromptDefinition
from evaluators.results import Score


class ConversationalPrompt(ReadingSettings, PromptDefinition, TranscriptSettings, Evaluator[Conversation]):
    """How the judge rates a whole conversation by a prompt out of the configuration.

    Like `prompt`, with all turns in one question. A field of a turn is shown with each turn; `scenario`,
    `expected_outcome` and `chatbot_role` are shown once. In a configuration, you may write `kind: prompt` with
    `scope: conversation` instead.
    """

    kind: ClassVar[str] = "conversational_prompt"
    scope: ClassVar = "conversation"
    prompts: ClassVar[tuple[str, ...]] = PROMPT_PROMPTS
    known_fields: ClassVar[tuple[str, ...]] = (*TURN_FIELDS, *OF_THE_WHOLE)
    example: ClassVar[Example] = {"guidelines": ["Prices are never guessed.", "The user is not asked twice."]}

    @property
    def requires(self) -> frozenset[str]:
        """The fields that the prompt names; one of a turn is there if any turn has it."""
        return required_fields(tuple(self.named_fields))

    async def evaluate(self, case: Conversation, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        return await self.score_material(judge, build_conversation_input(case, self.ordered_fields, self))
