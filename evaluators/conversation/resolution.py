"""How a conversation ended for its user."""

from collections.abc import Mapping
from typing import ClassVar

from evaluators.mechanisms.classification import EndOfConversation, LabelDefinition, ready_labels


class Resolution(EndOfConversation):
    """How a conversation ended: `resolved` (1), `handed over` to a person (0.5), `unresolved` (0), `abandoned` (0).

    The judge chooses by the whole conversation, with the calls of tools in view. Token probabilities weight the labels'
    scores.
    """

    kind: ClassVar[str] = "resolution"
    visible_fields: ClassVar[tuple[str, ...]] = ("input", "actual_output", "tools_called", "error")
    prompts: ClassVar[tuple[str, ...]] = ("resolution.txt", "classifier_form.txt")
    ready: ClassVar[Mapping[str, LabelDefinition]] = ready_labels(
        "resolution.txt", {"resolved": 1, "handed over": 0.5, "unresolved": 0, "abandoned": 0}
    )
