"""Faithfulness of an answer to what it was made from: retrieved passages, and results of tools."""

from dataclasses import replace
from typing import ClassVar

from evaluators.answers.trivial_answer import is_trivial_answer, worst_score
from evaluators.asking.judge_input import find_sources
from evaluators.cases import Turn
from evaluators.judge import Judge
from evaluators.mechanisms.item_verdicts import YES_OR_UNCLEAR, RatioSpec
from evaluators.mechanisms.turn_ratio import TurnRatio, TurnRatioSpec
from evaluators.results import Score


class Faithfulness(TurnRatio):
    """The share of the answer's claims that its sources do not contradict.

    The sources are the retrieved passages and the results of the application's tools; a turn with neither is skipped
    (`missing_field: retrieval_context`). The judge lists the claims of the answer, with the question in view, then
    gives each a verdict. An answer without claims gets 1. Sources that are too long for one question are shown in
    parts: a claim that one part supports is supported.
    """

    kind: ClassVar[str] = "faithfulness"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"actual_output"})
    spec: ClassVar[TurnRatioSpec] = TurnRatioSpec(
        "faithfulness",
        ratio=RatioSpec(counting_verdicts=YES_OR_UNCLEAR, noun="claims", predicate="keep to the sources"),
        extract_from=("actual_output",),
        extract_beside=("input",),
    )

    penalize_unclear: bool = False
    """Whether claims beyond the sources count as unfaithful."""

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        sources = find_sources(case)
        if is_trivial_answer(case.actual_output or ""):
            return worst_score("actual_output", self.score_range, higher_is_better=True)
        ratio = self.spec.ratio
        if self.penalize_unclear:
            ratio = replace(ratio, counting_verdicts=frozenset({"yes"}))
        return await self.spec.score(case, judge, self, ratio, sources)
