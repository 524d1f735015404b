"""Context recall: did the search bring up what the expected answer rests on?"""

from typing import ClassVar

from evaluators.cases import Turn
from evaluators.judge import Judge
from evaluators.mechanisms.item_verdicts import RatioSpec
from evaluators.mechanisms.turn_ratio import TurnRatio, TurnRatioSpec
from evaluators.results import Score


class ContextRecall(TurnRatio):
    """The share of the expected output's claims that the retrieved passages support.

    The judge lists the claims of the expected output, then gives each a verdict by the passages; an undecided claim
    counts as missing. For the order of the passages use `retrieval_ranking`, without a reference
    `retrieval_sufficiency`.
    """

    kind: ClassVar[str] = "context_recall"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"expected_output", "retrieval_context"})
    spec: ClassVar[TurnRatioSpec] = TurnRatioSpec(
        "context_recall",
        ratio=RatioSpec(noun="claims", predicate="are in the passages"),
        extract_from=("expected_output",),
        extract_beside=("input",),
    )

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        return await self.spec.score(case, judge, self, sources={"retrieval_context": case.retrieval_context})
