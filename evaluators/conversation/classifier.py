"""A judge's classification of a whole conversation by labels of the user's own."""

from typing import ClassVar

from evaluators.asking.reading import ReadingSettings
from evaluators.asking.transcript import build_conversation_input
from evaluators.cases import Conversation
from evaluators.evaluator import Example
from evaluators.judge import Judge
from evaluators.mechanisms.classification import Classification, OwnLabels
from evaluators.mechanisms.transcript_fields import TranscriptFields
from evaluators.results import Score


class ConversationalClassifier(ReadingSettings, OwnLabels, TranscriptFields, Classification[Conversation]):
    """Assigns one of your labels to a whole conversation: resolved, abandoned, handed to a person.

    Like `classifier`, with all turns in one question. In a configuration, you may write `kind: classifier` with
    `scope: conversation` instead.
    """

    kind: ClassVar[str] = "conversational_classifier"
    scope: ClassVar = "conversation"
    example: ClassVar[Example] = {
        "question": "How did the conversation end?",
        "labels": {
            "resolved": {"meaning": "The user got what they came for.", "pass": True},
            "abandoned": {"meaning": "The user left without it.", "pass": False},
            "escalated": {"meaning": "A person took over, or the user asked for one.", "score": 0.5, "pass": False},
        },
    }

    async def evaluate(self, case: Conversation, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        instructions = self.instructions(self.question, self.evaluation_params, self.examples)
        return await self.classify(judge, instructions, build_conversation_input(case, self.evaluation_params, self))
