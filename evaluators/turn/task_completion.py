"""Task completion: did the application do what the user wanted?"""

from typing import ClassVar

from evaluators.asking.reading import ReadingSettings
from evaluators.mechanisms.item_verdicts import RatioSpec
from evaluators.mechanisms.turn_ratio import TurnRatio, TurnRatioSpec


class TaskCompletion(ReadingSettings, TurnRatio):
    """The share of the user's wishes that the answer and the tools met.

    The judge lists the wishes from the input and its history, then gives each a verdict; an undecided wish counts as
    unmet. A turn without a wish gets 1.
    """

    kind: ClassVar[str] = "task_completion"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"actual_output", "input"})
    spec: ClassVar[TurnRatioSpec] = TurnRatioSpec(
        "task_completion",
        ratio=RatioSpec(noun="wishes", predicate="were met"),
        extract_from=("input", "history"),
        companion_fields=("input", "actual_output", "tools_called"),
    )
