"""Whether the retrieved passages are enough to answer from."""

from typing import ClassVar

from evaluators.asking.judge_input import find_sources
from evaluators.cases import Turn
from evaluators.judge import Judge
from evaluators.mechanisms.item_verdicts import RatioSpec
from evaluators.mechanisms.turn_ratio import TurnRatio, TurnRatioSpec
from evaluators.results import Score


class RetrievalSufficiency(TurnRatio):
    """The share of the needed information that was retrieved.

    The judge sees the input and the messages before it, and lists the pieces of information that the input asks for.
    Each piece gets a verdict by the passages and the results of tools; an undecided piece counts as missing. A turn
    without passages and results is skipped (`missing_field: retrieval_context`); an input that needs nothing looked up
    gets 1. The score says nothing about the answer.
    """

    kind: ClassVar[str] = "retrieval_sufficiency"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"input"})
    spec: ClassVar[TurnRatioSpec] = TurnRatioSpec(
        "retrieval_sufficiency",
        ratio=RatioSpec(noun="pieces of information", predicate="were retrieved"),
        extract_from=("input",),
        extract_beside=("history",),
    )

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        return await self.spec.score(case, judge, self, sources=find_sources(case))
