"""Whether the arguments of an agent's tool calls come from what it was told."""

from typing import ClassVar

from evaluators.mechanisms.item_verdicts import YES_OR_UNCLEAR, CallVerdicts, CallVerdictSpec, RatioSpec


class ArgumentGrounding(CallVerdicts):
    """The share of the tool calls whose arguments come from the user, the instructions or earlier results.

    The judge gives each call a verdict; an undecided call counts as grounded. A turn without tool calls gets 1.
    """

    kind: ClassVar[str] = "argument_grounding"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"input"})
    spec: ClassVar[CallVerdictSpec] = CallVerdictSpec(
        "argument_grounding_verdicts.txt",
        RatioSpec(counting_verdicts=YES_OR_UNCLEAR, noun="tool calls", predicate="are grounded"),
        ("input", "history", "system_prompt", "tools_called"),
    )
