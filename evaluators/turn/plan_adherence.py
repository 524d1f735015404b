"""Whether an agent followed its plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from evaluators.agents.plans import PLAN_TOOLS, find_plan
from evaluators.cases import Json, Turn
from evaluators.errors import NotApplicable
from evaluators.evaluator import ADDED_LATER, Example
from evaluators.mechanisms.call_verdicts import CallVerdicts, CallVerdictSpec
from evaluators.mechanisms.item_verdicts import RatioSpec
from evaluators.mechanisms.rating import NonBlank
from evaluators.skip_reasons import SkipReason


class PlanAdherence(CallVerdicts):
    """The share of the steps of a plan that an agent followed.

    The plan is configured: how such a task should be done. Without one it is the agent's own: the steps that it wrote
    down by a tool for plans or to-do lists, all that it ever had on it; a turn without such a call is skipped
    (`missing_field: plan`). The judge gives each step a verdict by the tool calls and the answer; those it cannot
    decide on count as not followed.
    """

    kind: ClassVar[str] = "plan_adherence"
    spec: ClassVar[CallVerdictSpec] = CallVerdictSpec(
        "plan_adherence_verdicts.txt",
        RatioSpec(counting_verdicts=frozenset({"yes"}), empty_score=1.0, noun="steps", predicate="were followed"),
        ("input", "tools_called", "actual_output"),
    )
    prompts: ClassVar[tuple[str, ...]] = spec.prompts
    example: ClassVar[Example] = {"plan": ["Look the order up.", "Check the refund policy.", "Answer."]}

    plan: tuple[NonBlank, ...] = Field(default=(), max_length=50)
    """The steps, in order; those that the agent wrote down, if left out."""
    plan_tools: Annotated[tuple[NonBlank, ...], ADDED_LATER] = PLAN_TOOLS
    """Names of the tools by which the agent writes its plan down."""

    @property
    def requires(self) -> frozenset[str]:
        """The request and the answer."""
        return frozenset({"input", "actual_output"})

    def items(self, case: Turn) -> Sequence[Json]:
        """Every step of the plan."""
        steps = self.plan or find_plan(case.tools_called, self.plan_tools)
        if not steps:
            raise NotApplicable(SkipReason.MISSING_FIELD.text("plan"))
        return list(steps)
