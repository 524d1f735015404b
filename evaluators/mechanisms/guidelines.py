"""Guidelines: rules in everyday language, each of which a judge gives a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from evaluators.asking.judge_input import JudgeInput
from evaluators.judge import Judge
from evaluators.mechanisms.g_eval_definition import describe_fields
from evaluators.mechanisms.item_verdicts import VERDICT_PROMPTS, ItemWindow, RatioSpec, score_ratio
from evaluators.results import Score

GUIDELINE_PROMPTS = ("guidelines_verdicts.txt", *VERDICT_PROMPTS)

_RATIO = RatioSpec(
    counting_verdicts=frozenset({"yes", "unclear"}), empty_score=1.0, noun="guidelines", predicate="are kept"
)


async def score_guidelines(
    judge: Judge, guidelines: Sequence[str], fields: Sequence[str], material: JudgeInput
) -> Score:
    """The share of the guidelines that a case keeps to; those that the judge cannot decide on count as kept."""
    window = ItemWindow(items=list(guidelines), materials=(material.content,), truncated=material.truncated)
    values = {"fields": describe_fields(fields)}
    return await score_ratio(judge, _RATIO, "guidelines_verdicts.txt", [window], values)
