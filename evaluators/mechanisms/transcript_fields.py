"""The fields of a conversation that evaluators with your own wording show their judge."""

from evaluators.asking.judge_input import TurnField
from evaluators.asking.transcript import ConversationField, TranscriptSettings, required_fields
from evaluators.mechanisms.rating import UniqueNames


class TranscriptFields(TranscriptSettings):
    """The transcript of a conversation, made of chosen fields."""

    evaluation_params: UniqueNames[TurnField | ConversationField] = ("input", "actual_output")
    """The fields that the judge is shown."""

    @property
    def requires(self) -> frozenset[str]:
        """The fields of `evaluation_params`; one of a turn is there if any turn has it."""
        return required_fields(self.evaluation_params)
