"""Whether an answer keeps to the instructions that the application gave its model."""

from typing import ClassVar

from evaluators.asking.reading import ReadingSettings
from evaluators.mechanisms.item_verdicts import YES_OR_UNCLEAR, RatioSpec
from evaluators.mechanisms.turn_ratio import TurnRatio, TurnRatioSpec


class InstructionFollowing(ReadingSettings, TurnRatio):
    """The share of the instructions in the trace's own system prompt that the answer keeps to.

    The judge lists the instructions, then gives each a verdict by what was said and done in the turn. An instruction
    that does not apply or is undecided counts as kept. A system prompt without instructions gets 1; a turn without a
    system prompt is skipped.
    """

    kind: ClassVar[str] = "instruction_following"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"system_prompt", "input", "actual_output"})
    spec: ClassVar[TurnRatioSpec] = TurnRatioSpec(
        "instruction_following",
        ratio=RatioSpec(counting_verdicts=YES_OR_UNCLEAR, noun="instructions", predicate="are kept"),
        extract_from=("system_prompt",),
        companion_fields=("history", "input", "tools_called", "actual_output"),
    )
