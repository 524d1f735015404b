"""Whether an agent followed its plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from evaluators.call_verdicts import CallVerdicts, CallVerdictSpec
from evaluators.cases import Json, Turn
from evaluators.evaluator import Example
from evaluators.item_verdicts import RatioSpec
from evaluators.rating import NonBlank


class PlanAdherence(CallVerdicts):
    """The share of the steps of a plan that an agent followed.

    The plan is configured: how such a task should be done. The judge gives each step a verdict by the tool calls and
    the answer; those it cannot decide on count as not followed.
    """

    kind: ClassVar[str] = "plan_adherence"
    spec: ClassVar[CallVerdictSpec] = CallVerdictSpec(
        "plan_adherence_verdicts.txt",
        RatioSpec(counting_verdicts=frozenset({"yes"}), empty_score=1.0, noun="steps", predicate="were followed"),
        ("input", "tools_called", "actual_output"),
    )
    prompts: ClassVar[tuple[str, ...]] = spec.prompts
    example: ClassVar[Example] = {"plan": ["Look the order up.", "Check the refund policy.", "Answer."]}

    plan: tuple[NonBlank, ...] = Field(min_length=1, max_length=50, description="The steps, in order.")

    @property
    def requires(self) -> frozenset[str]:
        """The request and the answer."""
        return frozenset({"input", "actual_output"})

    def items(self, case: Turn) -> Sequence[Json]:  # noqa: ARG002 - the plan is the same for every case
        """Every step of the plan."""
        return list(self.plan)
