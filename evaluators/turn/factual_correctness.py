"""Factual correctness: the claims of an answer compared with its reference's."""

import math
from typing import ClassVar, Literal

from evaluators.cases import Turn
from evaluators.judge import Judge
from evaluators.mechanisms.item_verdicts import RatioSpec
from evaluators.mechanisms.turn_ratio import TurnRatioSpec, TwoRatios
from evaluators.results import Score


def _claims_in(name: str, source: str, other: str, predicate: str) -> TurnRatioSpec:
    ratio = RatioSpec(noun="claims", predicate=predicate)
    return TurnRatioSpec(
        name, ratio=ratio, extract_from=(source,), extract_beside=("input",), companion_fields=(other,)
    )


class FactualCorrectness(TwoRatios):
    """The agreement of the answer's claims with those of the expected output: precision, recall, or F1 of both.

    Precision is the share of the answer's claims that the reference supports. Recall is the share of the reference's
    claims that the answer makes. F1 = 2 * precision * recall / (precision + recall). Undecided claims do not count.
    """

    kind: ClassVar[str] = "factual_correctness"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"actual_output", "expected_output"})
    first: ClassVar[TurnRatioSpec] = _claims_in(
        "claim_precision", "actual_output", "expected_output", "are in the reference"
    )
    second: ClassVar[TurnRatioSpec] = _claims_in(
        "claim_recall", "expected_output", "actual_output", "are in the answer"
    )
    prompts: ClassVar[tuple[str, ...]] = tuple(dict.fromkeys((*first.prompts, *second.prompts)))

    measure_by: Literal["f1", "precision", "recall"] = "f1"
    """The share that is the score."""

    @property
    def rounds(self) -> int:
        """See `TwoRatios.rounds`; two for one share."""
        return 4 if self.measure_by == "f1" else 2

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        shares: dict[str, Score] = {}
        if self.measure_by != "recall":
            shares["precision"] = await self.first.score(case, judge, self)
        if self.measure_by != "precision":
            shares["recall"] = await self.second.score(case, judge, self)
        values = [share.value for share in shares.values()]
        value = 2 * math.prod(values) / sum(values) if len(values) > 1 and any(values) else values[0]
        return self.combine(value, shares)
