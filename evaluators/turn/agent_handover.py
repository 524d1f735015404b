"""Whether agents hand over to each other rightly."""

import re
from collections.abc import Sequence
from typing import ClassVar

from evaluators.cases import Json, Turn
from evaluators.mechanisms.item_verdicts import YES_OR_UNCLEAR, CallVerdicts, CallVerdictSpec, RatioSpec, call_item
from evaluators.mechanisms.rating import NonBlank

_HANDOVER = re.compile(
    r"(?:transfer|hand_?off|hand_?over|delegate|route|escalate)(?:_\w{1,100})?_?to_?\w{0,100}\Z"
    r"|(?:transfer|hand_?off|hand_?over|delegate)(?:_work|_task)?\Z"
    r"|(?:delegate work to|ask question to) (?:co-?worker|teammate)\Z|(?:delegate_work_to|ask_question_to)_coworker\Z",
    re.IGNORECASE,
)


class AgentHandover(CallVerdicts):
    """The share of right hand-overs between agents: to the right agent, at the right point, with all it needs.

    A hand-over is a call that passes a request on, such as `transfer_to_billing`, `handoff_to_agent` or
    `delegate_work_to_coworker`, or a call of a tool in `tools`. The judge gives each hand-over a verdict, and sees the
    offered tools if the trace has them. An undecided hand-over counts as right. A turn without hand-overs gets 1.
    """

    kind: ClassVar[str] = "agent_handover"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"input"})
    spec: ClassVar[CallVerdictSpec] = CallVerdictSpec(
        "agent_handover_verdicts.txt",
        RatioSpec(counting_verdicts=YES_OR_UNCLEAR, noun="hand-overs", predicate="are right"),
        ("input", "history", "system_prompt", "tools_offered", "tools_called", "actual_output"),
    )

    tools: tuple[NonBlank, ...] = ()
    """Names of further tools by which agents hand over, such as those named after agents."""

    def items(self, case: Turn) -> Sequence[Json]:
        """Every call that hands over."""
        calls = enumerate(case.tools_called, start=1)
        handovers = ((number, call) for number, call in calls if call.name in self.tools or _HANDOVER.match(call.name))
        return [dict(call_item(number, call)) for number, call in handovers]
