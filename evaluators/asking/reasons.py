"""Where a judge writes its reason: before what it is the reason for, after it, or not at all; and in which language.

A reason first is what most judges are asked for. Published measurements find that it makes token probabilities of the
score nearly certain (arXiv 2503.03064): the score
then is the conclusion of a text. Which is better for a judge and a question is measured, not known: see `calibrate`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from evaluators.evaluator import ADDED_LATER
from evaluators.scale import ReasonPlace


class ReasonSettings(BaseModel):
    """How the judge gives its reason."""

    reason: Annotated[ReasonPlace, ADDED_LATER] = Field(
        default="before", description="Where the judge writes its reason: before the result, after it, or not at all."
    )
    reason_language: Annotated[str | None, ADDED_LATER] = Field(
        default=None,
        pattern=r"^[A-Za-z][A-Za-z -]{1,40}$",
        description="The language of the reason, like German; the judge's choice if left out.",
    )

    @property
    def language_sentence(self) -> str:
        """What the judge reads about the reason's language; "" for nothing."""
        if self.reason_language is None or self.reason == "none":
            return ""
        return f"Write the reason in {self.reason_language}, whatever language the case is in."

    def template(self, name: str) -> str:
        """The name of the template that asks for the reason in its place."""
        return {"before": f"{name}.txt", "after": f"{name}_after.txt", "none": f"{name}_alone.txt"}[self.reason]
