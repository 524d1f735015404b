"""Step efficiency: did an agent need the calls that it made?"""

from typing import ClassVar

from evaluators.mechanisms.item_verdicts import YES_OR_UNCLEAR, CallVerdicts, CallVerdictSpec, RatioSpec


class StepEfficiency(CallVerdicts):
    """The share of the tool calls that the agent needed for what it was asked.

    The judge gives each call a verdict, with all calls, their results and the answer in view; an undecided call counts
    as needed. A turn without calls gets 1. Calls that only repeat others are counted without a judge by
    `repeated_calls`.
    """

    kind: ClassVar[str] = "step_efficiency"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"input"})
    spec: ClassVar[CallVerdictSpec] = CallVerdictSpec(
        "step_efficiency_verdicts.txt",
        RatioSpec(counting_verdicts=YES_OR_UNCLEAR, noun="calls", predicate="were needed"),
        ("input", "history", "tools_called", "actual_output"),
    )
