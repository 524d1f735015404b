"""Whether an agent chose the right ones of the offered tools."""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

from evaluators.cases import Json, Turn
from evaluators.evaluator import ADDED_LATER
from evaluators.mechanisms.item_verdicts import YES_OR_UNCLEAR, CallVerdicts, CallVerdictSpec, RatioSpec

NOTHING_LEFT_OUT = "no tool that was offered and needed was left out"


class ToolSelection(CallVerdicts):
    """The share of right choices among the offered tools: one per call, and one for leaving no needed tool out.

    The judge sees the tools that the model was offered, by the trace. It gives each call a verdict, and says whether a
    needed tool was never called; an undecided choice counts as right. A turn whose trace has no offered tools is
    skipped.
    """

    kind: ClassVar[str] = "tool_selection"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"input", "tools_offered"})
    spec: ClassVar[CallVerdictSpec] = CallVerdictSpec(
        "tool_selection_verdicts.txt",
        RatioSpec(counting_verdicts=YES_OR_UNCLEAR, noun="choices of tools", predicate="are right"),
        ("input", "history", "system_prompt", "tools_offered", "tools_called", "actual_output"),
    )

    parameters: Annotated[bool, ADDED_LATER] = False
    """Whether the judge sees what arguments each tool takes, where the trace tells."""

    def companions(self, case: Turn) -> Mapping[str, Json]:
        """The arguments that the tools take, if they are to be shown."""
        schemas = {tool.name: tool.parameters for tool in case.tools_offered if tool.parameters is not None}
        return {"parameters": schemas} if self.parameters and schemas else {}

    def items(self, case: Turn) -> Sequence[Json]:
        """Every call, and the statement that no needed tool was left out."""
        return [*super().items(case), {"item": NOTHING_LEFT_OUT}]
