"""Whether the application did what the user wanted."""

from __future__ import annotations

from typing import ClassVar

from evaluators.inquiry import Inquiry, TurnRatio
from evaluators.verdicts import Share


class TaskCompletion(TurnRatio):
    """The share of the user's wishes that the answer and the tools met.

    The judge lists the wishes from the input and its history, then gives each a verdict; those it cannot decide on
    count as unmet. A turn without a wish gets 1.
    """

    kind: ClassVar[str] = "task_completion"
    inquiry: ClassVar[Inquiry] = Inquiry(
        "task_completion",
        share=Share(counts=frozenset({"yes"}), without_items=1.0, noun="wishes", holds="were met"),
        apart=("input", "history"),
        beside=("input", "actual_output", "tools_called"),
    )
    prompts: ClassVar[tuple[str, ...]] = inquiry.prompts

    @property
    def requires(self) -> frozenset[str]:
        """The request and the answer; not every turn has a history or tools."""
        return frozenset({"actual_output", "input"})
