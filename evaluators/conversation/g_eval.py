"""G-Eval over a whole conversation."""

from typing import ClassVar

from evaluators.asking.reading import ReadingSettings
from evaluators.asking.transcript import build_conversation_input
from evaluators.cases import Conversation
from evaluators.evaluator import Evaluator, Example
from evaluators.judge import Judge
from evaluators.mechanisms.rating import G_EVAL_PROMPTS, GEvalDefinition
from evaluators.mechanisms.transcript_fields import TranscriptFields
from evaluators.results import Score


class ConversationalGEval(ReadingSettings, GEvalDefinition, TranscriptFields, Evaluator[Conversation]):
    """How well a whole conversation meets criteria in everyday language.

    Like `g_eval`, with all turns in one question. A field of a turn is shown with each turn; `scenario`,
    `expected_outcome` and `chatbot_role` are shown once. If the middle is left out, `details.truncated` is set.
    """

    kind: ClassVar[str] = "conversational_g_eval"
    scope: ClassVar = "conversation"
    prompts: ClassVar[tuple[str, ...]] = G_EVAL_PROMPTS
    example: ClassVar[Example] = {"criteria": "The assistant stays polite, and gets the user to what they came for."}

    async def evaluate(self, case: Conversation, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        material = build_conversation_input(case, self.evaluation_params, self)
        return await self.rate_by_steps(judge, self.evaluation_params, material)
