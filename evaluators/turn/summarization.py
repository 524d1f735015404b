"""Summarization: does a summary say what matters of its source, and nothing else?"""

from typing import ClassVar

from evaluators.asking.judge_input import split_text
from evaluators.cases import Turn
from evaluators.judge import Judge
from evaluators.mechanisms.item_verdicts import RatioSpec
from evaluators.mechanisms.turn_ratio import TurnRatioSpec, TwoRatios
from evaluators.results import Score


class Summarization(TwoRatios):
    """The lower of two shares: of statements that the source supports, and of the source's key facts in the summary.

    The summary is the answer, its source the input. The judge lists the statements of the summary, and gives each a
    verdict by the source. Then it lists the key facts of the source, and gives each a verdict by the summary. Undecided
    items do not count.
    """

    kind: ClassVar[str] = "summarization"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"input", "actual_output"})
    first: ClassVar[TurnRatioSpec] = TurnRatioSpec(
        "summary_alignment",
        ratio=RatioSpec(noun="statements", predicate="are in the source"),
        extract_from=("actual_output",),
    )
    second: ClassVar[TurnRatioSpec] = TurnRatioSpec(
        "summary_coverage",
        ratio=RatioSpec(noun="key facts", predicate="are in the summary"),
        extract_from=("input",),
        companion_fields=("actual_output",),
    )
    prompts: ClassVar[tuple[str, ...]] = tuple(dict.fromkeys((*first.prompts, *second.prompts)))

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        source = {"input": split_text(case.input or "", self.longest_text)}
        alignment = await self.first.score(case, judge, self, sources=source)
        coverage = await self.second.score(case, judge, self)
        return self.combine(min(alignment.value, coverage.value), {"alignment": alignment, "coverage": coverage})
