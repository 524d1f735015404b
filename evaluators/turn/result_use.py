"""The agent's use of the results of its tools."""

from collections.abc import Sequence
from typing import ClassVar

from evaluators.cases import Json, Turn
from evaluators.mechanisms.item_verdicts import YES_OR_UNCLEAR, CallVerdicts, CallVerdictSpec, RatioSpec, call_item


class ResultUse(CallVerdicts):
    """The share of the tools' results that the agent made right use of.

    The judge gives each call with a result or an error a verdict; an undecided call counts as right. A turn without
    such calls gets 1.
    """

    kind: ClassVar[str] = "result_use"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"input", "actual_output"})
    spec: ClassVar[CallVerdictSpec] = CallVerdictSpec(
        "result_use_verdicts.txt",
        RatioSpec(counting_verdicts=YES_OR_UNCLEAR, noun="results", predicate="are used rightly"),
        ("input", "tools_called", "actual_output"),
    )

    def items(self, case: Turn) -> Sequence[Json]:
        """Every call with a result or an error."""
        calls = enumerate(case.tools_called, start=1)
        return [dict(call_item(number, call)) for number, call in calls if call.error or call.result not in (None, "")]
