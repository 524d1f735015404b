"""Whether the passages that help come first."""

from collections.abc import Sequence
from itertools import accumulate
from typing import ClassVar

from evaluators.asking.judge_input import build_judge_input, cut, longest_field, size_of
from evaluators.asking.windows import WindowSettings, split
from evaluators.cases import Json, Turn
from evaluators.evaluator import Evaluator
from evaluators.judge import Judge
from evaluators.mechanisms import item_verdicts
from evaluators.results import Score


class RetrievalRanking(item_verdicts.VerdictSettings, WindowSettings, Evaluator[Turn]):
    """The average precision of the retrieved passages: 1 if all helpful passages stand before all others.

    The judge gives each passage a verdict, like `contextual_relevancy`. At each helpful passage, precision is the share
    of helpful passages up to there. The score is the mean of these precisions, 0 if no passage helps. Of more than
    `max_windows` windows, only the first are judged.
    """

    kind: ClassVar[str] = "retrieval_ranking"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"input", "retrieval_context"})
    prompts: ClassVar[tuple[str, ...]] = ("contextual_relevancy_verdicts.txt", *item_verdicts.VERDICT_PROMPTS)

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        passages: list[Json] = [cut(text, self.longest_text) for text in case.retrieval_context]
        beside = build_judge_input(case, ("input",), self.longest_text)
        weigh = self.verdicts == "probabilities"
        runs = split([size_of(passage) for passage in passages], longest_field(self.longest_text))[: self.max_windows]
        verdicts = [
            verdict
            for run in runs
            for verdict in await item_verdicts.ask_verdicts(
                judge,
                self.prompts[0],
                item_verdicts.ItemWindow(items=passages[run.start : run.stop], materials=(beside.content,)),
                weigh=weigh,
            )
        ]
        helps = [verdict.counts(frozenset({"yes"})) for verdict in verdicts]
        value = min(1.0, average_precision(helps))
        details: dict[str, Json] = {
            "items": [
                item_verdicts.item_details(item, verdict) for item, verdict in zip(passages, verdicts, strict=False)
            ]
        }
        if len(verdicts) < len(passages):
            details["left_out"] = len(passages) - len(verdicts)
        if beside.truncated or passages != list(case.retrieval_context) or "left_out" in details:
            details["truncated"] = True
        places = ", ".join(str(at) for at, share in enumerate(helps, start=1) if share >= 0.5)
        return Score(
            value=value,
            raw_score=value,
            explanation=f"Of {len(helps)} passages those that help are {places or 'none'}.",
            method=item_verdicts.method_of(verdicts),
            details=details,
        )


def average_precision(helps: Sequence[float]) -> float:
    """The mean, over the places that help, of the share that helps up to there; 0 if none does.

    With probabilities instead of 0 and 1 it is the sum of h_k (h_1 + … + h_k) / k over the sum of h_k.
    """
    total = sum(helps)
    precisions = (helpful / rank for rank, helpful in enumerate(accumulate(helps), start=1))
    return sum(help_ * precision for help_, precision in zip(helps, precisions, strict=True)) / total if total else 0.0
