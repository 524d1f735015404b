"""Whether the user was content with the application."""

from collections.abc import Mapping
from typing import ClassVar

from evaluators.asking.reading import ReadingSettings
from evaluators.asking.transcript import TranscriptSettings, build_conversation_input
from evaluators.cases import Conversation
from evaluators.judge import Judge
from evaluators.mechanisms.classification import Classification, LabelDefinition, ready_labels
from evaluators.results import Score


class Satisfaction(ReadingSettings, TranscriptSettings, Classification[Conversation]):
    """Whether the user was content by the end: `satisfied` (1), `neutral` (0.5) or `dissatisfied` (0).

    By what the user says and does, such as thanks, praise and confirmed success, or complaint, repetition and leaving,
    and not by how good the answers are. With token probabilities the score is their mean. A conversation beyond the
    token budget is shown without its middle. `frustration` looks at each message instead.
    """

    kind: ClassVar[str] = "satisfaction"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"turns.input", "turns.actual_output"})
    scope: ClassVar = "conversation"
    prompts: ClassVar[tuple[str, ...]] = ("satisfaction.txt", "classifier_form.txt")
    ready: ClassVar[Mapping[str, LabelDefinition]] = ready_labels(
        "satisfaction.txt", {"satisfied": 1, "neutral": 0.5, "dissatisfied": 0}, failing=["dissatisfied"]
    )

    async def evaluate(self, case: Conversation, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        material = build_conversation_input(case, ("input", "actual_output", "error"), self)
        return await self.classify_ready(judge, material)
