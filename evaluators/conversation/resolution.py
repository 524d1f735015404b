"""How a conversation ended for its user."""

from collections.abc import Mapping
from typing import ClassVar

from evaluators.asking.reading import ReadingSettings
from evaluators.asking.transcript import TranscriptSettings, build_conversation_input
from evaluators.cases import Conversation
from evaluators.judge import Judge
from evaluators.mechanisms.classification import Classification, LabelDefinition, ready_labels
from evaluators.results import Score


class Resolution(ReadingSettings, TranscriptSettings, Classification[Conversation]):
    """How a conversation ended: `resolved` (1), `handed over` to a person (0.5), `unresolved` (0), `abandoned` (0).

    The judge chooses by the whole conversation, with the calls of tools in view. With token probabilities the score is
    their mean. The shares of the labels are in the metrics, and can alert. A conversation beyond the token budget is
    shown without its middle.
    """

    kind: ClassVar[str] = "resolution"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"turns.input", "turns.actual_output"})
    scope: ClassVar = "conversation"
    prompts: ClassVar[tuple[str, ...]] = ("resolution.txt", "classifier_form.txt")
    ready: ClassVar[Mapping[str, LabelDefinition]] = ready_labels(
        "resolution.txt",
        {"resolved": 1, "handed over": 0.5, "unresolved": 0, "abandoned": 0},
        failing=["unresolved", "abandoned"],
    )

    async def evaluate(self, case: Conversation, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        material = build_conversation_input(case, ("input", "actual_output", "tools_called", "error"), self)
        return await self.classify_ready(judge, material)
