"""Whether the search found what the question needs."""

from __future__ import annotations

from typing import ClassVar

from evaluators.inquiry import Inquiry, TurnRatio
from evaluators.verdicts import Share


class ContextualRelevancy(TurnRatio):
    """The share of the retrieved passages that help to answer the input.

    The judge gives each passage a verdict. Says something about the retrieval, nothing about the answer.
    """

    kind: ClassVar[str] = "contextual_relevancy"
    inquiry: ClassVar[Inquiry] = Inquiry(
        "contextual_relevancy",
        share=Share(counts=frozenset({"yes"}), without_items=0.0, noun="passages", holds="help to answer"),
        listed="retrieval_context",
        beside=("input",),
    )
    prompts: ClassVar[tuple[str, ...]] = inquiry.prompts
