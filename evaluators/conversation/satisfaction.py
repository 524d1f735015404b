"""Whether the user was content with the application."""

from collections.abc import Mapping
from typing import ClassVar

from evaluators.mechanisms.classification import EndOfConversation, LabelDefinition, ready_labels


class Satisfaction(EndOfConversation):
    """Whether the user was content by the end: `satisfied` (1), `neutral` (0.5) or `dissatisfied` (0).

    The judge goes by the user's words and acts (thanks, praise and confirmed success, or complaint, repetition and
    leaving), not by the quality of the answers. Token probabilities weight the labels' scores. `frustration` looks at
    each message instead.
    """

    kind: ClassVar[str] = "satisfaction"
    visible_fields: ClassVar[tuple[str, ...]] = ("input", "actual_output", "error")
    prompts: ClassVar[tuple[str, ...]] = ("satisfaction.txt", "classifier_form.txt")
    ready: ClassVar[Mapping[str, LabelDefinition]] = ready_labels(
        "satisfaction.txt", {"satisfied": 1, "neutral": 0.5, "dissatisfied": 0}
    )
